"""Whose turn it is on the surplus: a place is kept for who waits for more than is free anywhere.

Idle GPUs go first to who has had least. Where its jobs need more than is free in one place, the team
with the smallest jobs would take every remnant, and have more than its share for ever: what is won
back from it comes to it again as the next remnant. So a job whose turn has come keeps the place
where most is free already. Who is a turn ahead does not start there: a borrower has its minimum run
time, and could not be made to leave as soon as the rest of the place is free.

Everybody else may start there, and everybody may start wherever else something is free. Nothing is
kept where unused guarantees could claim the whole place before it is complete: what is idle is the
first that they take, so the remnants would fill with work that stays, and whole places become rare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from gpucommons.gpu.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core import guarantee, reclaim
from gpucommons.scheduler.core.demand import Worker, milli_gpu, must_have
from gpucommons.scheduler.core.draft import Draft
from gpucommons.scheduler.core.holds import FULL
from gpucommons.scheduler.core.node_room import NodeRoom
from gpucommons.scheduler.core.room import Turn
from gpucommons.scheduler.core.spots import suits
from gpucommons.scheduler.core.types import HoldClass, NodeId, PoolName, TeamName, Workload
from gpucommons.scheduler.core.views import free_per_node


def keep_a_place(draft: Draft, workload: Workload, pool: PoolName) -> None:
    """Keep what is free of a place for a waiting job whose turn has come; one per team and pool."""
    team, need = workload.spec.team, milli_gpu(must_have(workload.spec))
    if any((one.team, one.pool) == (team, pool) for one in draft.room.turns):
        return
    if not _has_come(draft, workload, pool, need):
        return
    devices = _most_free(draft, must_have(workload.spec), pool)
    if devices:
        draft.room.turns.append(Turn(team, pool, need, devices))
        # Once it has its place, who was kept from it has another turn.
        draft.reservations.setdefault(workload.workload_id, ())


def _has_come(draft: Draft, workload: Workload, pool: PoolName, need: int) -> bool:
    """It may claim a share by now, and somebody who borrows is a turn ahead of its team."""
    if not reclaim.has_waited(draft, workload, pool) or _unused(draft, pool) >= need:
        return False
    accounts = reclaim.accounts(draft, pool)
    return any(
        where == pool
        and use.borrowed > 0
        and accounts.is_a_turn_ahead(other, 0, workload.spec.team, need)
        for (other, where), use in draft.uses.items()
    )


def _unused(draft: Draft, pool: PoolName) -> int:
    """How much guarantees may still ask for."""
    guarantees = guarantee.in_force(draft)
    teams = guarantees.get(pool, {})
    return sum(max(0, guarantee.left(draft, guarantees, team, pool)) for team in teams)


def _most_free(
    draft: Draft, workers: tuple[Worker, ...], pool: PoolName
) -> dict[NodeId, tuple[DeviceId, ...]]:
    """What is free where the least has to end before all workers fit; nothing where they never do.

    A part of a GPU keeps nothing: it has its place with the next GPU that becomes free.
    """
    _, free = free_per_node(draft.room, pool, HoldClass.OVER_QUOTA)
    nodes = draft.room.usable(pool)
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


def _holds(node: NodeRoom, worker: Worker, taken_milli_gpu: int) -> bool:
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


def _kept_from(draft: Draft, workload: Workload, pool: PoolName) -> Iterator[Turn]:
    """Places of a pool that a job leaves to others; a nominee's own turn has come."""
    team, need = workload.spec.team, milli_gpu(must_have(workload.spec))
    turns = [one for one in draft.room.turns if one.pool == pool and one.team != team]
    if turns and need and workload.nomination is None:
        accounts = reclaim.accounts(draft, pool)
        for one in turns:
            if accounts.is_a_turn_ahead(team, need, one.team, one.need_milli_gpu):
                yield one


def left_to(draft: Draft, workload: Workload, pool: PoolName) -> TeamName | None:
    """The first team to which a job leaves a place."""
    return next((one.team for one in _kept_from(draft, workload, pool)), None)


@contextmanager
def respected(draft: Draft, workload: Workload, pool: PoolName) -> Iterator[bool]:
    """Hide from the room what a job leaves to others; says whether that is anything."""
    hidden: list[tuple[NodeRoom, Mapping[DeviceId, int]]] = []
    for turn in _kept_from(draft, workload, pool):
        for node_id, device_ids in turn.devices.items():
            node = draft.room.nodes[node_id]
            hidden.append((node, {i: node.devices[i].headroom for i in device_ids}))
            _set_headroom(node, dict.fromkeys(device_ids, FULL))
    try:
        yield bool(hidden)
    finally:
        for node, before in reversed(hidden):
            _set_headroom(node, before)


def _set_headroom(node: NodeRoom, bits: Mapping[DeviceId, int]) -> None:
    for device_id, headroom in bits.items():
        node.devices[device_id].headroom = headroom
    node.touch()
