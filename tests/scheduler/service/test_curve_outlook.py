"""When a job's metric likely comes to a goal, in words."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.errors import BadRequest, UnknownWorkload
from gpucommons.scheduler.service import curve_outlook as subject
from gpucommons.scheduler.service.curve_outlook import curve_outlook
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.store.base import LogPoint

PACE_MS = 60_000


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def a_job(world: ServiceWorld, points: int) -> str:
    """One whose accuracy follows a power law, a step each minute, and which overfits from step 20 on."""
    metrics = [
        {
            "accuracy": 0.9 - 0.8 * step**-0.5 + 0.001 * (-1) ** step,
            "loss": 2 / step,
            "val_loss": 0.5 + 0.001 * (step - 20) ** 2,
        }
        for step in range(1, points + 1)
    ]
    return told(world, metrics)


def told(world: ServiceWorld, metrics: list[dict[str, float]]) -> str:
    """One that told these, a step each minute."""
    request = a_request(role={"milli_gpu": 1000})
    job_id = jobs.submit(world.service, world.principal("ann"), request, key=None).id
    world.pass_time(1000)
    now_ms = world.now_ms
    points = [
        LogPoint(
            attempt_number=1, step=step, at_ms=Millis(now_ms + step * PACE_MS), metrics=numbers
        )
        for step, numbers in enumerate(metrics, start=1)
    ]
    world.store.add_points(world.loop.epoch, {WorkloadId(job_id): points})
    return job_id


def asked(world: ServiceWorld, ref: str, goal: float, by: str = "ann") -> models.CurveOutlook:
    return curve_outlook(world.service, world.principal(by), ref, metric="accuracy", goal=goal)


def test_a_goal_ahead_is_said_with_its_steps_and_its_time(world: ServiceWorld) -> None:
    found = asked(world, a_job(world, 50), 0.82)

    assert found.steps is not None
    assert found.steps.low is not None
    assert found.steps.high is not None
    assert found.steps.middle == pytest.approx(100, rel=0.1)
    assert found.steps.low <= found.steps.high
    assert found.seconds is not None
    assert found.seconds.high == pytest.approx((found.steps.high - 50) * 60, rel=0.01)
    assert found.text.startswith("accuracy likely comes to 0.82 at step ")
    assert " more at its pace; it is about 0.7" in found.text
    assert found.hints == [
        "val_loss was lowest at step 20 and has risen since, while loss fell: it learns its training"
        " data by heart (overfitting)."
    ]


def test_what_was_reached_is_told_and_what_likely_is_not(world: ServiceWorld) -> None:
    job = a_job(world, 50)
    assert asked(world, job, 0.5).text == "accuracy came to 0.5 at step 4."
    assert asked(world, job, 0.99).text.startswith(
        "accuracy likely does not come to 0.99 within 10 times the run so far;"
    )


def test_too_little_is_said_to_be(world: ServiceWorld) -> None:
    job = a_job(world, 5)
    assert asked(world, job, 0.95).text.startswith("Can't say yet when accuracy comes to 0.95")
    with pytest.raises(BadRequest, match="its curve has: accuracy, loss, val_loss"):
        curve_outlook(world.service, world.principal("ann"), job, metric="f1", goal=1.0)


def test_a_first_point_apart_from_the_others_is_no_way_to_a_goal(world: ServiceWorld) -> None:
    losses = [0.05, *(3.2 - 0.02 * step for step in range(39))]
    job = told(world, [{"loss": one} for one in losses])
    found = curve_outlook(world.service, world.principal("ann"), job, metric="loss", goal=0.5)
    assert found.reached_at is None
    assert found.text.startswith("loss likely does not come to 0.5 within")


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e200])
def test_what_is_no_number_is_left_out(world: ServiceWorld, odd: float) -> None:
    points = [{"loss": 2 / step, "val_loss": 3 / step} for step in range(1, 51)]
    points[0] = points[30] = {"loss": odd, "val_loss": odd}
    job = told(world, points)
    found = curve_outlook(world.service, world.principal("ann"), job, metric="loss", goal=0.5)
    assert found.text == "loss came to 0.5 at step 4."
    assert found.hints == []

    nothing = told(world, [{"loss": odd}])
    found = curve_outlook(world.service, world.principal("ann"), nothing, metric="loss", goal=0.5)
    assert found.text == "loss was no number at any step so far."


def test_each_point_of_a_long_curve_is_looked_at_a_few_times(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    class Point:
        attempt = 1

        def __init__(self, step: int) -> None:
            self.step = self.at_ms = step
            self.metrics = {"loss": 2 / step}

        @property
        def unit(self) -> str:
            nonlocal looks
            looks += 1
            return ""

    job = a_job(world, 5)
    points = [Point(step) for step in range(1, 3001)]
    curve = models.Curve.model_construct(points=points)
    monkeypatch.setattr(subject.logs, "curve", lambda *_: curve)
    curve_outlook(world.service, world.principal("ann"), job, metric="loss", goal=0.5)
    assert looks < 10 * len(points)


def test_nobody_else_reads_it(world: ServiceWorld) -> None:
    job = a_job(world, 5)
    with pytest.raises(UnknownWorkload):
        asked(world, job, 0.95, by="bob")
