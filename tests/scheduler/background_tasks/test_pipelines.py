"""Steps of pipelines start when what they need is there, once, whatever dies in between."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from service_world import CONFIG, OnDemand, ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.old_job_files import Known
from gpucommons.scheduler.background_tasks.pipelines import Pipelines
from gpucommons.scheduler.core.model.types import UserName, Workload
from gpucommons.scheduler.errors import (
    Forbidden,
    InvalidTransition,
    Misconfigured,
    NotFound,
    Unavailable,
)
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.service.jobs.jobs import JobFilter
from gpucommons.scheduler.service.pipelines import pipelines
from gpucommons.scheduler.service.pipelines import steps as stepping
from gpucommons.scheduler.service.pipelines.copies import Copies
from gpucommons.scheduler.store.base import WorkloadFilter

SECOND = 1000
DIAMOND: tuple[dict[str, Any], ...] = (
    {"name": "assembly", "after": {"cnn": "ok", "vit": "ok"}},
    {"name": "clean"},
    {"name": "cnn", "after": {"clean": "ok"}},
    {"name": "vit", "after": {"clean": "ok"}},
)

NEED_CLEAN = ("cnn", "vit", "assembly")


class Results:
    """What jobs left, by the names of their steps."""

    def __init__(self, **files: dict[str, bytes]) -> None:
        self.files = files

    def outcome(self, job: Workload) -> None:
        return None

    def is_coming(self, job: Workload) -> bool:
        return False

    def are_left(self, job: Workload) -> bool:
        return True

    def chunks(self, job: Workload, only: str = "") -> Iterator[bytes]:
        step = job.spec.name.split("-")[1]
        yield a_tar(self.files.get(step, {}))


def a_tar(files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return file.getvalue()


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def with_results(world: ServiceWorld, **files: dict[str, bytes]) -> None:
    object.__setattr__(world.service, "own_results", Results(**files))


def asked(*steps: dict[str, Any]) -> models.PipelineRequest:
    made = [{"job": a_request(role={"command": ["python", f"{s['name']}.py"]}), **s} for s in steps]
    return models.PipelineRequest.model_validate({"name": "nightly", "steps": made})


def run(world: ServiceWorld, *steps: dict[str, Any], key: str | None = None) -> str:
    ann = world.principal("ann")
    return pipelines.submit_pipeline(world.service, ann, asked(*steps), key=key).name


def look(world: ServiceWorld, times: int = 1) -> None:
    upkeep = Pipelines(world.service, epoch=lambda: world.loop.epoch, copies=Copies(OnDemand()))
    for _ in range(times):
        upkeep.step()
        world.pass_time(2 * SECOND)


def view(world: ServiceWorld, name: str = "nightly-1") -> models.PipelineView:
    return pipelines.pipeline(world.service, world.principal("ann"), "ann", name)


def states(world: ServiceWorld, name: str = "nightly-1") -> dict[str, str]:
    return {step.name: step.state for step in view(world, name).steps}


def names(world: ServiceWorld) -> list[str]:
    found = jobs.jobs(world.service, world.principal("ann"), JobFilter(), cursor=None)
    return sorted(job.name for job in found.jobs)


def files_of(world: ServiceWorld, name: str) -> dict[str, bytes]:
    where = WorkloadFilter(name=name)
    (job,) = world.store.workloads(where).items
    assert job.spec.snapshot is not None
    content = b"".join(world.service.snapshots.chunks(job.spec.snapshot))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr] # files


def test_steps_start_when_what_they_need_has_succeeded(world: ServiceWorld) -> None:
    world.script = Script(run_ms=5 * SECOND)
    assert run(world, *DIAMOND) == "nightly-1"
    look(world)
    assert states(world) == {
        "clean": "submitted",
        "cnn": "waiting",
        "vit": "waiting",
        "assembly": "waiting",
    }
    assert [step.text for step in view(world).steps][1] == "Waits for clean."
    look(world, 20)
    found = view(world)
    assert (found.state, {step.state for step in found.steps}) == ("succeeded", {"succeeded"})
    assert names(world) == [
        "nightly-assembly-1",
        "nightly-clean-1",
        "nightly-cnn-1",
        "nightly-vit-1",
    ]
    assert world.store.pipelines.due(world.service.now_ms()) == ()


def test_a_page_says_what_has_become_of_a_step_before_the_scheduler_has_looked_again(
    world: ServiceWorld,
) -> None:
    world.script = Script(run_ms=10 * SECOND)
    run(world, *DIAMOND)
    look(world)
    assert view(world).steps[0].job_state == "running"
    world.pass_time(60 * SECOND)
    clean = view(world).steps[0]
    assert (clean.state, clean.job_state) == ("succeeded", "succeeded")
    assert states(world) | {"clean": ""} == {"clean": "", **dict.fromkeys(NEED_CLEAN, "waiting")}
    assert [step.text for step in view(world).steps][1:3] == ["", ""], "they wait for nothing now"
    for _ in range(2):
        look(world)
        world.pass_time(60 * SECOND)
    found = view(world)
    assert (found.state, found.retry_from) == ("succeeded", None)
    assert found.ended_ms == world.service.now_ms(), "none of its jobs goes on"
    with pytest.raises(InvalidTransition, match="nightly-1 is over"):
        pipelines.cancel_pipeline(
            world.service, world.principal("ann"), "ann", "nightly-1", models.StepRef()
        )


def test_a_failed_step_blocks_what_needs_it_and_a_retry_goes_on_from_it(
    world: ServiceWorld,
) -> None:
    world.script = Script(run_ms=SECOND, exit_code=1)
    run(world, *DIAMOND)
    look(world, 4)
    assert states(world) == {
        "clean": "failed",
        "cnn": "blocked",
        "vit": "blocked",
        "assembly": "blocked",
    }
    found = view(world)
    assert (found.state, found.retry_from) == ("failed", "clean")
    assert [step.text for step in found.steps][1:] == [
        "Needs clean, which failed.",
        "Needs clean, which failed.",
        "Needs cnn, which is blocked.",
    ]
    world.script = Script(run_ms=SECOND)
    ann = world.principal("ann")
    again = pipelines.retry_pipeline(world.service, ann, "ann", "nightly-1", models.StepRef())
    assert {step.state for step in again.steps} == {"waiting"}
    assert (again.state, again.ended_ms, again.retry_from) == ("running", None, None)
    look(world, 12)
    assert {*states(world).values()} == {"succeeded"}
    assert [step.retries for step in view(world).steps] == [1, 1, 1, 1]
    # What succeeded is kept, and has nothing to retry.
    with pytest.raises(InvalidTransition, match="nothing to retry"):
        pipelines.retry_pipeline(world.service, ann, "ann", "nightly-1", models.StepRef())
    ref = models.StepRef(step="clean")
    with pytest.raises(InvalidTransition, match="clean of nightly-1 is succeeded"):
        pipelines.retry_pipeline(world.service, ann, "ann", "nightly-1", ref)


def test_some_steps_run_whatever_becomes_of_another_and_some_only_when_it_fails(
    world: ServiceWorld,
) -> None:
    world.script = Script(run_ms=SECOND, exit_code=1)
    run(
        world,
        {"name": "train"},
        {"name": "report", "after": {"train": "any"}},
        {"name": "alarm", "after": {"train": "failed"}},
    )
    look(world, 8)
    assert states(world) == {"train": "failed", "report": "failed", "alarm": "failed"}
    world.script = Script(run_ms=SECOND)
    run(world, {"name": "train"}, {"name": "alarm", "after": {"train": "failed"}})
    look(world, 6)
    assert states(world, "nightly-2") == {"train": "succeeded", "alarm": "skipped"}
    found = view(world, "nightly-2")
    assert (found.state, found.steps[1].text) == (
        "succeeded",
        "Runs only where train fails, and it did not.",
    )


def test_an_alarm_of_several_steps_goes_off_when_one_of_them_fails(world: ServiceWorld) -> None:
    world.script = Script(run_ms=SECOND, exit_code=1)
    run(
        world,
        {"name": "bad"},
        {"name": "none", "after": {"bad": "ok"}},
        {"name": "alarm", "after": {"bad": "failed", "none": "failed"}},
        {"name": "quiet", "after": {"none": "failed"}},
    )
    look(world, 8)
    assert states(world) == {
        "bad": "failed", "none": "blocked", "alarm": "failed", "quiet": "skipped"
    }  # fmt: skip


def test_a_step_reads_the_results_of_others_beside_its_own_files(world: ServiceWorld) -> None:
    world.script = Script(run_ms=SECOND)
    with_results(
        world, cnn={"model.pt": b"cnn", "log.txt": b"x"}, vit={"out/a": b"1", "out/b": b"2"}
    )
    own = world.bring(a_tar({"assemble.py": b"print(1)", "cnn.pt": b"old"}))
    run(
        world,
        {"name": "cnn"},
        {"name": "vit"},
        {
            "name": "assembly",
            "job": a_request(snapshot=own),
            "inputs": [
                {"step": "cnn", "path": "model.pt", "to": "cnn.pt"},
                {"step": "vit", "path": "out"},
            ],
        },
    )
    look(world, 8)
    assert {*states(world).values()} == {"succeeded"}
    assert files_of(world, "nightly-assembly-1") == {
        "cnn.pt": b"cnn",
        "inputs/vit/out/a": b"1",
        "inputs/vit/out/b": b"2",
        "assemble.py": b"print(1)",
    }
    version = view(world).steps[-1].version
    assert version is not None
    # What it read is kept with the job that did, and claimed by its owner alone.
    assert version in Known(world.store)
    assert world.store.claims(version, frozenset({UserName("bob")})).uploaded is False


def test_results_that_lead_outside_come_nowhere(world: ServiceWorld) -> None:
    world.script = Script(run_ms=SECOND)
    evil = {"../../.bashrc": b"1", "/etc/passwd": b"2", "a/../../b": b"3", "good": b"4"}
    with_results(world, cnn=evil)
    run(world, {"name": "cnn"}, {"name": "assembly", "inputs": [{"step": "cnn", "path": "."}]})
    look(world, 6)
    assert files_of(world, "nightly-assembly-1") == {"inputs/cnn/good": b"4"}


def test_a_step_whose_input_was_not_left_says_what_was(world: ServiceWorld) -> None:
    world.script = Script(run_ms=SECOND)
    with_results(world, cnn={"weights.pt": b"1"})
    wanted = {"step": "cnn", "path": "model.pt"}
    run(world, {"name": "cnn"}, {"name": "assembly", "inputs": [wanted]})
    look(world, 6)
    last = view(world).steps[-1]
    assert (last.state, last.text) == ("refused", "cnn left no model.pt. It left weights.pt.")
    # Results that are too large are refused, too, and nothing else is hurt.
    object.__setattr__(world.service.snapshots, "max_bytes", 10)
    with_results(world, cnn={"model.pt": b"1" * 11})
    ref = models.StepRef(step="assembly")
    pipelines.retry_pipeline(world.service, world.principal("ann"), "ann", "nightly-1", ref)
    look(world, 2)
    assert "more than the 0 MiB that a job may bring along" in view(world).steps[-1].text
    assert states(world)["cnn"] == "succeeded"


def test_results_of_more_files_than_are_read_are_refused_and_not_cut(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.script = Script(run_ms=SECOND)
    with_results(world, cnn={"a": b"1", "b": b"2", "c": b"3"})
    monkeypatch.setattr("gpucommons.scheduler.service.pipelines.inputs.MAX_MEMBERS", 2)
    run(world, {"name": "cnn"}, {"name": "assembly", "inputs": [{"step": "cnn", "path": "."}]})
    look(world, 6)
    last = view(world).steps[-1]
    assert last.state == "refused"
    assert last.text == (
        "The files of cnn are more than the 2 that are read: leave them as one archive."
    )


def test_fan_out_makes_a_step_of_each_combination(world: ServiceWorld) -> None:
    world.script = Script(run_ms=SECOND)
    with_results(world, train={"model.pt": b"m"})
    run(
        world,
        {"name": "train", "each": {"SEED": ["1", "2"], "LR": ["0.1"]}},
        {"name": "best", "inputs": [{"step": "train", "path": "model.pt", "to": "models"}]},
    )
    look(world, 8)
    assert states(world) == {"train-1": "succeeded", "train-2": "succeeded", "best": "succeeded"}
    assert sorted(files_of(world, "nightly-best-1")) == [
        "models/train-1/model.pt",
        "models/train-2/model.pt",
    ]
    seeds = {
        job.spec.name: dict(job.spec.env) for job in world.store.workloads(WorkloadFilter()).items
    }
    assert seeds["nightly-train-2-1"] == {"SEED": "2", "LR": "0.1"}


def test_cancel_ends_a_step_and_what_is_below_it_and_nothing_else(world: ServiceWorld) -> None:
    world.script = Script(run_ms=100 * SECOND)
    run(world, {"name": "a"}, {"name": "b"}, {"name": "c", "after": {"a": "any"}})
    look(world)
    ann = world.principal("ann")
    ref = models.StepRef(step="a")
    pipelines.cancel_pipeline(world.service, ann, "ann", "nightly-1", ref)
    look(world, 3)
    assert states(world) == {"a": "cancelled", "b": "submitted", "c": "cancelled"}
    pipelines.cancel_pipeline(world.service, ann, "ann", "nightly-1", models.StepRef())
    look(world, 3)
    assert view(world).state == "cancelled"
    with pytest.raises(InvalidTransition, match="nothing of it can be cancelled"):
        pipelines.cancel_pipeline(world.service, ann, "ann", "nightly-1", models.StepRef())


def test_a_scheduler_that_dies_between_submit_and_record_starts_nothing_twice(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.script = Script(run_ms=100 * SECOND)
    run(world, {"name": "a"}, {"name": "b"})

    def dies(*_arguments: object, **_named: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(world.store.pipelines, "stand", dies)
        with pytest.raises(KeyboardInterrupt):
            look(world)
    assert (names(world), states(world)["a"]) == (["nightly-a-1", "nightly-b-1"], "waiting")
    # Its owner gives one up before the next scheduler looks: that job is found, and ends.
    ref = models.StepRef(step="a")
    pipelines.cancel_pipeline(world.service, world.principal("ann"), "ann", "nightly-1", ref)
    look(world, 3)
    assert (names(world), states(world)) == (
        ["nightly-a-1", "nightly-b-1"],
        {"a": "cancelled", "b": "submitted"},
    )


def test_a_retry_during_a_look_leaves_no_job_of_the_earlier_try_running(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.script = Script(run_ms=100 * SECOND)
    run(world, {"name": "a"}, {"name": "b", "after": {"a": "any"}})
    ann = world.principal("ann")
    look(world)
    ref = models.StepRef(step="a")
    pipelines.cancel_pipeline(world.service, ann, "ann", "nightly-1", ref)
    look(world, 2)
    assert states(world) == {"a": "cancelled", "b": "cancelled"}
    pipelines.retry_pipeline(world.service, ann, "ann", "nightly-1", ref)
    made = stepping.submit_step

    def submit_step(service: Any, pipeline: Any, *others: Any) -> models.JobView:
        job = made(service, pipeline, *others)
        monkeypatch.undo()
        (piped,) = world.store.pipelines.of(UserName("ann"))
        retried = {**piped.pipeline.retried, "a": 2}
        found = piped.pipeline
        changed = replace(found, retried=retried)
        world.store.pipelines.put(changed, next_ms=world.now_ms, before=found)
        return job

    monkeypatch.setattr("gpucommons.scheduler.background_tasks.pipelines.submit_step", submit_step)
    look(world, 3)
    found = world.store.workloads(WorkloadFilter()).items
    assert sorted((job.spec.name, job.state.value) for job in found) == [
        ("nightly-a-1", "cancelled"),
        ("nightly-a-2", "cancelled"),
        ("nightly-a-3", "running"),
    ]
    assert states(world) == {"a": "submitted", "b": "waiting"}


def test_a_repeated_submit_runs_no_other(world: ServiceWorld) -> None:
    assert [run(world, {"name": "a"}, key="once") for _ in range(2)] == ["nightly-1"] * 2
    assert run(world, {"name": "a"}, key="again") == "nightly-2"


def test_a_scheduler_that_dies_before_a_pipeline_is_stored_stores_it_when_asked_again(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_arguments: object, **_named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(world.store.pipelines, "put", dies)
        with pytest.raises(KeyboardInterrupt):
            run(world, {"name": "a"}, key="once")
    assert [run(world, {"name": "a"}, key="once") for _ in range(2)] == ["nightly-1"] * 2
    assert len(world.store.pipelines.of(UserName("ann"))) == 1


def test_while_nobody_knows_its_owner_a_step_waits(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.script = Script(run_ms=SECOND)
    run(world, {"name": "a"})

    def hub_is_away(_user: UserName) -> frozenset[str]:
        message = "JupyterHub does not answer."
        raise Unavailable(message)

    with monkeypatch.context() as patched:
        patched.setattr(world.directory, "groups_of", hub_is_away)
        look(world, 2)
    assert states(world) == {"a": "waiting"}
    look(world, 3)
    assert states(world) == {"a": "succeeded"}


def test_while_its_owner_has_as_many_waiting_as_may_a_step_waits(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path, config={**CONFIG, "policy": {"max_pending_per_user": 1}})
    world.script = Script(run_ms=SECOND)
    ann = world.principal("ann")
    run(world, {"name": "a"}, {"name": "b", "after": {"a": "ok"}})
    later = a_request(name="other", not_before_ms=world.now_ms + 5 * SECOND)
    jobs.submit(world.service, ann, later, key=None)
    look(world, 2)
    assert states(world) == {"a": "waiting", "b": "waiting"}
    assert "policy max_pending_per_user" in view(world).steps[0].text
    look(world, 12)
    assert {*states(world).values()} == {"succeeded"}


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (
            ({"name": "a", "after": {"b": "ok"}}, {"name": "b", "after": {"a": "ok"}}),
            r"these wait for each other: (a → b → a|b → a → b)\. Take one of these arrows out",
        ),
        (({"name": "a", "after": {"a": "any"}},), "these wait for each other: a → a"),
        (({"name": "a", "after": {"x": "ok"}},), "a: there is no step 'x'. Steps: a."),
        (({"name": "a"}, {"name": "a"}), "there are two called a"),
        (
            ({"name": "a"}, {"name": "b", "inputs": [{"step": "digits-7", "path": "x"}]}),
            "b: there is no step 'digits-7'",
        ),
        (({"name": "a", "job": a_request(not_before_ms=5)},), "a: not_before_ms is of a job alone"),
        (({"name": "a", "job": a_request(after_any=["x"])},), "a: after_any is of a job alone"),
        (
            ({"name": "a", "job": a_request(after_failed=["x"])},),
            "a: after_failed is of a job alone",
        ),
        (({"name": "a", "each": {"SEED": []}},), "SEED has no values"),
        (({"name": "a", "each": {"S": ["1"] * 101}},), "these are 101 with all combinations"),
        (
            (
                {"name": "a"},
                {
                    "name": "b",
                    "inputs": [{"step": "a", "path": "."}, {"step": "a", "path": "x", "to": "y"}],
                },
            ),
            "x of a is asked for twice",
        ),
        (
            (
                {"name": "a"},
                {"name": "c"},
                {
                    "name": "b",
                    "inputs": [
                        {"step": "a", "path": "x", "to": "m"},
                        {"step": "c", "path": "x", "to": "m"},
                    ],
                },
            ),
            "c and a would both come to m",
        ),
    ],
)
def test_what_can_never_run_is_refused_when_it_is_written(
    world: ServiceWorld, steps: tuple[dict[str, Any], ...], says: str
) -> None:
    with pytest.raises(Misconfigured, match=says):
        run(world, *steps)
    assert world.store.pipelines.of(UserName("ann")) == ()


def test_others_see_no_pipeline_and_a_lead_cancels_but_does_not_retry(world: ServiceWorld) -> None:
    world.script = Script(run_ms=SECOND, exit_code=1)
    run(world, {"name": "a"})
    bob, ada = world.principal("bob"), world.principal("ada")
    assert pipelines.pipelines(world.service, bob).pipelines == []
    with pytest.raises(NotFound, match="no pipeline 'nightly-1' of ann"):
        pipelines.pipeline(world.service, bob, "ann", "nightly-1")
    pipelines.cancel_pipeline(world.service, ada, "ann", "nightly-1", models.StepRef())
    look(world, 2)
    with pytest.raises(Forbidden, match="only they retry it"):
        pipelines.retry_pipeline(world.service, ada, "ann", "nightly-1", models.StepRef())


def test_a_pipeline_that_fails_to_be_read_keeps_no_other_from_its_turn(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.script = Script(run_ms=SECOND)
    run(world, {"name": "a"})
    run(world, {"name": "b"})
    made = stepping.submit_step

    def submit_step(service: Any, pipeline: Any, *others: Any) -> models.JobView:
        if pipeline.name == "nightly-1":
            raise ValueError("nobody foresaw this")
        return made(service, pipeline, *others)

    monkeypatch.setattr("gpucommons.scheduler.background_tasks.pipelines.submit_step", submit_step)
    look(world, 3)
    assert (states(world), states(world, "nightly-2")) == ({"a": "waiting"}, {"b": "succeeded"})
