"""What one user's pipelines may take: of the scheduler's memory, its disk and its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.errors import Misconfigured, TooLarge, TooManyRequests
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.scripts import frameworks
from gpucommons.scheduler.service.in_memory.allowance import SubmitLimit, uploads
from gpucommons.scheduler.service.jobs import environments
from gpucommons.scheduler.service.pipelines import inputs, pipelines
from gpucommons.scheduler.upkeep.pipelines import Pipelines

READS: tuple[dict[str, Any], ...] = (
    {"name": "a"},
    {"name": "b", "inputs": [{"step": "a", "path": "."}]},
)


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    made = ServiceWorld(tmp_path)
    made.script = Script(run_ms=1000)
    return made


def run(world: ServiceWorld, *steps: dict[str, Any]) -> None:
    request = {"name": "nightly", "steps": [{"job": a_request(), **step} for step in steps]}
    asked = models.PipelineRequest.model_validate(request)
    pipelines.submit_pipeline(world.service, world.principal("ann"), asked, key=None)


def states(world: ServiceWorld, *, seconds: int) -> list[str]:
    """Where the steps stand after a while of looks."""
    upkeep = Pipelines(world.service, epoch=lambda: world.loop.epoch)
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
    assert states(world, seconds=1) == ["submitted", "waiting"]
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
