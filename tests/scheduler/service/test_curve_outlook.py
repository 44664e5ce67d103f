"""When a job's metric likely comes to a goal, in words."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import a_node
from service_world import A_TRAINING, ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.errors import BadRequest, UnknownWorkload
from gpucommons.scheduler.service import advice
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


def told(world: ServiceWorld, metrics: list[dict[str, float]], **changes: Any) -> str:
    """One that told these, a step each minute."""
    request = a_request(**{"role": {"milli_gpu": 1000}, **changes})
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


def test_a_script_whose_steps_are_epochs_is_told_of_epochs(world: ServiceWorld) -> None:
    metrics = [{"accuracy": 0.9 - 0.8 * step**-0.5, "epoch": step} for step in range(1, 51)]
    found = asked(world, told(world, metrics), 0.82)
    assert found.unit == "epoch"
    assert found.text.endswith(" at epoch 50.")


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


RISING = [{"accuracy": 0.9 - 0.8 * step**-0.5} for step in range(1, 51)]


@pytest.fixture
def real(tmp_path: Path) -> ServiceWorld:
    """Four GPUs of a kind that is known, and none of them simulated."""
    quota = {"gpu": {"guaranteed_milli_gpu": 4000}}
    config = {
        "pools": [{"name": "gpu", "executor": "fake"}],
        "teams": [{"name": "vision", "members": ["ann"], "quotas": quota}],
    }
    node = a_node("n1", 4, pool="gpu")
    devices = tuple(replace(device, simulated=False) for device in node.devices)
    return ServiceWorld(tmp_path, config=config, nodes=(replace(node, devices=devices),))


def test_a_job_without_a_plan_says_what_its_own_attempts_show_of_twice_its_gpus(
    real: ServiceWorld,
) -> None:
    found = asked(real, told(real, RISING), 0.82)
    assert found.seconds is not None
    assert [(one.gpus, one.basis) for one in found.sizes] == [(1, "measured"), (2, "runs")]
    one, two = found.sizes
    assert one.seconds == found.seconds
    assert one.seconds.middle is not None
    assert two.seconds.middle is not None
    assert 0.4 * one.seconds.middle < two.seconds.middle < 1.2 * one.seconds.middle
    assert not found.simulated


def test_a_plans_formula_tells_of_each_number_of_gpus_that_it_may_have(
    real: ServiceWorld,
) -> None:
    ann = real.principal("ann")
    training = models.AdviceRequest.model_validate(A_TRAINING)
    offered = advice.advise(real.service, ann, training)
    view = offered if isinstance(offered, models.AdviceView) else offered.give_up()
    plan = next(one.id for one in view.plans if one.gpus == 2)
    found = asked(
        real, told(real, RISING, role={"milli_gpu": 2000}, plan=plan, pools=["gpu"]), 0.82
    )
    assert [(one.gpus, one.basis) for one in found.sizes] == [
        (1, "formula"),
        (2, "measured"),
        (4, "formula"),
    ]
    middles = [one.seconds.middle for one in found.sizes]
    assert all(one is not None for one in middles)
    assert middles == sorted(middles, reverse=True)  # type: ignore[type-var] # none is None


def test_where_nothing_is_ahead_or_gpus_are_simulated_no_other_number_is_named(
    world: ServiceWorld, real: ServiceWorld
) -> None:
    job = told(real, RISING)
    assert asked(real, job, 0.5).sizes == []
    assert asked(real, job, 0.99).sizes == []
    simulated = asked(world, told(world, RISING), 0.82)
    assert (simulated.sizes, simulated.simulated) == ([], True)
