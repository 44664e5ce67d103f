"""An elastic job that runs with fewer workers than it likes takes idle GPUs by a new attempt.

A restart costs all its workers the time of a start and what was done since the last checkpoint. How
long capacity stays idle nobody knows; the best guess is as long again as it has been idle. So a job
grows once capacity that nobody waits for has been idle for so long that the new workers would do
more in that time than the restart costs, and not before its minimum run time, and at most once within
a half-life. It is stopped for itself: with its end it is in line like anybody, at its old age.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpucommons.scheduler.core.cycle_state import stops
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.demand import may_have, must_have
from gpucommons.scheduler.core.model.state import Spare
from gpucommons.scheduler.core.model.types import (
    Attempt,
    HoldClass,
    Millis,
    PoolName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.placement.placement import place
from gpucommons.scheduler.core.queue import unused_quota
from gpucommons.scheduler.core.quota.quota import pool_of

#: Why an attempt ends that is followed by a larger one.
GROW = "grow"
#: A due time that has moved on is looked at again no sooner than this.
_AGAIN_MS = 1_000


def grow(cycle: CycleState) -> None:
    """Stop the jobs that grow now, at most one in each pool, and remember since when others could."""
    before, cycle.carried.spare = cycle.carried.spare, {}
    if not cycle.index.growable:
        return
    wanted = frozenset(_waited_for(cycle))
    growing = set(_growing(cycle))
    idle: dict[tuple[PoolName, WorkloadId], Spare] = {}
    for workload in cycle.among(cycle.index.growable):
        attempt = workload.current
        pool = None if attempt is None else pool_of(cycle.nodes, attempt.placements)
        if attempt is None or pool is None or pool in wanted or pool in growing:
            continue
        more = _more(cycle, workload, attempt, pool)
        if not more:
            continue
        known = before.get(workload.workload_id)
        since_ms = cycle.now_ms if known is None else known.since_ms
        due_ms = _due_ms(cycle, workload, attempt, since_ms, more)
        if due_ms <= cycle.now_ms and _has_saved(workload, attempt):
            growing.add(pool)
            workers = len(attempt.placements) + more
            text = f"to go on with {workers} workers"
            stops.end_now(cycle, workload, why=GROW, text=text)
        else:
            again_ms = Millis(max(due_ms, cycle.now_ms + _AGAIN_MS))
            idle[pool, workload.workload_id] = Spare(since_ms=since_ms, due_ms=again_ms)
    # Room that one of them is about to take is idle for none of the others, those before it too.
    cycle.carried.spare = {one: spare for (pool, one), spare in idle.items() if pool not in growing}


def next_growth(cycle: CycleState) -> Iterator[int]:
    """When somebody may grow who has saved its work; who has not is looked at when it saves."""
    for workload_id, spare in cycle.carried.spare.items():
        workload = cycle.workloads.get(workload_id)
        attempt = None if workload is None else workload.current
        if workload is not None and attempt is not None and _has_saved(workload, attempt):
            yield spare.due_ms


def _waited_for(cycle: CycleState) -> Iterator[PoolName]:
    """Pools in which somebody waits, or was promised something."""
    for key, waiting in cycle.index.equivalence_classes.items():
        if waiting.members:
            yield from key.pools
    ahead: set[WorkloadId] = cycle.index.tickets | cycle.index.nominated
    for workload in cycle.among(ahead):
        yield from workload.spec.pools


def _growing(cycle: CycleState) -> Iterator[PoolName]:
    for workload in cycle.among(cycle.index.stopping):
        attempt = workload.current
        if attempt is not None and attempt.stop is not None and attempt.stop.why == GROW:
            yield from workload.spec.pools


def _more(cycle: CycleState, workload: Workload, attempt: Attempt, pool: PoolName) -> int:
    """How many more workers it could have now."""
    spec = workload.spec
    budget = unused_quota.may_borrow(cycle, spec.team, pool) // max(1, spec.roles[0].milli_gpu)
    optional = may_have(spec)[len(attempt.placements) - len(must_have(spec)) :][: max(0, budget)]
    return len(place(cycle.capacity, (), HoldClass.OVER_QUOTA, pool, optional)) if optional else 0


def _has_saved(workload: Workload, attempt: Attempt) -> bool:
    saved = workload.checkpoint
    return saved is not None and saved.attempt_id == attempt.attempt_id


def _due_ms(
    cycle: CycleState, workload: Workload, attempt: Attempt, since_ms: Millis, more: int
) -> Millis:
    """When GPUs that are idle since then pay for a restart."""
    pool = cycle.pool_of(attempt)
    started_ms = attempt.started_ms or cycle.now_ms
    saved = workload.checkpoint
    kept_ms = started_ms if saved is None else max(started_ms, saved.at_ms)
    restart_ms = (started_ms - attempt.reserved_ms) + max(0, cycle.now_ms - kept_ms)
    pays_ms = since_ms + max(pool.min_run_ms, restart_ms * len(attempt.placements) // more)
    allowed_ms = started_ms + pool.min_run_ms
    for before in workload.attempts:
        if before.stop is not None and before.stop.why == GROW and before.ended_ms is not None:
            allowed_ms = max(allowed_ms, before.ended_ms + pool.half_life_ms)
    return Millis(max(pays_ms, allowed_ms))
