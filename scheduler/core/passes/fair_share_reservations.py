"""Whose turn it is on the surplus: a place is kept for who waits for more than is free anywhere.

Idle GPUs go first to who has had least. Where its jobs need more than is free in one place, the team
with the smallest jobs would take every remnant, and have more than its share for ever: what is won
back from it comes to it again as the next remnant. So a job whose turn has come keeps the place
where most is free already. Who is a turn ahead does not start there: a borrower has its minimum run
time, and could not be made to leave as soon as the rest of the place is free.

Everybody else may start there, and everybody may start wherever else something is free. A place is
kept no longer than a borrower would have it at least, and anew when more of it is free: beside a job
that stays, nothing is idle for long.

Nothing is kept where unused guarantees could claim the whole place before it is complete: what is
idle is the first that they take, so the remnants would fill with work that stays, and whole places
become rare.

Whose turn it is follows from what is held, not from who asks first: it is seen before the turns of a
cycle and again after them, and when they have changed it, everybody has another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

import numpy as np

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.capacity.capacity_arrays import free_per_node
from gpucommons.scheduler.core.capacity.hold_back import FairShareClaim, HoldBack, HoldBackReason
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.capacity.placement_slots import suits
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.demand import Worker, milli_gpu, must_have
from gpucommons.scheduler.core.model.holds import FULL, FairShareReservation
from gpucommons.scheduler.core.model.lifecycle import in_line_since_ms, is_final
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    Millis,
    NodeId,
    PoolName,
    State,
    TeamName,
    Workload,
)
from gpucommons.scheduler.core.queue import ordering, unused_quota
from gpucommons.scheduler.core.quota.fair_share import Accounts, looked_at_ms


def update_claims(cycle: CycleState) -> bool:
    """See whose turn it is by what is held now; True where earlier turns took it to be otherwise."""
    if cycle.turns.claims_at == cycle.log.versions.workloads:
        return False
    cycle.turns.claims_at = cycle.log.versions.workloads
    found = tuple(_places(cycle))
    still = all(accounts(cycle, pool).is_a_turn_ahead(*left) for pool, left in cycle.turns.left)
    cycle.turns.left.clear()
    if still and found == cycle.turns.fair_share_claims:
        return False
    cycle.turns.fair_share_claims = found
    cycle.carried.fair_share_reservations = {(one.team, one.pool): one.reservation for one in found}
    return True


def _places(cycle: CycleState) -> Iterator[FairShareClaim]:
    """One place per team and pool: for the first in line whose turn has come."""
    found: set[tuple[TeamName, PoolName]] = set()
    borrowed = {pool for (_, pool), use in cycle.uses.items() if use.borrowed > 0}
    unused = {pool: unused_quota.of_all_guarantees(cycle, pool) for pool in borrowed}

    def pools_of(workload: Workload) -> list[PoolName]:
        spec, need = workload.spec, milli_gpu(must_have(workload.spec))
        return [
            pool
            for pool in spec.pools
            if unused.get(pool, need) < need
            and unused_quota.may_borrow(cycle, spec.team, pool) >= need
        ]

    for workload in _waiting(cycle, pools_of):
        team, workers = workload.spec.team, must_have(workload.spec)
        for pool in pools_of(workload):
            if (team, pool) in found or not _has_come(cycle, workload, pool):
                continue
            devices = _most_free(cycle, workers, pool)
            if devices:
                found.add((team, pool))
                kept = _until(cycle, workload, pool, devices)
                now = devices if kept.until_ms > cycle.now_ms else {}
                left = tuple(_held_back(team, now, kept))
                yield FairShareClaim(team, pool, milli_gpu(workers), left, kept)


def _waiting(cycle: CycleState, pools_of: Callable[[Workload], list[PoolName]]) -> list[Workload]:
    """The first of each class that would borrow and may in some pool; in order within their teams."""
    found: list[Workload] = []
    obstacles = cycle.turns.obstacles
    for key, waiting in cycle.index.equivalence_classes.items():
        # All of a class ask for the same: most classes need not be gone through.
        if key.over_quota and pools_of(cycle.workloads[waiting.members[0].workload_id]):
            members = (cycle.workloads[i] for _, i in waiting.members if i not in obstacles)
            found.extend(islice((one for one in members if one.nomination is None), 1))
    return sorted(found, key=ordering.in_team(cycle.workloads))


def _until(
    cycle: CycleState,
    workload: Workload,
    pool: PoolName,
    devices: Mapping[NodeId, tuple[DeviceId, ...]],
) -> FairShareReservation:
    """For as long as a borrower would have it at least; anew when more of it is free.

    Until the first for whom the team's place was kept has started, it is not kept anew for others of
    the team; had that one left the line instead, each who leaves would keep it for the next.
    """
    free = sum(map(len, devices.values())) * WHOLE_MILLI_GPU
    known = cycle.before.fair_share_reservations.get((workload.spec.team, pool))
    if known and known.milli_gpu >= free and not _is_over(cycle, known):
        return known
    min_run_ms = cycle.pools[pool].min_run_ms
    until_ms = Millis(cycle.now_ms + min_run_ms)
    return FairShareReservation(
        workload_id=workload.workload_id,
        milli_gpu=free,
        until_ms=until_ms,
        again_ms=Millis(until_ms + min_run_ms),
    )


def _is_over(cycle: CycleState, known: FairShareReservation) -> bool:
    """For whom it was kept has started, or left the line so long ago that another may have it."""
    first = cycle.workloads.get(known.workload_id)
    if first is None or first.state is State.PAUSED or is_final(first):
        return cycle.now_ms >= known.again_ms
    return first.state is not State.QUEUED


def _has_come(cycle: CycleState, workload: Workload, pool: PoolName) -> bool:
    """It may claim a share by now, and somebody who borrows is a turn ahead of its team."""
    need = milli_gpu(must_have(workload.spec))
    if not has_waited(cycle, workload, pool):
        return False
    account = accounts(cycle, pool)
    return any(
        where == pool
        and use.borrowed > 0
        and account.is_a_turn_ahead(other, 0, workload.spec.team, need)
        for (other, where), use in cycle.uses.items()
    )


def has_waited(cycle: CycleState, workload: Workload, pool: PoolName) -> bool:
    """At the last look it had been in line as long as others may run undisturbed.

    Shares are a matter of hours: mostly something ends by itself before that, and goes first to
    the team that has had least, so that nobody need be stopped.
    """
    found = cycle.pools.get(pool)
    if found is None:
        return False
    looked_ms = looked_at_ms(cycle.now_ms, found.half_life_ms)
    since_ms = max(workload.since_ms, in_line_since_ms(workload, cycle.workloads))
    return since_ms + found.min_run_ms <= looked_ms


def accounts(cycle: CycleState, pool: PoolName) -> Accounts:
    """What teams had and have; what one is losing already no longer counts as its own."""
    gone = cycle.index.leaving
    uses = dict(cycle.uses) if gone else cycle.uses
    for team, node_id, milli in gone.values():
        if (team, pool) in uses and cycle.nodes[node_id].pool == pool:
            uses[team, pool] = uses[team, pool].plus(HoldClass.OVER_QUOTA, -milli)
    return cycle.accounts(pool, uses)


def _most_free(
    cycle: CycleState, workers: tuple[Worker, ...], pool: PoolName
) -> dict[NodeId, tuple[DeviceId, ...]]:
    """What is free where the least has to end before all workers fit; nothing where they never do.

    A part of a GPU keeps nothing: it has its place with the next GPU that becomes free. Where all of
    the place is free, it is kept all the same: until the turns are over, others could take it.
    """
    _, free = free_per_node(cycle.capacity, pool, HoldClass.OVER_QUOTA)
    nodes = cycle.capacity.usable(pool)
    ahead = sorted(workers, key=lambda one: one.milli_gpu)
    if ahead[0].milli_gpu < WHOLE_MILLI_GPU:
        return {}
    found = {}
    for number in np.argsort(-free, kind="stable"):
        node, taken = nodes[number], 0
        while ahead and _holds(node, ahead[-1], taken):
            taken += ahead.pop().milli_gpu
        idle = [i for i, one in node.devices.items() if not one.blocked(HoldClass.OVER_QUOTA)]
        if taken and idle:
            found[node.node.node_id] = tuple(idle[: taken // WHOLE_MILLI_GPU])
        if not ahead:
            return found
    return {}


def _holds(node: NodeCapacity, worker: Worker, taken_milli_gpu: int) -> bool:
    """It would fit beside so much, were nobody there but notebooks: jobs end, notebooks stay."""
    stays = {
        device_id
        for hold in node.holds.values()
        if hold.hold_class is HoldClass.FIXED
        for device_id in hold.placement.device_ids
    }
    there = sum(suits(one, worker) for i, one in node.devices.items() if i not in stays)
    return (
        there * WHOLE_MILLI_GPU - taken_milli_gpu >= worker.milli_gpu
        and node.node.cpu_milli >= worker.cpu_milli
        and node.node.memory_mib >= worker.memory_mib
    )


def _left(cycle: CycleState, workload: Workload, pool: PoolName) -> Iterator[FairShareClaim]:
    """Places of a pool that a job leaves to others; a nominee's own turn has come."""
    team, need = workload.spec.team, milli_gpu(must_have(workload.spec))
    if not cycle.turns.fair_share_claims or not need or workload.nomination is not None:
        return
    account = accounts(cycle, pool)
    for one in cycle.turns.fair_share_claims:
        if one.pool == pool and one.team != team and one.held_back:
            asked = (team, need, one.team, one.need_milli_gpu)
            if account.is_a_turn_ahead(*asked):
                cycle.turns.left.add((pool, asked))
                yield one


def left_to(cycle: CycleState, workload: Workload, pool: PoolName) -> TeamName | None:
    """The first team to which a job leaves a place."""
    return next((one.team for one in _left(cycle, workload, pool)), None)


@contextmanager
def respected(cycle: CycleState, workload: Workload, pool: PoolName) -> Iterator[bool]:
    """Hold back what a job leaves to others while it looks; says whether that is anything."""
    left = [part for turn in _left(cycle, workload, pool) for part in turn.held_back]
    if not left:
        yield False
        return
    with cycle.capacity.ledger.with_also(left):
        yield True


def _held_back(
    team: TeamName, devices: Mapping[NodeId, tuple[DeviceId, ...]], kept: FairShareReservation
) -> Iterator[HoldBack]:
    for node_id, device_ids in devices.items():
        yield HoldBack(
            reason=HoldBackReason.FAIR_SHARE,
            node_id=node_id,
            bits=tuple((device_id, FULL) for device_id in device_ids),
            team=team,
            workload_id=kept.workload_id,
            held_for=HoldClass.OVER_QUOTA,
            until_ms=kept.until_ms,
        )
