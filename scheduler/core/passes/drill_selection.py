"""A job that borrows is stopped once on purpose after its first save, to see that it goes on.

Whoever borrows will be stopped some day, and who cannot go on had better learn it early, when little
is lost and nobody waits: then the job is back at once, from what it has just saved. One at a time in
each pool. It gets its whole notice, where it asks for a signal with it, and its whole grace, as ever, so a
drill that hangs ends with that.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.elastic.gain import has_just_saved
from gpucommons.scheduler.core.going_on import badges
from gpucommons.scheduler.core.going_on.hibernating import saving_costs_ms
from gpucommons.scheduler.core.model.eviction_cause import StopCause, stop_cause
from gpucommons.scheduler.core.model.going_on import OFF, ON
from gpucommons.scheduler.core.model.resources import Pool, policies_of
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptState,
    HoldClass,
    Millis,
    PoolName,
    Workload,
)
from gpucommons.scheduler.core.placement.can_start import waited_for
from gpucommons.scheduler.core.queue.run_time_limit import run_left
from gpucommons.scheduler.core.quota.quota import pool_name_of
from gpucommons.scheduler.core.stopping import notice

#: Processes that are saved whole have no first save: they are tested when they have run for so long.
AFTER_START_MS = 60_000
#: A save that came sooner after the start says too little: going on from there could as well be a new
#: beginning. The test waits for a later one.
SAVED_AFTER_MS = 10_000
#: Between a drill and any other stop there is at least so many times its own length.
APART = 2


def drill(cycle: CycleState) -> None:
    """Stop the jobs that are to be tested now, at most one in each pool."""
    due = list(_candidates(cycle))
    if not due:
        return
    busy = set(waited_for(cycle)) | set(_tested(cycle))
    for workload, attempt, pool in due:
        at_ms = _due_ms(cycle, workload, attempt, pool)
        if pool.name in busy or at_ms is None or at_ms > cycle.now_ms:
            continue
        busy.add(pool.name)
        text = "to see that it can be stopped and goes on"
        cycle.tell("drill-began", f"{workload.spec.name} is stopped {text}.", workload)
        notice.end_soon(cycle, workload, why=StopCause.DRILL, text=text)


def next_drills(cycle: CycleState) -> Iterator[int]:
    """When time alone lets somebody be tested."""
    for workload, attempt, pool in _candidates(cycle):
        at_ms = _due_ms(cycle, workload, attempt, pool)
        if at_ms is not None:
            yield at_ms


def _candidates(cycle: CycleState) -> Iterator[tuple[Workload, Attempt, Pool]]:
    """Jobs that borrow where drills are on, and of which it is not known that they go on."""
    if all(pool.drills == OFF for pool in cycle.pools.values()):
        return
    for workload, attempt in cycle.holders(cycle.index.borrowing):
        if (
            attempt.state is not AttemptState.RUNNING
            or attempt.hold_class is not HoldClass.OVER_QUOTA
            or attempt.stop is not None
        ):
            continue
        pool = cycle.pool_of(attempt)
        if pool.drills == ON and _is_to_be_tested(cycle, workload):
            yield workload, attempt, pool


def _is_to_be_tested(cycle: CycleState, workload: Workload) -> bool:
    known = workload.drill
    if known is not None and (known.pending or known.tested):
        return False
    if any(
        policy.drills == OFF
        for policy in policies_of(workload.spec.team, cycle.teams, cycle.policy)
    ):
        return False
    return not badges.is_known_to_go_on(workload, cycle.carried.badges)


def _due_ms(cycle: CycleState, workload: Workload, attempt: Attempt, pool: Pool) -> Millis | None:
    """When it has just saved, or can be saved, and no other stop is near; None = not (yet)."""
    if attempt.started_ms is None:
        return None
    saved = workload.checkpoint
    now_ms, saved_here = cycle.now_ms, False
    if saved is not None and saved.attempt_id == attempt.attempt_id:
        if saved.at_ms < attempt.started_ms + SAVED_AFTER_MS:
            return None
        ready_ms, saved_here = int(saved.at_ms), True
    elif saving_costs_ms(workload, attempt, pool.grace_ms) is not None:
        ready_ms = attempt.started_ms + AFTER_START_MS
    else:
        return None
    told_ms = notice.notice_ms(pool) if notice.notice_signal(workload, pool) else 0
    apart_ms = APART * (attempt.started_ms - attempt.reserved_ms + told_ms + pool.grace_ms)
    for before in reversed(workload.attempts[:-1]):
        if before.stop is not None and before.ended_ms is not None:
            ready_ms = max(ready_ms, before.ended_ms + apart_ms)
            break
    left_ms = run_left(cycle, workload)
    is_over_soon = left_ms is not None and attempt.started_ms + left_ms < ready_ms + apart_ms
    if is_over_soon or (
        saved_here and not has_just_saved(workload, attempt, max(ready_ms, now_ms))
    ):
        return None
    return Millis(ready_ms)


def _tested(cycle: CycleState) -> Iterator[PoolName]:
    """Pools in which a job is being tested."""
    for workload, attempt in cycle.holders(cycle.index.holding):
        known = workload.drill
        stopping = stop_cause(attempt) == StopCause.DRILL
        if stopping or (known is not None and known.on_purpose and known.pending):
            pool = pool_name_of(cycle.nodes, attempt.placements)
            if pool is not None:
                yield pool
