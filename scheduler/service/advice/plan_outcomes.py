"""What came of a plan: from a job's steps, its minutes in the ledger and its end. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.eviction_cause import StopCause, stop_cause
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import Attempt, Millis, PoolName, State, Workload
from gpucommons.scheduler.failures.remedies import GPU_MEMORY, remedy_for
from gpucommons.scheduler.plans import ChosenPlan
from gpucommons.scheduler.service import costs
from gpucommons.scheduler.store.base import LedgerRow, LogPoint
from gpucommons.scheduler.store.plans.base import Actual, JudgedRun, PlannedRun

#: What counts optimizer steps; anything else, such as epochs, cannot be compared with a plan's steps.
_STEPS = frozenset({"", "step"})
#: Fewer points say nothing of a speed.
_FEWEST = 4
#: So many steps' lengths lie between the fewest points, without the first point, which is of the start.
_FEWEST_LENGTHS = _FEWEST - 2
#: The share of an attempt's points that belongs to its start: data is read, kernels are chosen.
_WARM_UP = 0.1
#: So far a script's count may be off the plan's and still mean the same steps.
_SAME_COUNT = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What is known of one job."""

    workload: Workload
    #: Its curve, as its best source tells it.
    points: Sequence[LogPoint]
    #: Its minutes.
    rows: Sequence[LedgerRow]
    pools: Mapping[PoolName, Pool]


def beside_its_plan(seen: Seen, plan: ChosenPlan) -> PlannedRun:
    """The job beside its plan: of one that runs or waits, as far as it is."""
    workload = seen.workload
    return PlannedRun(
        workload_id=workload.workload_id,
        team=workload.spec.team,
        submitted_ms=workload.submitted_ms,
        state=workload.state.value,
        plan=plan,
        actual=_actual(seen, plan),
    )


def judged(seen: Seen, plan: ChosenPlan, ended_ms: Millis) -> JudgedRun:
    """A job that is over, beside its plan."""
    run = beside_its_plan(seen, plan)
    return JudgedRun(**{one.name: getattr(run, one.name) for one in fields(run)}, ended_ms=ended_ms)


def _actual(seen: Seen, plan: ChosenPlan) -> Actual:
    workload = seen.workload
    longest = max(workload.attempts, key=_ran_ms, default=None)
    step_s, note = _step_s(seen, plan)
    cost = costs.of_rows(seen.pools, seen.rows)
    return Actual(
        gpus=0 if longest is None else gpus_of(longest),
        pool=next((row.pool for row in reversed(seen.rows)), workload.spec.pools[0]),
        environment=workload.spec.environment,
        drivers=() if longest is None else longest.drivers,
        step_s=step_s,
        step_note=note,
        memory_mib=_memory_mib(seen, longest),
        wait_ms=_waited_ms(workload),
        wait_is_whole=True,
        held_milli_gpu_ms=sum(row.held_milli_gpu_ms for row in seen.rows),
        cost_micro=cost.micro if cost.priced and not cost.unpriced else None,
        ran_out=_filled_gpu_memory(workload),
    )


def _waited_ms(workload: Workload) -> int | None:
    """All that it waited for GPUs, also after a stop, without what it was paused; None before its start."""
    if not workload.attempts:
        return None
    ends = (workload.submitted_ms, *(one.ended_ms for one in workload.attempts[:-1]))
    gaps = [
        (end, one.reserved_ms)
        for end, one in zip(ends, workload.attempts, strict=True)
        if end is not None and end < one.reserved_ms
    ]
    paused_ms = sum(
        max(0, min(end, pause.to_ms) - max(begin, pause.from_ms))
        for begin, end in gaps
        for pause in workload.pauses
    )
    return sum(end - begin for begin, end in gaps) - paused_ms


def _filled_gpu_memory(workload: Workload) -> bool:
    """By the error that it ended with, which its end quotes: what is advised against it may be reworded."""
    remedy = remedy_for(workload.ended_text or "")
    return workload.state is State.FAILED and remedy is not None and remedy.kind == GPU_MEMORY


def _ran_ms(attempt: Attempt) -> int:
    if attempt.started_ms is None:
        return -1
    return (attempt.ended_ms or 2**62) - attempt.started_ms


def gpus_of(attempt: Attempt) -> int:
    """Whole GPUs that it held."""
    return sum(placed_milli_gpu(one) for one in attempt.placements) // WHOLE_MILLI_GPU


def _memory_mib(seen: Seen, longest: Attempt | None) -> int | None:
    """Per GPU: a worker's GPUs are measured together."""
    known = [row.memory_used_mib_max for row in seen.rows if row.memory_used_mib_max is not None]
    if not known or longest is None or not longest.placements:
        return None
    each = max(placed_milli_gpu(one) for one in longest.placements) // WHOLE_MILLI_GPU
    return max(known) // max(1, each)


def _step_s(seen: Seen, plan: ChosenPlan) -> tuple[float | None, str]:
    """Median seconds of a step while it ran as planned; None, and why it is not known."""
    if (why := _other_steps(seen, plan)) is not None:
        return None, why
    as_planned = {one.number for one in seen.workload.attempts if gpus_of(one) == plan.gpus}
    step_s = median_step_s(seen.points, as_planned)
    return step_s, "" if step_s is not None else "it told too few steps while it ran as planned"


def median_step_s(told: Sequence[LogPoint], numbers: Collection[int]) -> float | None:
    """Median seconds of a step in these attempts, without their start; None where too few were told."""
    lengths: list[tuple[float, int]] = []
    for number in numbers:
        points = [one for one in told if one.attempt_number == number]
        warm = points[max(1, int(len(points) * _WARM_UP)) :]
        lengths += [
            (
                (later.at_ms - first.at_ms) / 1000 / (later.step - first.step),
                later.step - first.step,
            )
            for first, later in pairwise(warm)
            if later.step > first.step and later.at_ms > first.at_ms
        ]
    return None if len(lengths) < _FEWEST_LENGTHS else _weighted_median(lengths)


def _other_steps(seen: Seen, plan: ChosenPlan) -> str | None:
    """Why its steps cannot be compared with the plan's; None where they can."""
    if len(seen.points) < _FEWEST:
        return "it told too few steps"
    if (why := other_unit(seen.points)) is not None:
        return why
    progress = seen.workload.progress
    total = None if progress is None else progress.total_steps
    may_have_fewer = total is None and _ended_at_its_limit(seen.workload)
    if total is None:
        if not is_final(seen.workload):
            return "it has not said how many steps it makes"
        total = seen.points[-1].step
    # A trial, or whatever else its limit ended, was not to make all of them.
    beyond = total - plan.steps if may_have_fewer else abs(total - plan.steps)
    if beyond > max(1.0, plan.steps * _SAME_COUNT):
        return f"it counted {total:,} steps where the plan had {plan.steps:,}"
    return None


def _ended_at_its_limit(workload: Workload) -> bool:
    last = workload.attempts[-1] if workload.attempts else None
    return is_final(workload) and stop_cause(last) == StopCause.MAX_RUN


def other_unit(points: Sequence[LogPoint]) -> str | None:
    """What it counts in place of the optimizer's steps, in a sentence; None where it counts these."""
    units = {one.unit for one in points} - _STEPS
    return f"it counts in {min(units)}s, not in steps of the optimizer" if units else None


def _weighted_median(lengths: Sequence[tuple[float, int]]) -> float:
    ordered = sorted(lengths)
    half, passed = sum(weight for _, weight in ordered) / 2, 0
    for length, weight in ordered:
        passed += weight
        if passed >= half:
            return length
    return ordered[-1][0]
