"""Where only fragmentation keeps a job waiting, a few running jobs move and make room for it.

Everyone who moves has a place promised in the same cycle, goes on from its checkpoint and counts
as moved, not as preempted. Nobody moves for nothing, nobody moves twice, and only few move at all:
a move costs its job a restart, for the sake of somebody who might as well have waited.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.capacity.hold_back import HoldBackKey, HoldBackReason
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.eviction import moves, policies
from gpucommons.scheduler.core.eviction.search import Search
from gpucommons.scheduler.core.lending import kept_from_borrowers
from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.demand import Shape, milli_gpu, must_have, shape
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    HoldClass,
    Millis,
    Nomination,
    PoolName,
    TeamName,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.core.passes import fair_share_reservations
from gpucommons.scheduler.core.placement import guaranteed_host_resources
from gpucommons.scheduler.core.placement.admission import nominate
from gpucommons.scheduler.core.placement.eviction_plan import EvictionPlan
from gpucommons.scheduler.core.queue import ordering, unused_quota
from gpucommons.scheduler.core.quota.quota import pool_name_of

#: Moves are counted over the last hour: about as often as somebody looks why a job waits.
PERIOD_MS = 3_600_000
#: Where a search stands among those that are tried, any change may matter.
_NO_MOVES: Entry[tuple[HoldClass, Shape, PoolName, TeamName | None], bool] = Entry(
    "no moves", Fact.REFRESHED, Fact.WORKLOADS, Fact.CAPACITY
)


def consolidate(cycle: CycleState) -> None:
    """Give everyone who still waits a turn, while moves are left."""
    left: dict[PoolName, int] = {}
    unused = {pool: _unused(cycle, pool) for pool in cycle.pools}

    def is_enough(workload: Workload) -> bool:
        need = milli_gpu(must_have(workload.spec))
        return need > 0 and any(unused.get(pool, 0) >= need for pool in workload.spec.pools)

    # Nobody who moves holds less afterwards: what was too little stays too little.
    for workload in ordering.by_priority(cycle, is_enough):
        if workload.nomination is None:
            _consider(cycle, workload, left)


def moves_left(cycle: CycleState, pool: PoolName) -> int:
    """How many jobs of a pool may still be moved now."""
    share = cycle.pools[pool].moved_permille
    if not share:
        return 0
    since_ms = cycle.now_ms - PERIOD_MS
    told = [cycle.workloads[workload_id] for workload_id in cycle.index.moved]
    moved = sum(
        any(at_ms > since_ms for at_ms in _moves_ms(one)) and _lies_in(cycle, one, pool)
        for one in told
    )
    holding = cycle.index.holding
    if max(1, len(holding) * share // 1000) <= moved:
        return 0
    here = sum(_lies_in(cycle, cycle.workloads[workload_id], pool) for workload_id in holding)
    return max(0, max(1, here * share // 1000) - moved)


def _lies_in(cycle: CycleState, workload: Workload, pool: PoolName) -> bool:
    attempt = workload.current
    if attempt is None or is_lease(workload):
        return False
    return pool_name_of(cycle.nodes, attempt.placements) == pool


def next_moves(cycle: CycleState) -> Iterator[int]:
    """When a move is forgotten, so that somebody who still waits may have the next one."""
    for workload_id in cycle.index.moved & cycle.workloads.keys():
        for moved_ms in _moves_ms(cycle.workloads[workload_id]):
            yield moved_ms + PERIOD_MS


def _moves_ms(workload: Workload) -> Iterator[Millis]:
    stops = (one.stop for one in workload.attempts if one.stop is not None)
    return (one.announced_ms for one in stops if one.why == StopCause.MOVE)


def _consider(cycle: CycleState, workload: Workload, left: dict[PoolName, int]) -> None:
    team, need = workload.spec.team, milli_gpu(must_have(workload.spec))
    # A place that is kept for it is in the way of others only.
    alone = workload.workload_id in cycle.capacity.reservations
    for pool in workload.spec.pools:
        if pool not in cycle.pools or _unused(cycle, pool) < need:
            continue  # not scattered but too little
        if pool not in left:
            left[pool] = moves_left(cycle, pool)
        if left[pool] <= 0:
            continue
        for hold_class in _classes(cycle, workload, pool):
            if hold_class is HoldClass.OVER_QUOTA and _lendable(cycle, pool) < need:
                continue  # nobody who moves for a borrower is inside a guarantee either
            whose = team if hold_class is HoldClass.GUARANTEED else None
            asked = (hold_class, shape(workload.spec), pool, whose)
            if not alone and cycle.memo.get(_NO_MOVES, asked):
                continue
            found = _find(cycle, workload, pool, hold_class, left[pool])
            if found is not None:
                left[pool] -= len(found.candidates)
                _carry_out(cycle, workload, found)
                return
            cycle.memo.keep(_NO_MOVES, asked, value=True)


def _unused(cycle: CycleState, pool: PoolName) -> int:
    """Milli-GPU of a pool that nobody holds or was promised, however scattered."""
    uses = [use for (_, where), use in cycle.uses.items() if where == pool]
    used = sum(use.fixed + use.training for use in uses)
    return WHOLE_MILLI_GPU * sum(len(n.devices) for n in cycle.capacity.usable(pool)) - used


def _lendable(cycle: CycleState, pool: PoolName) -> int:
    """What is unused and not kept for guarantees."""
    held_back = kept_from_borrowers.gpus_held_back(cycle, pool, HoldClass.OVER_QUOTA)
    kept = sum(one.held_for is HoldClass.GUARANTEED for one in held_back)
    return _unused(cycle, pool) - WHOLE_MILLI_GPU * kept


def _classes(cycle: CycleState, workload: Workload, pool: PoolName) -> Iterator[HoldClass]:
    """Under which quota it could start now if it had a place."""
    spec, need = workload.spec, milli_gpu(must_have(workload.spec))
    limit = cycle.quota_of(spec.team, pool).limit_milli_gpu
    if limit is not None and cycle.use(spec.team, pool).training + need > limit:
        return
    if guaranteed_host_resources.guarantee_covers(cycle, workload, pool):
        yield HoldClass.GUARANTEED
    borrows = spec.over_quota and unused_quota.may_borrow(cycle, spec.team, pool) >= need
    if borrows and fair_share_reservations.left_to(cycle, workload, pool) is None:
        yield HoldClass.OVER_QUOTA


def _find(
    cycle: CycleState, workload: Workload, pool: PoolName, hold_class: HoldClass, most: int
) -> EvictionPlan | None:
    policy = policies.for_move(cycle, workload.spec.team, hold_class)
    with cycle.capacity.ledger.without(_reservation(workload)):
        return moves.find(Search.of(cycle, workload.spec, pool, policy), most)


def _reservation(workload: Workload) -> HoldBackKey:
    return HoldBackKey(HoldBackReason.RESERVATION, workload.workload_id)


def _carry_out(cycle: CycleState, workload: Workload, plan: EvictionPlan) -> None:
    """Promise everybody a place, then give notice."""
    movers = [cycle.workloads[workload_id] for workload_id in plan.destinations]
    # All who move read the same sentence: another team's job is not named to them.
    if all(one.spec.team == workload.spec.team for one in movers):
        plan = replace(plan, cause=eviction_cause.of_move(workload.spec.name))
    nominate(cycle, workload, plan)
    movers = [cycle.workloads[workload_id] for workload_id in plan.destinations]
    leaving = [one.current for one in movers if one.current is not None]
    for mover in movers:
        attempt = mover.current
        if attempt is None:
            continue
        placements = plan.destinations[mover.workload_id]
        nomination = Nomination(
            placements=placements,
            hold_class=attempt.hold_class,
            victims=_ends_first(attempt, placements, leaving),
            decided_ms=cycle.now_ms,
        )
        cycle.put(replace(mover, nomination=nomination))
    cycle.capacity.ledger.drop(_reservation(workload))


def _ends_first(
    attempt: Attempt, placements: tuple[WorkerPlacement, ...], leaving: list[Attempt]
) -> tuple[AttemptId, ...]:
    """Itself, and those whose devices, processors or memory it takes over."""
    nodes = {one.node_id for one in placements}
    return tuple(
        one.attempt_id
        for one in leaving
        if one is attempt or any(placement.node_id in nodes for placement in one.placements)
    )
