"""A trial of a plan stands beside it and teaches, and a clock that jumps moves no seconds of steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import a_node
from judged_runs import MINUTE
from service_world import A_TRAINING, ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.plan_outcomes import Judging
from gpucommons.scheduler.core.model.types import Millis, State, WorkloadId
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service import advice
from gpucommons.scheduler.service.advice import past
from gpucommons.scheduler.service.advice.plan_outcomes import median_step_s
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.service.lookup import workload_of
from gpucommons.scheduler.store.base import LogPoint

TRAINING = {**A_TRAINING, "steps": 100}


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    node = a_node("n1", 4, pool="gpu")
    real = tuple(replace(device, simulated=False) for device in node.devices)
    return ServiceWorld(tmp_path, nodes=(replace(node, devices=real),))


def second_plan(world: ServiceWorld) -> models.PlanView:
    request = models.AdviceRequest.model_validate(TRAINING)
    found = advice.advise(world.service, world.principal("ann"), request)
    view = found if isinstance(found, models.AdviceView) else done(found)
    assert isinstance(view, models.AdviceView)
    return view.plans[1]


def lines(world: ServiceWorld, ref: str) -> dict[str, tuple[str, bool | None]]:
    found = past.job_plan(world.service, world.principal("ann"), ref)
    return {line.what: (line.actual, line.right) for line in found.lines}


@pytest.mark.parametrize("counted", [20, 300])
def test_a_trial_of_five_minutes_stands_beside_its_plan_and_teaches_where_it_counts_the_same(
    world: ServiceWorld, counted: int
) -> None:
    plan = second_plan(world)
    step_ms = round(1000 * TRAINING["batch"] / plan.samples_per_s.middle)
    world.script = Script(run_ms=60 * MINUTE)
    request = a_request(
        role={"milli_gpu": plan.milli_gpu}, plan=plan.id, max_run_s=300, priority="low"
    )
    job_id = jobs.submit(world.service, world.principal("ann"), request, key=None).id
    world.pass_time(0)
    points = [
        LogPoint(
            attempt_number=1, step=step * counted // 20, at_ms=Millis(world.now_ms + step * step_ms)
        )
        for step in range(1, 21)  # of a hundred, and it never says how many
    ]
    world.store.add_points(world.loop.epoch, {WorkloadId(job_id): points})
    assert lines(world, job_id)["Speed"][0].startswith("not known")
    for _ in range(12):
        world.pass_time(MINUTE)
    assert workload_of(world.service, WorkloadId(job_id)).state is State.FAILED

    world.pass_time(10 * MINUTE)
    Judging(world.service, epoch=lambda: world.loop.epoch).step()
    said = lines(world, job_id)
    if counted > TRAINING["steps"]:
        assert said["Speed"][1] is None, "its limit does not make other steps the plan's"
        (kept,) = world.store.plans.runs()
        assert kept.actual.step_s is None
        return
    assert said["Speed"][0].endswith("samples/s")
    assert said["Speed"][1] is True
    assert said["GPU-hours"][1] is None  # it was cut short, so it judges no length
    (kept,) = world.store.plans.runs()
    assert kept.actual.step_s == pytest.approx(step_ms / 1000)


@pytest.mark.parametrize("jump_min", [-600, -1, 1, 600])
def test_a_clock_that_jumps_while_a_job_runs_does_not_move_the_seconds_of_its_steps(
    jump_min: int,
) -> None:
    points = [
        LogPoint(
            attempt_number=1,
            step=step,
            at_ms=Millis(10**12 + step * 2000 + (jump_min * MINUTE if step > 50 else 0)),
        )
        for step in range(1, 101)
    ]
    assert median_step_s(points, {1}) == 2.0
