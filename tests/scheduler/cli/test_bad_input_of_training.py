"""What launchers, sweeps, schedules and pipelines can never do: one sentence, at the terminal and over REST.

Each row is asked for in both ways, of the same API. Whatever is refused leaves nothing behind, and what
its owner had before goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from command_line import Cli, WatchedWorld, submitted

from gpucommons.scheduler.background_tasks.schedules import Schedules
from gpucommons.scheduler.core.model.types import State, WorkloadId
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.models import ErrorView

#: Somebody else's, of another team.
FOREIGN = "digits-1"
NOT_YOURS = f"There is no job '{FOREIGN}', or it is not yours to see."


@dataclass(frozen=True, kw_only=True)
class Bad:
    """The same mistake, as it is made in both places."""

    #: The command's words; ``FILE`` stands for a file with ``text``.
    command: tuple[str, ...]
    text: str = ""
    method: str = "POST"
    path: str
    body: dict[str, Any]
    says: str
    status: int = 422


def a_job(command: str = "python train.py", count: int = 1, **fields: Any) -> dict[str, Any]:
    return {"name": "train", "roles": [{"command": command.split(), "count": count}], **fields}


def gang(says: str, *words: str, command: str = "python train.py", **fields: Any) -> Bad:
    return Bad(
        command=("submit", "--workers", "2", "--gpus", "0", *words),
        path="jobs",
        body=a_job(command, 2, **fields),
        says=says,
    )


def of_foreign(option: str, field: str, *, many: bool = False) -> Bad:
    return Bad(
        command=("submit", "train.py", option, FOREIGN),
        path="jobs",
        body=a_job(**{field: [FOREIGN] if many else FOREIGN}),
        says=NOT_YOURS,
        status=404,
    )


def sweep(says: str, *, space: Any = None, trials: int = 2, hours: float | None = None) -> Bad:
    budget = {"trials": trials, **({} if hours is None else {"gpu_hours": hours})}
    fields = {
        "space": {"lr": [0.1, 0.2]} if space is None else space,
        "objective": {"metric": "accuracy"},
        "budget": budget,
        "sampler": "grid",
    }
    text = "\n".join(f"{name}: {value}" for name, value in fields.items())
    return Bad(
        command=("sweep", "submit", "FILE"),
        text=f"name: train\nrun: train.py\n{text}\n",
        path="sweeps",
        body={"job": a_job(), **fields},
        says=says,
    )


def schedule(says: str, cron: str, zone: str = "UTC") -> Bad:
    return Bad(
        command=("submit", "train.py", "--schedule", cron, "--time-zone", zone),
        method="PUT",
        path="schedules/ann/train",
        body={"schedule": cron, "time_zone": zone, "job": a_job()},
        says=says,
    )


def pipeline(says: str, text: str, **steps: dict[str, Any]) -> Bad:
    made = [{"name": name, "job": a_job(), **step} for name, step in steps.items()]
    return Bad(
        command=("pipeline", "run", "FILE"),
        text=f"name: nightly\nsteps:\n{text}",
        path="pipelines",
        body={"name": "nightly", "steps": made},
        says=says,
    )


BAD = {
    "ranks that disagree": gang(
        "launcher: torchrun --nnodes 3 and 2 workers disagree: leave --nnodes out, each worker is a node.",
        *("--", "torchrun", "--nnodes", "3", "train.py"),
        command="torchrun --nnodes 3 train.py",
    ),
    "a world size of its own": gang(
        "launcher: The variable WORLD_SIZE is set by the launcher torchrun, so that all workers agree:",
        *("train.py", "--launcher", "torchrun", "--env", "WORLD_SIZE=3"),
        launcher="torchrun",
        env={"WORLD_SIZE": "3"},
    ),
    "no such launcher": gang(
        "launcher: There is no launcher horovod here. Those there are: auto, plain, torchrun,",
        *("train.py", "--launcher", "horovod"),
        launcher="horovod",
    ),
    "an empty space": sweep("The search space has nothing in it: name at least one", space={}),
    "a parameter of nothing": sweep("A parameter without any value: list", space={"lr": []}),
    "a range of nothing": sweep(
        "space.lr: low 1 must be less than high 1", space={"lr": {"low": 1, "high": 1}}
    ),
    "no trials": sweep("budget.trials: must be at least 1", trials=0),
    "no GPU hours": sweep("budget.gpu_hours: must be more than 0", hours=0),
    "cron that never fires": schedule(
        "cron: '0 0 30 2 *' never comes: none of its months has that day.", "0 0 30 2 *"
    ),
    "cron that fires each second": schedule(
        "cron: '* * * * * *' has not five fields. Write minute, hour, day of month,", "* * * * * *"
    ),
    "a time zone of nowhere": schedule(
        "There is no time zone 'Mars/Base'. Write a name such as Europe/Berlin, or UTC.",
        *("0 2 * * *", "Mars/Base"),
    ),
    "a cycle": pipeline(
        "steps: these wait for each other: a → b → a. Take one of these arrows out.",
        "  a: {run: train.py, after: b}\n  b: {run: train.py, after: a}\n",
        a={"after": {"b": "ok"}},
        b={"after": {"a": "ok"}},
    ),
    "an input of somebody else's job": pipeline(
        f"a: there is no step '{FOREIGN}'. Steps: a.",
        f"  a: {{run: train.py, inputs: [{FOREIGN}/model.pt]}}\n",
        a={"inputs": [{"step": FOREIGN, "path": "model.pt"}]},
    ),
    "to go on from somebody else's job": of_foreign("--resume-from", "resume_from"),
    "to wait for somebody else's job": of_foreign("--after", "after", many=True),
}


@pytest.fixture
def http(state: Path) -> Iterator[httpx.Client]:
    transport = httpx.HTTPTransport(uds=str(state / "api.sock"))
    headers = {"Authorization": "token ann-token"}
    with httpx.Client(transport=transport, base_url="http://api/v1/", headers=headers) as client:
        yield client


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_the_same_sentence_at_the_terminal_and_over_rest_and_nothing_is_hurt(
    *,
    cli: Cli,
    http: httpx.Client,
    script: Path,
    world: WatchedWorld,
    monkeypatch: pytest.MonkeyPatch,
    bad: Bad,
) -> None:
    monkeypatch.chdir(script.parent)
    file = script.parent / "what.yaml"
    file.write_text(bad.text)
    assert submitted(world, by="bob").name == FOREIGN
    own = submitted(world, name="other")
    world.pass_time(2000)
    events = world.store.last_event_number()

    said = cli(*(str(file) if word == "FILE" else word for word in bad.command))
    answer = http.request(bad.method, bad.path, json=bad.body)
    assert (said.code, answer.status_code) == (4 if bad.status == 404 else 2, bad.status)
    assert bad.says in said.err.splitlines()[-1]
    assert bad.says in ErrorView.model_validate_json(answer.content).message

    assert world.store.last_event_number() == events
    assert world.cluster.workloads[WorkloadId(own.id)].state is State.RUNNING
    assert len(world.cluster.workloads) == 2
    assert world.store.sweeps.live() == ()
    for parents in ("schedules", "pipelines"):
        assert http.get(parents).json()[parents] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "gpucommons: Say how much is added: trials, gpu_hours or until_ms."),
        (("--trials", "-1"), "trials: must be at least 0."),
        (("--gpu-hours", "nan"), "gpu_hours: must be a number, not NaN or without end."),
        (("--hours", "nan"), "--hours must be more than 0 and at most 87,600"),
        (("--hours", "1e30"), "--hours must be more than 0 and at most 87,600"),
        (("--hours", "0"), "--hours must be more than 0 and at most 87,600"),
    ],
)
def test_nothing_can_be_added_that_is_none(cli: Cli, words: tuple[str, ...], says: str) -> None:
    refused = cli("sweep", "add", "digits-sweep-1", *words)
    assert (refused.code, says in refused.err) == (2, True)


def test_a_storm_of_posts_starts_so_many_runs_and_says_so(
    cli: Cli, http: httpx.Client, script: Path, world: WatchedWorld
) -> None:
    world.script = Script(run_ms=1000)
    when = ("--when-below", "accuracy=97", "--concurrency-policy", "Allow", "--gpus", "0")
    assert cli("submit", str(script), "--name", "retrain", *when).code == 0
    other = ("--schedule", "* * * * *", "--time-zone", "UTC", "--gpus", "0")
    assert cli("submit", str(script), "--name", "other", *other).code == 0
    upkeep = Schedules(world.service, epoch=lambda: world.epoch)
    for _ in range(30):
        for value in (98.0, 96.0):
            body = {"name": "accuracy", "value": value}
            assert http.post("schedules/ann/retrain/metrics", json=body).status_code == 200
        world.pass_time(11_000)
        upkeep.step()
    said = cli("schedule", "show", "retrain").out
    assert "Triggers had started 12 runs within an hour, as many as they may" in said
    names = [job["name"] for job in http.get("jobs", params={"live": False}).json()["jobs"]]
    assert sum(name.startswith("retrain-") for name in names) == 12
    assert sum(name.startswith("other-") for name in names) == 5, (
        "one that is at its time each minute"
    )
