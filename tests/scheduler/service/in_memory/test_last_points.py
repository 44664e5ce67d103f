"""What a script printed just before its end is what its job is said to have come to."""

from __future__ import annotations

from typing import Any

import pytest
from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.state import ProgressReported
from gpucommons.scheduler.core.model.types import REPORTED, AttemptId, Millis, Progress, WorkloadId
from gpucommons.scheduler.executors.fake_world import Script
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.store.base import LogPoint

_MINUTE_MS = 60_000


@pytest.fixture
def world(world: ServiceWorld) -> ServiceWorld:
    world.script = Script(run_ms=_MINUTE_MS)
    return world


def ended(world: ServiceWorld, *, source: str = "log") -> str:
    """A job whose last progress was told at epoch 2 of 3."""
    job = jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    world.pass_time(1000)
    attempt = world.cluster.workloads[WorkloadId(job.id)].attempts[-1]
    progress = Progress(
        step=2,
        total_steps=3,
        metrics={"accuracy": 0.42, "epoch": 2.0},
        at_ms=Millis(world.now_ms),
        source=source,
        unit="epoch",
    )
    world.loop.observe(
        ProgressReported(attempt_id=AttemptId(attempt.attempt_id), progress=progress)
    )
    world.pass_time(2 * _MINUTE_MS)
    return job.id


def printed(world: ServiceWorld, job: str, **changes: Any) -> None:
    """The log's last line, read when the job was over."""
    point: dict[str, Any] = {
        "attempt_number": 1,
        "step": 3,
        "at_ms": Millis(world.now_ms),
        "metrics": {"accuracy": 0.62, "epoch": 3.0},
        "source": "log",
        "unit": "epoch",
    }
    points = [LogPoint(**{**point, **changes})]
    world.store.add_points(world.loop.epoch, {WorkloadId(job): points})


def shown(world: ServiceWorld, job: str) -> models.ProgressView:
    """The same on its page and in a list."""
    ann = world.principal("ann")
    one = jobs.job(world.service, ann, job)
    (row,) = jobs.jobs(world.service, ann, jobs.JobFilter(), cursor=None).jobs
    assert one.state == "succeeded"
    assert one.progress is not None
    assert row.progress == one.progress
    return one.progress


def test_a_line_that_was_read_after_the_end_counts(world: ServiceWorld) -> None:
    job = ended(world)
    assert shown(world, job).step == 2
    printed(world, job)

    found = shown(world, job)

    assert (found.step, found.total_steps) == (3, 3)
    assert found.metrics == {"accuracy": 0.62, "epoch": 3.0}


def test_a_fraction_of_an_epoch_is_said_in_whole_ones(world: ServiceWorld) -> None:
    job = ended(world)
    printed(world, job, step=2500, metrics={"accuracy": 0.5, "epoch": 2.5})

    assert shown(world, job).step == 2


@pytest.mark.parametrize("changes", [{"unit": "line", "step": 40}, {"attempt_number": 0}])
def test_counted_lines_and_other_attempts_say_nothing(
    world: ServiceWorld, changes: dict[str, Any]
) -> None:
    job = ended(world)
    printed(world, job, **changes)

    assert shown(world, job).metrics["accuracy"] == 0.42


def test_what_the_script_itself_reported_stays(world: ServiceWorld) -> None:
    job = ended(world, source=REPORTED)
    printed(world, job)

    assert shown(world, job).metrics["accuracy"] == 0.42


def test_the_last_point_of_a_job_that_ended_long_ago_is_read_once(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ended(world)
    printed(world, job)
    world.pass_time(11 * _MINUTE_MS)
    assert shown(world, job).step == 3
    monkeypatch.setattr(world.store, "points", None)

    assert shown(world, job).step == 3
