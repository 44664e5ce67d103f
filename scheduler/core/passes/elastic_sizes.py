"""An elastic job that runs with fewer workers than it likes takes idle GPUs by a new attempt.

A restart costs all its workers the time of a start and what was done since the last checkpoint. A job
grows where that pays by its own measure (:mod:`..elastic.gain`, Pollux's rule) and by how long the room
has been idle: how long it stays so nobody knows, and the best guess is as long again. A job that was
measured to be faster with fewer workers gives the others back by the same rule. Either comes not before
its minimum run time, not before a pause after the last change of its size, and in the minute after a
save. It is stopped for itself, with notice where it asks for a signal: with its end
it is in line like anybody, at its old age.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpucommons.scheduler.amount_words import workers
from gpucommons.scheduler.core.capacity.capacity_arrays import free_per_node
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.elastic import gain
from gpucommons.scheduler.core.model.demand import affordable, borrowing_class, bounds, price_limit
from gpucommons.scheduler.core.model.eviction_cause import StopCause, stop_cause
from gpucommons.scheduler.core.model.resources import policies_of
from gpucommons.scheduler.core.model.state import PendingResize
from gpucommons.scheduler.core.model.types import (
    Attempt,
    HoldClass,
    Millis,
    PoolName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.placement.can_start import waited_for
from gpucommons.scheduler.core.placement.placement import place
from gpucommons.scheduler.core.queue.unused_quota import more_workers
from gpucommons.scheduler.core.quota.quota import pool_name_of
from gpucommons.scheduler.core.stopping import notice

#: A due time that has moved on is looked at again no sooner than this.
_AGAIN_MS = 1_000
#: A script that saves and then tells its step is not taken for one that tells nothing.
_TOLD_AFTER_MS = 5_000
#: After a change of size, whoever it was for, a job is left alone for so long at least.
PAUSE_MS = 600_000
#: Stops after which a job goes on with another number of workers.
_OF_SIZE = frozenset({StopCause.OWN_SIZE, StopCause.SHRINK_FOR_OTHERS})


def change(cycle: CycleState) -> None:
    """Stop the jobs that change their size now, at most one in each pool, and remember who could."""
    before, cycle.carried.pending_resizes = cycle.carried.pending_resizes, {}
    jobs = cycle.index.growable | cycle.index.shrinkable
    if not jobs:
        return
    wanted = frozenset(waited_for(cycle))
    growing = set(_growing(cycle))
    idle: dict[tuple[PoolName, WorkloadId], PendingResize] = {}
    for workload, attempt in cycle.holders(jobs):
        pool = pool_name_of(cycle.nodes, attempt.placements)
        if pool is None:
            continue
        known = before.get(workload.workload_id)
        since_ms = cycle.now_ms if known is None else known.since_ms
        if pool in growing:
            if known is not None:  # it is looked at again when that one is done
                idle[pool, workload.workload_id] = known
            continue
        size = _size(cycle, workload, attempt, pool, wanted=pool in wanted)
        due_ms = None if size is None else _due_ms(cycle, workload, attempt, since_ms, size)
        if size is None or due_ms is None:
            continue
        if due_ms <= cycle.now_ms and gain.has_just_saved(workload, attempt, cycle.now_ms):
            growing.add(pool)
            notice.end_soon(
                cycle, workload, why=StopCause.OWN_SIZE, text=f"to go on with {workers(size)}"
            )
        else:
            again_ms = Millis(max(due_ms, cycle.now_ms + _AGAIN_MS))
            idle[pool, workload.workload_id] = PendingResize(since_ms=since_ms, due_ms=again_ms)
    cycle.carried.pending_resizes = {one: pending for (_, one), pending in idle.items()}


def next_changes(cycle: CycleState) -> Iterator[int]:
    """When somebody may change its size; who will not just have saved is looked at when it saves."""
    for workload_id, pending in cycle.carried.pending_resizes.items():
        workload = cycle.workloads.get(workload_id)
        attempt = None if workload is None else workload.current
        if workload is None or attempt is None:
            continue
        if gain.has_just_saved(workload, attempt, max(pending.due_ms, cycle.now_ms)):
            yield pending.due_ms


def _growing(cycle: CycleState) -> Iterator[PoolName]:
    for workload, attempt in cycle.holders(cycle.index.stopping):
        if stop_cause(attempt) == StopCause.OWN_SIZE:
            yield from workload.spec.pools


def _size(
    cycle: CycleState, workload: Workload, attempt: Attempt, pool: PoolName, *, wanted: bool
) -> int | None:
    """With how many workers it would be faster than with those it has; None = it could not."""
    has = gain.workers_of(workload, attempt)
    measured = gain.speeds(workload)
    if attempt.pace is not None and has not in measured:
        return None  # it reports, and how fast it is now is not known yet
    best = gain.best_size(workload, bounds(workload.spec)[1])
    if best <= has:
        return best if best < has and best in measured else None
    if wanted or not _is_affordable(cycle, workload, pool):
        return None
    hold_class = borrowing_class(workload.spec)
    optional = more_workers(cycle, workload, attempt)
    if not optional or not _is_room_for(cycle, pool, optional[0].milli_gpu):
        return None
    more = place(cycle.capacity, (), hold_class, pool, optional)
    size = gain.best_size(workload, has + len(more))
    return size if size > has else None


def _is_affordable(cycle: CycleState, workload: Workload, pool: PoolName) -> bool:
    """More workers of it cost no more than it pays; those that it has stay, whatever they cost now."""
    spec = workload.spec
    most = price_limit(spec, policies_of(spec.team, cycle.teams, cycle.policy))
    return bool(affordable(spec, most, (pool,), cycle.pools, cycle.now_ms))


def _is_room_for(cycle: CycleState, pool: PoolName, milli_gpu: int) -> bool:
    """So much is free of the GPUs of one node: mostly nothing is, and that is soon seen."""
    if not milli_gpu:
        return True
    _, free = free_per_node(cycle.capacity, pool, HoldClass.OVER_QUOTA)
    return int(free.max(initial=0)) >= milli_gpu


def _due_ms(
    cycle: CycleState, workload: Workload, attempt: Attempt, since_ms: Millis, size: int
) -> Millis | None:
    """When another size pays for a restart; None = never, as it goes now."""
    pool, has = cycle.pool_of(attempt), gain.workers_of(workload, attempt)
    gained = gain.gain(gain.speeds(workload), has, size)
    cost_ms = gain.restart_ms(workload, attempt, cycle.now_ms)
    if gained < gain.LEAST_GAIN or gain.is_over_before(workload, gained, cost_ms):
        return None
    started_ms = attempt.started_ms or cycle.now_ms
    began_ms = next((o.started_ms for o in workload.attempts if o.started_ms), started_ms)
    due_ms = max(
        began_ms + gain.pays_from_age_ms(workload, gained, cost_ms), started_ms + pool.min_run_ms
    )
    if size > has:
        due_ms = max(due_ms, since_ms + round(cost_ms / (gained - 1)))
    saved = workload.checkpoint
    if attempt.pace is None and saved is not None:
        due_ms = max(due_ms, saved.at_ms + _TOLD_AFTER_MS)
    for before in workload.attempts:
        if stop_cause(before) in _OF_SIZE and before.ended_ms is not None:
            due_ms = max(due_ms, before.ended_ms + PAUSE_MS)
    return Millis(due_ms)
