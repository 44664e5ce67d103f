"""Plans that were run, and windows that were said, for tests of what is counted and drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Millis, TeamName, WorkloadId
from gpucommons.scheduler.plans import ChosenPlan, Said
from gpucommons.scheduler.service.advice.calibration import calibration_view
from gpucommons.scheduler.store.estimates import Estimate, Window
from gpucommons.scheduler.store.plans.base import Actual, JudgedRun

MINUTE, HOUR = 60_000, 3_600_000


def a_plan(**changes: Any) -> ChosenPlan:
    """Four GPUs, 100 samples per second, an hour."""
    plan = ChosenPlan(
        plan_id="p1",
        made_ms=0,
        pool="train",
        gpu_kind="A100-40",
        simulated=False,
        gpus=4,
        layout="DDP × 4",
        grade="C",
        verdict="fits",
        batch=400,
        steps=900,
        memory_mib=30_720,
        samples_per_s=Said(80.0, 100.0, 125.0),
        wait_s=Said(0.0, 0.0, 0.0),
        run_s=Said(2880.0, 3600.0, 4500.0),
        gpu_hours=Said(3.2, 4.0, 5.0),
        cost=Said(3.2, 4.0, 5.0),
        currency="EUR",
        formula_s=4.0,
        signature="like this",
        family="transformer plain",
    )
    return replace(plan, **changes)


def a_run(number: int = 1, *, plan: ChosenPlan | None = None, **actual: Any) -> JudgedRun:
    """One that came as it was said."""
    came = Actual(
        gpus=4,
        pool="train",
        step_s=4.0,
        memory_mib=29_000,
        wait_ms=0,
        wait_is_whole=True,
        held_milli_gpu_ms=4000 * HOUR,
        cost_micro=4_000_000,
    )
    return JudgedRun(
        workload_id=WorkloadId(f"0190cccc-0000-7000-8000-{number:012d}"),
        team=TeamName("vision"),
        submitted_ms=Millis(0),
        ended_ms=Millis(number * HOUR),
        state="succeeded",
        plan=plan or a_plan(),
        actual=replace(came, **actual),
    )


def a_window(number: int, took_min: int, **changes: Any) -> Estimate:
    """Ten to twenty minutes were said."""
    window = Window(from_ms=10 * MINUTE, median_ms=15 * MINUTE, to_ms=20 * MINUTE)
    made_ms = number * HOUR
    estimate = Estimate(
        workload_id=WorkloadId(f"0190dddd-0000-7000-8000-{number:012d}"),
        made_ms=Millis(made_ms),
        wait_class="job train",
        raw=window,
        window=window,
        started_ms=Millis(made_ms + took_min * MINUTE),
    )
    return replace(estimate, **changes)


def a_calibration(now_ms: int) -> models.CalibrationView:
    """Forty waits of which eight were late, forty runs of which ten were slower than said."""
    waits = [a_window(number, took_min=15 if number % 5 else 40) for number in range(40)]
    runs = [a_run(number, step_s=4.0 + number / 50 if number % 4 else 9.0) for number in range(40)]
    runs += [a_run(number, plan=a_plan(grade="B"), step_s=3.6) for number in range(40, 44)]
    return calibration_view(waits, runs, from_ms=Millis(0), now_ms=Millis(now_ms))
