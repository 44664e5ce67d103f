"""Looking at jobs and steering them, from a terminal."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from command_line import Cli, WatchedWorld, submitted
from service_world import done

from gpucommons.scheduler.cli.jobs.listing import describe
from gpucommons.scheduler.cli.present import by
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.core.whatif import quotes
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.models import JobView
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.store.base import LogPoint
from gpucommons.scheduler.working_folder.changes import ChangedFile, LeftOut
from gpucommons.scheduler.working_folder.giving_back import Outcome

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202evil\x7f"


def test_the_list_shows_live_jobs_and_with_all_finished_ones(cli: Cli, world: WatchedWorld) -> None:
    first, second = submitted(world), submitted(world, role={"milli_gpu": 1000})
    assert cli("jobs", "--team", "nlp").out == (
        "No job waits or runs. Those that are over too: gpucommons jobs --all.\n"
    )
    cli("cancel", first.name)
    world.pass_time(1000)

    live = cli("jobs").out.splitlines()
    everything = cli("jobs", "--all", "--output", "json").json

    assert live[0].split() == [
        "NAME", "TEAM", "OWNER", "STATE", "CLASS", "GPUS", "SUBMITTED", "WHY",
    ]  # fmt: skip
    assert [line.split()[:4] for line in live[1:]] == [[second.name, "vision", "ann", "running"]]
    assert {job["name"] for job in everything["jobs"]} == {first.name, second.name}


def test_jobs_of_a_team_that_there_is_not_are_no_empty_list(cli: Cli) -> None:
    refused = cli("jobs", "--team", "nosuch")

    assert refused.code == 4
    assert "There is no team 'nosuch'. Teams: nlp, " in refused.err


def test_a_long_list_is_fetched_page_by_page(
    cli: Cli, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [submitted(world).name for _ in range(5)]
    monkeypatch.setattr("gpucommons.scheduler.cli.jobs.listing._PAGE", 2)

    listed = cli("jobs", "--limit", "4", "--output", "json").json["jobs"]

    assert [job["name"] for job in listed] == names[:0:-1]


def test_a_simulated_gpu_is_called_so_and_a_loan_beside_a_free_guarantee_explained(
    cli: Cli, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submitted(world, role={"milli_gpu": 1000})
    view = jobs.job(world.service, world.principal("ann"), job.name)
    on_simulated = describe(view.model_copy(update={"simulated": True}))
    assert on_simulated.splitlines()[0] == f"{describe(view).splitlines()[0]} · simulated"
    assert "  Borrowed." not in cli("show", job.name).out

    why = "Borrowed. It runs on GPUs that are kept for notebooks."
    monkeypatch.setattr(quotes, "why_borrowed", lambda *_: why)
    shown = cli("show", job.name).out.splitlines()
    assert shown[-2] == f"  {why}"
    assert shown[-1].startswith("  asked ")


def test_how_a_job_ended_is_said_once(cli: Cli, world: WatchedWorld) -> None:
    world.script = Script(run_ms=1000)
    job = submitted(world)
    world.pass_time(5000)

    assert cli("show", job.name).out.count("It finished") == 1


class Made:
    """What jobs of this machine made."""

    def __init__(self, outcome: Outcome | None) -> None:
        self.found = outcome

    def outcome(self, job: Workload) -> Outcome | None:
        return self.found

    def is_coming(self, job: Workload) -> bool:
        return True

    def are_left(self, job: Workload) -> bool:
        return True

    def chunks(self, job: Workload, only: str = "") -> Iterator[bytes]:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            if only:
                archive.addfile(tarfile.TarInfo(only))
        yield stream.getvalue()


TOO_LARGE = LeftOut(
    path="model.bin", reason="(20.0 GiB) is beyond the 16.0 GiB that are copied for a job"
)
FILES = Outcome(
    folder="digits/out/results/digits-1",
    home="/home/ann",
    count=2,
    size_bytes=5,
    files=(ChangedFile(path="a", size_bytes=2), ChangedFile(path="b/c", size_bytes=3)),
    left_out_count=1,
    left_out=(LeftOut(path="link", reason="is a link"),),
)


def over(world: WatchedWorld, outcome: Outcome | None, *, cancelled: bool = False) -> JobView:
    """A job that is over, and what became of its files."""
    world.script = Script(run_ms=1000)
    object.__setattr__(world.service, "own_results", Made(outcome))  # its sockets have it already
    job = submitted(world, results_to="./digits/out")
    world.pass_time(100)
    if cancelled:
        done(jobs.cancel(world.service, world.principal("ann"), job.name))
    world.pass_time(60_000)
    return jobs.job(world.service, world.principal("ann"), job.name)


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (FILES, "2 files (5 B) are in digits/out/results/digits-1/ in the home folder of ann."),
        (None, "is being copied to digits/out/results/digits-1/ in the home folder of ann."),
        (Outcome(), "It wrote no files."),
        (
            Outcome(left_out_count=1, left_out=(TOO_LARGE,)),
            "Nothing that it wrote was copied: what was left out is named with the reason.",
        ),
        (
            Outcome(problem="results cannot be written: Read-only file system"),
            "was not copied: results cannot be written: Read-only file system. It is still with the"
            " job; bring it to another folder with: gpucommons results digits-1 --to FOLDER",
        ),
    ],
)
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_job_says_where_its_files_are_and_only_what_is_known(
    world: WatchedWorld, outcome: Outcome | None, text: str, cancelled: bool
) -> None:
    found = over(world, outcome, cancelled=cancelled).results
    assert found is not None
    assert found.text.endswith(text)


def test_a_job_that_runs_says_where_its_files_will_come(world: WatchedWorld) -> None:
    job = submitted(world)
    found = jobs.job(world.service, world.principal("ann"), job.name).results

    assert found is not None
    assert found.text == (
        "What it writes comes to results/digits-1/ in the home folder of ann when it is over."
    )


def test_a_colleague_sees_the_job_and_not_the_names_of_its_files(world: WatchedWorld) -> None:
    job = over(world, FILES)

    assert jobs.job(world.service, world.principal("alf"), job.name).results is None


def test_results_that_came_are_listed_and_not_fetched_again(world: WatchedWorld, cli: Cli) -> None:
    job = over(world, FILES)

    assert cli("results", job.name).out == (
        "2 files of digits-1 in /home/ann/digits/out/results/digits-1\n"
        "  a  2 B\n  b/c  3 B\n  not copied: link is a link\n"
    )
    assert (
        "  results: 2 files in /home/ann/digits/out/results/digits-1" in cli("show", job.name).out
    )


def test_of_results_that_are_all_too_large_each_is_named_with_the_limit(
    world: WatchedWorld, cli: Cli
) -> None:
    job = over(world, Outcome(left_out_count=1, left_out=(TOO_LARGE,)))

    assert job.results is not None
    assert job.results.state == "left_out"
    assert cli("results", job.name).out == (
        "Nothing that it wrote was copied: what was left out is named with the reason.\n"
        "  not copied: model.bin (20.0 GiB) is beyond the 16.0 GiB that are copied for a job\n"
    )


def test_results_that_stayed_are_brought_to_another_folder(
    world: WatchedWorld, cli: Cli, tmp_path: Path
) -> None:
    job = over(world, Outcome(problem="the disk is full"))

    assert "bring it to another folder with" in cli("results", job.name).err
    assert cli("results", job.name, "--to", str(tmp_path / "here")).out.startswith("0 files of")


def test_a_file_that_was_too_large_is_brought_by_its_name(
    world: WatchedWorld, cli: Cli, tmp_path: Path
) -> None:
    job = over(world, Outcome(left_out_count=1, left_out=(TOO_LARGE,)))

    brought = cli("results", job.name, "--file", "a & b/model.bin", "--to", str(tmp_path))
    assert brought.out == f"a & b/model.bin of {job.name} lies in {tmp_path}\n"
    assert (tmp_path / "a & b" / "model.bin").exists()
    (tmp_path / "model.bin").write_text("the user's own")
    brought = cli("results", job.name, "--file", "model.bin", "--to", str(tmp_path))
    name = f"model.{job.name}.bin"
    assert (tmp_path / name).exists()
    assert brought.out == (
        f"model.bin of {job.name} lies in {tmp_path} as {name}: a file of its own name was there and"
        " stays\n"
    )
    assert "--to FOLDER" in cli("results", job.name, "--file", "model.bin").err


@pytest.mark.parametrize("goal", ["accuracy", "accuracy=", "=0.5", "accuracy=nan"])
def test_a_goal_that_is_none_is_refused(world: WatchedWorld, cli: Cli, goal: str) -> None:
    job = submitted(world)
    assert "write --until accuracy=0.95" in cli("curve", job.name, "--until", goal).err
    assert cli("curve", job.name, "--until", "loss=0.1").out == (
        f"No curve of {job.name} is known yet.\n"
    )


def test_json_is_what_rest_answers(cli: Cli, world: WatchedWorld, state: Path) -> None:
    job = submitted(world)
    with SchedulerClient(f"unix:{state / 'api.sock'}", token="ann-token") as client:
        by_rest = {
            "jobs": client.send(calls.jobs(live=True)),
            "show": client.send(calls.job(job.name)),
        }

    assert cli("jobs", "--output", "json").json == by_rest["jobs"].model_dump(mode="json")
    assert cli("show", job.name, "--output", "json").json == by_rest["show"].model_dump(mode="json")
    assert cli("show", job.id).out == cli("show", job.name).out


def test_why_says_what_would_start_a_waiting_job(cli: Cli, world: WatchedWorld) -> None:
    held = submitted(world, role={"milli_gpu": 1000, "count": 4})
    waits = submitted(world, role={"milli_gpu": 1000, "count": 2})
    world.pass_time(1000)

    answer = cli("why", waits.name)
    reason = cli("show", waits.name, "--output", "json").json["reason"]

    assert answer.code == 0
    assert answer.out.startswith(f"{waits.name} waits: {reason['text']}")
    whole = cli("why", waits.name, "--output", "json").json
    asked = whole["reason"]
    assert (asked["code"], asked["text"], whole["position"]) == (reason["code"], reason["text"], 1)
    # A whole cycle is tried for whoever asks why; a list tells what the last look has found.
    assert asked["unblock"] == (
        "Would be next with ½ GPU per worker: others would be stopped for it."
    )
    assert "is running on n1" in cli("why", held.name).out


def test_a_time_to_come_is_one_that_people_read() -> None:
    now = datetime(2026, 11, 22, 21, 48)

    def ms(at: datetime) -> int:
        return int(at.timestamp() * 1000)

    for later, said in (
        (timedelta(hours=1), "22:48"),
        (timedelta(hours=2, minutes=12), "tomorrow 00:00"),
        (timedelta(days=2, hours=2), "Tue 24 Nov 23:48"),
    ):
        assert by(ms(now + later), ms(now)) == said


def test_what_no_limit_delays_is_said_to_start_by_a_readable_time(
    cli: Cli, world: WatchedWorld
) -> None:
    submitted(world, role={"milli_gpu": 1000, "count": 4}, max_run_s=7200)
    waits = submitted(world, role={"milli_gpu": 1000, "count": 4})
    world.pass_time(1000)
    (line,) = [line for line in cli("why", waits.name).out.splitlines() if "time limit" in line]
    assert re.fullmatch(
        r"Starts by (.* )?\d\d:\d\d, even if nothing ends before its time limit\.", line
    )


def test_a_job_is_paused_resumed_cancelled_and_run_again(cli: Cli, world: WatchedWorld) -> None:
    world.script = Script(stop_ms=0)
    job = submitted(world)
    states = []
    for command in ("pause", "resume", "cancel"):
        assert cli(command, job.name).code == 0
        world.pass_time(1000)
        states.append(cli("show", job.name, "--output", "json").json["state"])

    again = cli("again", job.name)

    assert states == ["paused", "running", "cancelled"]
    assert again.code == 0
    assert again.out.split()[0] != job.name
    resumed = cli("resume", job.name)
    assert resumed.code == 1
    assert "cancelled" in resumed.err


def test_a_job_that_waits_is_given_another_size_and_stays_the_same(
    cli: Cli, world: WatchedWorld
) -> None:
    world.script = Script(stop_ms=0)
    job = submitted(world, role={"milli_gpu": 1000})
    running = cli("resize", job.name, "--gpus", "½")
    assert (running.code, f"gpucommons pause {job.name}" in running.err) == (1, True)
    assert cli("pause", job.name).code == 0
    world.pass_time(1000)
    answer = cli("resize", job.name, "--gpus", "½", "--workers", "2")
    assert (answer.code, answer.out) == (0, f"{job.name}  paused  2 × ½ GPU\n")
    shown = cli("show", job.name, "--output", "json").json
    assert (shown["id"], shown["milli_gpu"], shown["workers"]) == (job.id, 1000, 2)
    for unclear in ((), ("8", "--gpus", "1")):
        refused = cli("resize", job.name, *unclear)
        assert (refused.code, "gpucommons resize JOB --gpus N" in refused.err) == (2, True)


def test_why_of_what_is_over_says_how_it_ended_and_where_its_log_is(
    cli: Cli, world: WatchedWorld
) -> None:
    world.script = Script(run_ms=1000, exit_code=3)
    broken = submitted(world, name="broken")
    world.pass_time(100)
    world.pass_time(2000)
    ended = cli("why", broken.name).out
    assert ended.startswith("broken-1 has failed: ")
    assert "3" in ended.splitlines()[0]
    assert ended.splitlines()[1:] == [
        "What it printed: gpucommons logs broken-1",
        "What it wrote: gpucommons results broken-1",
    ]
    world.pass_time(48 * 3_600_000)
    assert cli("why", broken.name).out == ended


def test_what_has_finished_is_called_so_as_on_every_screen(cli: Cli, world: WatchedWorld) -> None:
    world.script = Script(run_ms=1000, exit_code=0)
    done = submitted(world, name="fine")
    world.pass_time(100)
    world.pass_time(2000)
    assert cli("why", done.name).out.startswith("fine-1 has finished.\n")
    for command, would_be in (("cancel", "cancelled"), ("pause", "paused")):
        said = f"fine-1 has finished; it cannot be {would_be}. It can be run again."
        assert said in cli(command, done.name).err


@pytest.mark.parametrize("command", ["show", "why", "logs", "cancel", "pause", "resume", "again"])
def test_unknown_jobs_and_those_of_others_are_told_alike(
    cli: Cli, world: WatchedWorld, command: str
) -> None:
    job = submitted(world)
    world.pass_time(1000)

    for ref in ("nothing-7", "01931c3e-0000-7000-8000-000000000000", f"nlp/{job.name}"):
        answer = cli(command, ref)
        assert (answer.code, answer.out) == (4, "")
        assert answer.err.startswith("gpucommons: ")
    foreign = cli(command, job.id, by="bob")
    assert (foreign.code, foreign.out) == (4, "")
    assert cli("show", job.name, "--output", "json").json["state"] == "running"


@pytest.mark.parametrize("ref", ["../etc", "<b>", "A job", "\x1b[2J", "x" * 200, "-"])
def test_what_is_no_name_is_refused(cli: Cli, ref: str) -> None:
    answer = cli("show", ref)

    assert answer.code in (2, 4)
    assert "\x1b" not in answer.err
    assert "Traceback" not in answer.err


def test_no_answer_can_take_over_the_terminal(cli: Cli, world: WatchedWorld) -> None:
    world.script = Script(lines=(f"loss {ESCAPES}",), run_ms=10)
    job = submitted(world, env={"NOTE": ESCAPES})
    world.pass_time(1000)

    answers = [
        cli("logs", job.name),
        cli("logs", job.name, "--output", "json"),
        cli("show", job.name, "--output", "json"),
        cli("logs", "-f", job.name),
    ]

    for answer in answers:
        assert not set(answer.out) & set("\x1b\x07\x9b\u202e\x7f"), answer
    # JSON says the same all the same.
    assert answers[1].json == [f"loss {ESCAPES}"]
    assert json.loads(answers[2].out)["request"]["env"]["NOTE"] == ESCAPES


def test_a_job_in_its_attempts_is_described(cli: Cli, world: WatchedWorld) -> None:
    world.script = Script(run_ms=1000, exit_code=3)
    job = submitted(world, role={"milli_gpu": 500, "count": 2})
    world.pass_time(2000)

    text = cli("show", job.name).out

    assert text.startswith(f"{job.name}  failed")
    assert "team vision · 2 × ½ GPU" in text
    of_none = submitted(world, role={"milli_gpu": 0}).name
    assert "team vision · CPU only" in cli("show", of_none).out
    assert "attempt 1 on n1" in text


def test_it_is_told_how_tightly_a_jobs_gpus_lie_together(cli: Cli, world: WatchedWorld) -> None:
    job = submitted(world, role={"milli_gpu": 2000})
    world.pass_time(2000)
    assert "attempt 1 on n1 (2 GPUs on one node, links not known)" in cli("show", job.name).out


def test_a_curve_has_one_column_of_epochs_and_names_its_other_sources(
    cli: Cli, world: WatchedWorld
) -> None:
    job = submitted(world)

    def point(at: int, source: str, unit: str, **metrics: float) -> LogPoint:
        return LogPoint(
            attempt_number=1, step=at, at_ms=Millis(0), metrics=metrics, source=source, unit=unit
        )

    reported = [point(at, "report", "", epoch=at, loss=1 / at) for at in (1, 2)]
    # Parts of epochs are stored in thousandths.
    printed = [point(1500, "log", "epoch", epoch=1.5, loss=0.6)]
    counted = [point(1_234_567, "tensorboard", "step", step=0, loss=0.5)]
    points = [*reported, *printed, *counted]
    world.store.add_points(world.epoch, {WorkloadId(job.id): points})

    assert cli("curve", job.name).out.splitlines() == [
        "source: report (--source: there is also tensorboard and log)",
        "ATTEMPT  EPOCH  loss",
        "1        1      1",
        "1        2      0.5",
    ]
    rows = {one: cli("curve", job.name, "--source", one).out for one in ("log", "tensorboard")}
    assert "EPOCH  loss\n1        1.5    0.6\n" in rows["log"]
    assert "STEP     step  loss\n1        1234567  0     0.5\n" in rows["tensorboard"]


def test_the_reader_may_leave_early(
    cli: Cli, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(world)

    def gone(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("gpucommons.scheduler.cli.jobs.listing.show", gone)
    monkeypatch.setattr("sys.stderr.close", lambda: None, raising=False)

    assert cli("jobs").code == 0
