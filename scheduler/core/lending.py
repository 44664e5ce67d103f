"""What a guarantee has just given up is lent only after a while, so that its team may come back.

A team that works inside its guarantee starts job after job. Were the GPUs lent in the pause between
two of them, every next job would begin with somebody's eviction, and the borrower would have run
for moments. The pool says how long such a pause may be; until then in-guarantee work alone may
have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from gpucommons.gpu.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.demand import class_of_worker, placed_milli_gpu
from gpucommons.scheduler.core.draft import Draft, Guarantees
from gpucommons.scheduler.core.holds import mask_of
from gpucommons.scheduler.core.node_room import NodeRoom
from gpucommons.scheduler.core.resources import NodeState
from gpucommons.scheduler.core.state import Released
from gpucommons.scheduler.core.types import (
    Attempt,
    HoldClass,
    Millis,
    PoolName,
    TeamName,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.core.views import whole_free_per_node


def give_up(draft: Draft, workload: Workload, attempt: Attempt) -> None:
    """Remember what an attempt held inside its team's guarantee when it ended."""
    for one in attempt.placements:
        if class_of_worker(attempt.hold_class, one) is not HoldClass.GUARANTEED:
            continue
        node = draft.nodes.get(one.node_id)
        pool = None if node is None else draft.pools.get(node.pool)
        if pool is not None and pool.lend_after_ms > 0:
            until_ms = Millis(draft.now_ms + pool.lend_after_ms)
            draft.released.append(
                Released(team=workload.spec.team, placement=one, until_ms=until_ms)
            )


def hold_back(draft: Draft, guarantees: Guarantees) -> None:
    """Keep borrowers off what teams may still come back for; after in-guarantee work had its turn.

    No more than a team's unused guarantee is held back for it: a team whose next job started
    elsewhere has come back already. The newest are kept first.
    """
    unused: dict[tuple[TeamName, PoolName], int] = {}
    kept = []
    for one in reversed(draft.released):
        node = draft.nodes.get(one.placement.node_id)
        if node is None or one.until_ms <= draft.now_ms:
            continue
        key = (one.team, node.pool)
        if key not in unused:
            saved = guarantees.get(node.pool, {}).get(one.team, 0)
            unused[key] = saved - draft.use(*key).guaranteed
        asked = placed_milli_gpu(one.placement)
        if asked <= unused[key] and _is_free(draft, one.placement):
            unused[key] -= asked
            kept.append(one)
            draft.room.hold_back(one.placement)
    draft.released = kept[::-1]
    for pool in draft.pools:
        _keep_a_few(draft, pool, guarantees.get(pool, {}))


def _keep_a_few(draft: Draft, pool: PoolName, guarantees: Mapping[TeamName, int]) -> None:
    """Keep a small part of a pool from borrowers, and no more than guarantees may still ask for."""
    share = draft.pools[pool].unlent_permille
    devices = sum(len(node.devices) for node in draft.room.usable(pool)) if share else 0
    unused = sum(max(0, of - draft.use(team, pool).guaranteed) for team, of in guarantees.items())
    left = min(devices * share // 1000, unused // WHOLE_MILLI_GPU)
    for node in _fullest_first(draft, pool) if left > 0 else ():
        for device_id, device in node.devices.items():
            if left > 0 and not device.blocked(HoldClass.GUARANTEED) and not device.headroom:
                draft.room.hold_back(_whole(node, device_id))
                left -= 1
        if left <= 0:
            return


def _fullest_first(draft: Draft, pool: PoolName) -> Iterator[NodeRoom]:
    """Nodes with whole GPUs free: those with fewest first, so that borrowers keep large places."""
    free = whole_free_per_node(draft.room, pool, HoldClass.GUARANTEED)
    nodes = draft.room.usable(pool)
    for number in np.argsort(free, kind="stable"):
        if free[number]:
            yield nodes[number]


def _whole(node: NodeRoom, device_id: DeviceId) -> WorkerPlacement:
    """A GPU with its part of the node, as a place that may be held back."""
    share = node.share(WHOLE_MILLI_GPU)
    return WorkerPlacement(
        role="",
        index=0,
        node_id=node.node.node_id,
        device_ids=(device_id,),
        milli_gpu=WHOLE_MILLI_GPU,
        cpu_milli=share.cpu_milli,
        memory_mib=share.memory_mib,
    )


def _is_free(draft: Draft, placement: WorkerPlacement) -> bool:
    node = draft.room.nodes.get(placement.node_id)
    if node is None or node.node.state is not NodeState.READY:
        return False
    bits = mask_of(placement)
    devices = [node.devices.get(device_id) for device_id in placement.device_ids]
    return all(
        device is not None and not (device.held | device.promised | device.headroom) & bits
        for device in devices
    )
