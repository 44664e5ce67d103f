"""What one user's pipelines may take: of the scheduler's memory, its disk and its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from service_world import CONFIG, OnDemand, ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.pipelines import Pipelines
from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.errors import Misconfigured, TooLarge, TooManyRequests
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.scripts import frameworks
from gpucommons.scheduler.service.in_memory.submit_and_upload_allowances import SubmitLimit, uploads
from gpucommons.scheduler.service.jobs import environments, jobs
from gpucommons.scheduler.service.pipelines import inputs, pipelines
from gpucommons.scheduler.service.pipelines import steps as stepping
from gpucommons.scheduler.service.pipelines.copies import Copies

READS: tuple[dict[str, Any], ...] = (
    {"name": "a"},
    {"name": "b", "inputs": [{"step": "a", "path": "."}]},
)


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    made = ServiceWorld(tmp_path)
    made.script = Script(run_ms=1000)
    return made


def run(world: ServiceWorld, *steps: dict[str, Any], by: str = "ann") -> None:
    request = {"name": "nightly", "steps": [{"job": a_request(), **step} for step in steps]}
    asked = models.PipelineRequest.model_validate(request)
    pipelines.submit_pipeline(world.service, world.principal(by), asked, key=None)


def states(world: ServiceWorld, *, seconds: int) -> list[str]:
    """Where the steps stand after a while of looks."""
    upkeep = Pipelines(world.service, epoch=lambda: world.loop.epoch, copies=Copies(OnDemand()))
    for _ in range(seconds):
        upkeep.step()
        world.pass_time(1000)
    ann = world.principal("ann")
    found = pipelines.pipeline(world.service, ann, "ann", "nightly-1")
    return [step.state for step in found.steps]


def test_a_small_request_makes_no_huge_pipeline(world: ServiceWorld) -> None:
    many = [str(number) for number in range(40)]
    with pytest.raises(Misconfigured, match="inputs: these are 1,600 with all combinations"):
        run(world, {"name": "a", "each": {"S": many}}, {**READS[1], "each": {"S": many}})
    large = a_request(env={f"V{number}": "x" * 8000 for number in range(7)})
    with pytest.raises(TooLarge, match="they are more than 2 MiB"):
        run(world, {"name": "a", "job": large, "each": {"S": many}})
    object.__setattr__(world.service, "submits", SubmitLimit(per_hour=30))
    with pytest.raises(TooManyRequests, match="as many jobs within one hour"):
        run(world, {"name": "a", "job": large, "each": {"S": many[:5]}})
    assert world.store.pipelines.of(UserName("ann")) == ()


def test_what_steps_read_counts_as_uploads_of_their_owner(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "results", lambda *_: iter(()))
    object.__setattr__(world.service, "uploads", uploads(0))
    monkeypatch.setattr(inputs._Writing, "take", lambda *_: None)
    run(world, *READS)
    assert states(world, seconds=5) == ["succeeded", "waiting"]
    object.__setattr__(world.service, "uploads", uploads(1))
    assert states(world, seconds=15) == ["succeeded", "succeeded"]


def test_who_may_submit_no_more_has_no_inputs_copied(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[object] = []

    def with_inputs(*_: object) -> str:
        copied.append(1)
        return world.bring(b"")

    where = "gpucommons.scheduler.service.pipelines.steps.with_inputs"
    monkeypatch.setattr(where, with_inputs)
    run(world, *READS)
    assert states(world, seconds=1) == ["succeeded", "waiting"]
    object.__setattr__(world.service, "submits", SubmitLimit(per_hour=1))
    assert (states(world, seconds=5), copied) == (["succeeded", "waiting"], [])
    object.__setattr__(world.service, "submits", SubmitLimit())
    assert (states(world, seconds=15), copied) == (["succeeded", "succeeded"], [1])


def test_a_script_is_read_once_for_all_steps_that_run_it(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def script(_service: object, request: models.JobRequest) -> frameworks.Script:
        read.append(request.roles[0].command[1])
        return frameworks.Script()

    monkeypatch.setattr(environments, "_script", script)
    jobs = [a_request(role={"command": ["python", name], "count": 2}) for name in ("a.py", "b.py")]
    run(
        world,
        {"name": "a", "job": jobs[0], "each": {"S": ["1", "2"]}},
        {"name": "b", "job": jobs[0]},
        {"name": "c", "job": jobs[1]},
    )
    assert sorted(read) == ["a.py", "b.py"]


def test_a_step_that_waits_for_a_cap_is_tried_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = ServiceWorld(tmp_path, config={**CONFIG, "policy": {"max_pending_per_user": 1}})
    run(world, {"name": "a"}, {"name": "b"})
    later = a_request(name="other", not_before_ms=world.now_ms + 3_600_000)
    jobs.submit(world.service, world.principal("ann"), later, key=None)
    tried: list[int] = []
    made = stepping.submit_step

    def submit_step(service: Any, pipeline: Any, step: Any, *others: Any) -> Any:
        if step.name == "a":
            tried.append((world.now_ms - began_ms) // 1000)
        return made(service, pipeline, step, *others)

    monkeypatch.setattr("gpucommons.scheduler.background_tasks.pipelines.submit_step", submit_step)
    began_ms = world.now_ms
    assert states(world, seconds=300) == ["waiting", "waiting"]
    assert tried == [0, 5, 15, 35, 75, 155, 275]


def test_what_is_copied_for_one_owner_keeps_no_other_waiting(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []

    def with_inputs(_service: object, owner: Principal, *_: object) -> str:
        copied.append(owner.name)
        return world.bring(b"", by=owner.name)

    where = "gpucommons.scheduler.service.pipelines.steps.with_inputs"
    monkeypatch.setattr(where, with_inputs)
    for by in ("ann", "ann", "bob"):
        run(world, *READS, by=by)
    pool = OnDemand(waits=True)
    upkeep = Pipelines(world.service, epoch=lambda: world.loop.epoch, copies=Copies(pool))

    def looked(by: str, name: str = "nightly-1") -> tuple[str, str]:
        for _ in range(5):
            upkeep.step()
            world.pass_time(1000)
        step = pipelines.pipeline(world.service, world.principal(by), by, name).steps[1]
        return step.state, step.text

    copying = ("waiting", "What it reads is being copied.")
    # Nobody waits for a copy, and of one owner there is one at a time.
    assert [looked("ann"), looked("ann", "nightly-2"), looked("bob")] == [copying] * 3
    assert pool.waiting == 2
    pool.run_one()
    assert [looked("ann")[0], looked("ann", "nightly-2"), looked("bob")] == [
        "succeeded", copying, copying,
    ]  # fmt: skip
    pool.run_one()
    assert (looked("bob")[0], copied) == ("succeeded", ["ann", "bob"])
    pool.run_one()
    assert looked("ann", "nightly-2")[0] == "succeeded"


def test_what_was_copied_for_a_step_that_waits_is_not_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = ServiceWorld(tmp_path, config={**CONFIG, "policy": {"max_pending_per_user": 1}})
    world.script = Script(run_ms=1000)
    copied: list[object] = []

    def with_inputs(*_: object) -> str:
        copied.append(1)
        return world.bring(b"")

    where = "gpucommons.scheduler.service.pipelines.steps.with_inputs"
    monkeypatch.setattr(where, with_inputs)
    run(world, *READS)
    upkeep = Pipelines(world.service, epoch=lambda: world.loop.epoch, copies=Copies(OnDemand()))
    upkeep.step()
    later = a_request(name="other", not_before_ms=world.now_ms + 60_000)
    jobs.submit(world.service, world.principal("ann"), later, key=None)
    for _ in range(120):
        world.pass_time(1000)
        upkeep.step()
    step = pipelines.pipeline(world.service, world.principal("ann"), "ann", "nightly-1").steps[1]
    assert (step.state, copied) == ("succeeded", [1])


def test_a_step_that_was_cancelled_without_a_job_is_looked_up_once(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.script = Script(run_ms=10_000)
    run(world, {"name": "a"}, {"name": "b", "after": {"a": "ok"}})
    assert states(world, seconds=2) == ["submitted", "waiting"]
    ann = world.principal("ann")
    only_b = models.StepRef(step="b")
    pipelines.cancel_pipeline(world.service, ann, "ann", "nightly-1", only_b)
    asked, ask = list[str](), world.store.intent_with_key

    def counted(by: Any, key: str, fingerprint: str) -> Any:
        asked.append(key)
        return ask(by, key, fingerprint)

    monkeypatch.setattr(world.store, "intent_with_key", counted)
    assert states(world, seconds=6) == ["submitted", "cancelled"]
    assert len(asked) == 1
