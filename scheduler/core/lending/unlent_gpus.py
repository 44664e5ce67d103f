"""Unlent GPUs: a small part of a pool that borrowers never have while guarantees are unused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.capacity.capacity_arrays import whole_free_per_node
from gpucommons.scheduler.core.capacity.hold_back import HoldBack, HoldBackReason
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.lending.not_lent import NotLent
from gpucommons.scheduler.core.model.holds import FULL
from gpucommons.scheduler.core.model.types import HoldClass, PoolName
from gpucommons.scheduler.core.queue import unused_quota

_DEVICES: Entry[PoolName, int] = Entry("devices of a pool", Fact.REFRESHED)


def hold_backs(cycle: CycleState, pool: PoolName, not_lent: NotLent) -> Iterator[HoldBack]:
    """As much as the pool says, and no more than guarantees may still ask for."""
    share = cycle.pools[pool].unlent_permille
    devices = _devices(cycle, pool) if share else 0
    unused = unused_quota.of_all_guarantees(cycle, pool) if devices else 0
    left = min(devices * share // 1000, unused // WHOLE_MILLI_GPU)
    for node in _fullest_first(cycle, pool) if left > 0 else ():
        for device_id, device in node.devices.items():
            if not device.blocked(HoldClass.GUARANTEED) and not not_lent.has_some_of(
                node, device_id
            ):
                yield HoldBack(
                    reason=HoldBackReason.UNLENT,
                    node_id=node.node.node_id,
                    bits=((device_id, FULL),),
                    load=node.share(WHOLE_MILLI_GPU),
                    held_for=HoldClass.GUARANTEED,
                )
                left -= 1
                if not left:
                    return


def _devices(cycle: CycleState, pool: PoolName) -> int:
    nodes = cycle.capacity.usable(pool)
    return cycle.memo.remember(_DEVICES, pool, lambda: sum(len(node.devices) for node in nodes))


def _fullest_first(cycle: CycleState, pool: PoolName) -> Iterator[NodeCapacity]:
    """Nodes with whole GPUs free: those with fewest first, so that borrowers keep large places."""
    free = whole_free_per_node(cycle.capacity, pool, HoldClass.GUARANTEED)
    nodes = cycle.capacity.usable(pool)
    order = np.argsort(free, kind="stable")
    for number in order[free[order] > 0]:
        yield nodes[number]
