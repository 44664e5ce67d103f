"""What more or fewer workers bring to a job, measured by its own progress reports.

Two rules are Pollux's (Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep
Learning", OSDI 2021). What is not measured yet is believed to scale perfectly, and no job goes beyond
twice the most workers that it was measured with (section 4.1, prior-driven exploration). And a speed-up
counts only after what the restart costs (section 4.2.1, re-allocation factor): a job that has run for
``T``, was restarted for its size ``R`` times and loses ``d`` by one restart more gets
``gain × (T − R·d) / (T + d)`` out of it.

Between and beyond sizes that were measured, a step takes ``a + b / workers``: a part that more workers
share, and one that they do not. The global batch stays, so a step is the same work at each size; where a
script says how many steps there are in all, its steps may differ, and the share of them counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import TypeGuard

from gpucommons.scheduler.core.model.demand import bounds
from gpucommons.scheduler.core.model.eviction_cause import StopCause, stop_cause
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.going_on import Pace
from gpucommons.scheduler.core.model.types import Attempt, Millis, Progress, Workload

#: Less than a twentieth faster is within what runs differ anyway.
LEAST_GAIN = 1.05
#: A pace of less time than this says nothing.
_LEAST_MS = 10_000
#: No restart costs less, whatever it looked like.
_LEAST_COST_MS = 10_000
#: What was done since the last save is done again: at most so much of it.
_SAVED_WITHIN_MS = 60_000
#: No job goes beyond so many times the most workers that it was measured with.
_EXPLORED = 2


def paced(attempt: Attempt, progress: Progress, *, same_source: bool) -> Attempt:
    """The attempt, with one more report in its pace."""
    before = attempt.pace
    if before is None or not same_source or progress.step < before.step:
        before = Pace(
            from_step=progress.step,
            from_ms=progress.at_ms,
            step=progress.step,
            at_ms=progress.at_ms,
        )
    pace = evolve(
        before, step=progress.step, at_ms=progress.at_ms, total_steps=progress.total_steps
    )
    return evolve(attempt, pace=pace)


def workers_of(workload: Workload, attempt: Attempt) -> int:
    """How many workers of its first role an attempt has, or had."""
    first = workload.spec.roles[0].name
    return sum(one.role == first for one in attempt.placements)


def speeds(workload: Workload) -> dict[int, float]:
    """Work per second by number of workers, of those that were measured; the newest counts."""
    return _per_second(
        {
            workers_of(workload, one): one.pace
            for one in workload.attempts
            if _says_something(one.pace)
        }
    )


def _says_something(pace: Pace | None) -> TypeGuard[Pace]:
    return (
        pace is not None and pace.at_ms - pace.from_ms >= _LEAST_MS and pace.step > pace.from_step
    )


def _per_second(paces: Mapping[int, Pace]) -> dict[int, float]:
    """Steps, or parts of the whole where each pace knows how many steps that is."""
    shares = all(pace.total_steps for pace in paces.values())
    return {
        key: 1000
        * (pace.step - pace.from_step)
        / (pace.at_ms - pace.from_ms)
        / (pace.total_steps or 1 if shares else 1)
        for key, pace in paces.items()
    }


def gain(measured: Mapping[int, float], old: int, new: int) -> float:
    """How many times faster it is with ``new`` workers than with ``old``."""
    if old in measured and new in measured:
        return measured[new] / measured[old]
    fixed, shared = _step_times(measured)
    known = {workers: 1 / speed for workers, speed in measured.items()}
    return known.get(old, fixed + shared / old) / known.get(new, fixed + shared / new)


def _step_times(measured: Mapping[int, float]) -> tuple[float, float]:
    """``a`` and ``b`` of ``a + b / workers``, by least squares, neither below nothing."""
    if len(measured) < 2:  # noqa: PLR2004 - a line needs two points
        workers, speed = next(iter(measured.items()), (1, 1.0))
        return 0.0, workers / speed
    points = [(1 / workers, 1 / speed) for workers, speed in measured.items()]
    x_mean = sum(x for x, _ in points) / len(points)
    y_mean = sum(y for _, y in points) / len(points)
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    slope = max(0.0, sum((x - x_mean) * (y - y_mean) for x, y in points) / spread)
    fixed = y_mean - slope * x_mean
    if fixed < 0:
        return 0.0, sum(x * y for x, y in points) / sum(x * x for x, _ in points)
    return fixed, slope


def best_size(workload: Workload, most: int) -> int:
    """The fewest workers, up to so many, with which it is about as fast as it can be."""
    low, high = bounds(workload.spec)
    measured = speeds(workload)
    if measured:
        high = min(high, max(low, _EXPLORED * max(measured)))
    sizes = range(low, max(low, min(high, most)) + 1)
    gains = {size: gain(measured, low, size) for size in sizes}
    best = max(sizes, key=gains.__getitem__)
    # About as fast with a third fewer is better: somebody else has them.
    enough = gains[best] / LEAST_GAIN
    return next(s for s in sizes if s == best or (s * 3 <= best * 2 and gains[s] >= enough))


def times_faster(workload: Workload, attempt: Attempt) -> float | None:
    """How many times as fast as the attempts just before, of another size, one was measured to be.

    Of those before the newest that ran long enough counts: one may have been stopped for something else.
    """
    earlier = [one for one in workload.attempts if one.number < attempt.number]
    size = workers_of(workload, earlier[-1]) if earlier else None
    if size in (None, workers_of(workload, attempt)) or not _says_something(attempt.pace):
        return None
    of_size = takewhile(lambda one: workers_of(workload, one) == size, reversed(earlier))
    paces = (one.pace for one in of_size)
    before = next((pace for pace in paces if _says_something(pace)), None)
    if before is None:
        return None
    then, now = _per_second({0: before, 1: attempt.pace}).values()
    return round(now / then, 2)


def loading_ms(attempt: Attempt) -> int:
    """From its admission until it ran, and reported for the first time where it reports."""
    began_ms: int = attempt.reserved_ms if attempt.started_ms is None else attempt.started_ms
    if attempt.pace is not None:
        began_ms = max(began_ms, attempt.pace.from_ms)
    return began_ms - attempt.reserved_ms


def has_just_saved(workload: Workload, attempt: Attempt, at_ms: int) -> bool:
    """It has saved just before that time."""
    saved = workload.checkpoint
    if saved is None or saved.attempt_id != attempt.attempt_id:
        return False
    return at_ms - saved.at_ms <= max(_SAVED_WITHIN_MS, loading_ms(attempt))


def restart_ms(workload: Workload, attempt: Attempt, now_ms: Millis) -> int:
    """What a stop now costs it: to be where it is again."""
    loaded_ms = attempt.reserved_ms + loading_ms(attempt)
    saved = workload.checkpoint
    kept_ms = loaded_ms if saved is None else max(loaded_ms, saved.at_ms)
    return max(_LEAST_COST_MS, loaded_ms - attempt.reserved_ms + max(0, now_ms - kept_ms))


def pays_from_age_ms(workload: Workload, gained: float, cost_ms: int) -> int:
    """How long it must have run for a restart to pay: Pollux's rule, solved for the age ``T``."""
    changes = sum(stop_cause(one) == StopCause.OWN_SIZE for one in workload.attempts)
    return round(cost_ms * (1 + gained * changes) / (gained - 1))


def is_over_before(workload: Workload, gained: float, cost_ms: int) -> bool:
    """What is left of it takes less time than the restart would win."""
    attempt = workload.current
    pace = None if attempt is None else attempt.pace
    if pace is None or not pace.total_steps or pace.step <= pace.from_step:
        return False
    each_ms = (pace.at_ms - pace.from_ms) / (pace.step - pace.from_step)
    left_ms = max(0, pace.total_steps - pace.step) * each_ms
    return left_ms * (1 - 1 / gained) <= cost_ms
