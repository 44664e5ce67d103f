"""What borrowers may not have though nobody holds it: headroom, pauses in lending, unlent GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.capacity.capacity_arrays import whole_free_per_node
from gpucommons.scheduler.core.capacity.hold_back import HoldBack, HoldBackKey, HoldBackReason
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.holds import FULL, Load, mask_of
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.state import Released
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    NodeId,
    PoolName,
    TeamName,
    WorkerPlacement,
)
from gpucommons.scheduler.core.queue import headroom, unused_quota
from gpucommons.scheduler.core.quota.quota import quota_of

_HELD_BACK: Entry[tuple[PoolName, HoldClass], tuple[HoldBack, ...]] = Entry(
    "held back", Fact.REFRESHED, Fact.CAPACITY
)
_DEVICES: Entry[PoolName, int] = Entry("devices of a pool", Fact.REFRESHED)


def hold_back(cycle: CycleState) -> None:
    """Keep borrowers off headroom, off what teams may still come back for, and off a few GPUs more."""
    plan = _Plan(cycle)
    ledger = cycle.capacity.ledger
    found = [part for pool in cycle.pools.values() for part in headroom.held_back(cycle, pool)]
    ledger.hold_back(HoldBackKey(HoldBackReason.HEADROOM), plan.with_these(found))
    kept, found = _pauses(cycle, plan)
    ledger.hold_back(HoldBackKey(HoldBackReason.LENDING_PAUSE), found)
    if len(kept) < len(cycle.carried.released):
        cycle.carried.released = kept
    found = [one for pool in cycle.pools for one in _unlent_gpus(cycle, pool, plan)]
    ledger.hold_back(HoldBackKey(HoldBackReason.UNLENT), found)


class _Plan:
    """What is to be held back from borrowers, and what that leaves them."""

    def __init__(self, cycle: CycleState) -> None:
        self._nodes = cycle.capacity.nodes
        self._bits: dict[tuple[NodeId, DeviceId], int] = {}

    def with_these(self, found: Sequence[HoldBack]) -> Sequence[HoldBack]:
        """Hold these back, too."""
        for one in found:
            for device_id, bits in one.bits:
                where = (one.node_id, device_id)
                self._bits[where] = self._bits.get(where, 0) | bits
        return found

    def holds(self, node: NodeCapacity, device_id: DeviceId) -> bool:
        """Some of a device is held back."""
        return (node.node.node_id, device_id) in self._bits

    def open_bits(self, one: WorkerPlacement) -> tuple[tuple[DeviceId, int], ...] | None:
        """What borrowers could have of a place; None where it is not there."""
        node = self._nodes.get(one.node_id)
        if node is None or node.node.state is not NodeState.READY:
            return None
        if not node.devices.keys() >= set(one.device_ids):
            return None
        mask = mask_of(one)
        open_there = (
            mask
            & ~node.devices[device_id].blocked(HoldClass.FIXED)
            & ~self._bits.get((one.node_id, device_id), 0)
            for device_id in one.device_ids
        )
        return tuple((i, bits) for i, bits in zip(one.device_ids, open_there, strict=True) if bits)


def _pauses(cycle: CycleState, plan: _Plan) -> tuple[tuple[Released, ...], list[HoldBack]]:
    """What teams may still come back for; after in-guarantee work had its turn.

    No more than a team's unused quota is held back for it: a team whose next job started elsewhere
    has come back already. The newest are kept first. A notebook's place is kept also after the next
    notebook in it, for which nobody was stopped, and beside one that takes a part of it.
    """
    unused: dict[tuple[TeamName, PoolName, HoldClass], int] = {}
    kept: list[Released] = []
    found: list[HoldBack] = []
    for one in reversed(cycle.carried.released):
        node = cycle.nodes.get(one.placement.node_id)
        if node is None or one.until_ms <= cycle.now_ms:
            continue
        key = (one.team, node.pool, one.hold_class)
        if key not in unused:
            unused[key] = _unused(cycle, *key)
        bits = plan.open_bits(one.placement)
        part = sum(mask.bit_count() for _, mask in bits or ())
        whole = placed_milli_gpu(one.placement)
        fixed = one.hold_class is HoldClass.FIXED
        if bits is not None and part <= unused[key] and (part == whole or fixed):
            unused[key] -= part
            if bits or not whole:
                found.extend(plan.with_these([_pause(one, bits, part, whole)]))
        elif not fixed:
            continue
        kept.append(one)
    return tuple(kept[::-1]), found


def _pause(
    one: Released, bits: tuple[tuple[DeviceId, int], ...], part: int, whole: int
) -> HoldBack:
    """A place that was given up, or the part of it that is open, with as much beside it."""
    place = one.placement
    load = Load(place.cpu_milli, place.memory_mib)
    if part < whole:
        load = Load(load.cpu_milli * part // whole, load.memory_mib * part // whole)
    return HoldBack(
        reason=HoldBackReason.LENDING_PAUSE,
        node_id=place.node_id,
        bits=bits,
        load=load,
        team=one.team,
        held_for=one.hold_class,
        until_ms=one.until_ms,
    )


def _unused(cycle: CycleState, team: TeamName, pool: PoolName, hold_class: HoldClass) -> int:
    if hold_class is HoldClass.FIXED:
        return quota_of(cycle.teams, team, pool).fixed_milli_gpu - cycle.use(team, pool).fixed
    return unused_quota.of_guarantee(cycle, team, pool)


def held_back(cycle: CycleState, pool: PoolName, hold_class: HoldClass) -> tuple[HoldBack, ...]:
    """What keeps a class off whole GPUs of a pool that nobody holds: one for each GPU."""
    return cycle.memo.remember(
        _HELD_BACK,
        (pool, hold_class),
        lambda: tuple(cycle.capacity.held_back(pool, hold_class).values()),
    )


def _unlent_gpus(cycle: CycleState, pool: PoolName, plan: _Plan) -> Iterator[HoldBack]:
    """A small part of a pool, and no more than guarantees may still ask for."""
    share = cycle.pools[pool].unlent_permille
    devices = _devices(cycle, pool) if share else 0
    unused = unused_quota.of_all_guarantees(cycle, pool) if devices else 0
    left = min(devices * share // 1000, unused // WHOLE_MILLI_GPU)
    for node in _fullest_first(cycle, pool) if left > 0 else ():
        for device_id, device in node.devices.items():
            if not device.blocked(HoldClass.GUARANTEED) and not plan.holds(node, device_id):
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
