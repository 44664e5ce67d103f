"""What a guarantee has just given up is lent only after a while, so that its team may come back.

A team that works inside its guarantee starts job after job. Were the GPUs lent in the pause between
two of them, every next job would begin with somebody's eviction, and the borrower would have run
for moments. The pool says how long such a pause may be; until then in-guarantee work alone may
have them.

What was won back for a notebook is not lent again either before such a pause has passed since: who
starts and stops a server over and over has nobody stopped in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.capacity.hold_back import HoldBack, HoldBackKey, HoldBackReason
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.capacity.views import whole_free_per_node
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.model.demand import class_of_worker, placed_milli_gpu
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.holds import FULL, Load, mask_of
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.state import Released
from gpucommons.scheduler.core.model.types import (
    Attempt,
    HoldClass,
    Millis,
    NodeId,
    PoolName,
    TeamName,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.core.queue import headroom, reclaim_cooldown, unused_quota
from gpucommons.scheduler.core.quota.quota import quota_of

#: Bits of each device that were given up and are not lent yet.
_RELEASED_BITS: Entry[None, dict[tuple[NodeId, DeviceId], int]] = Entry(
    "released bits", Fact.RELEASED
)
_HELD_BACK: Entry[tuple[PoolName, HoldClass], tuple[HoldBack, ...]] = Entry(
    "held back", Fact.REFRESHED, Fact.CAPACITY
)
_DEVICES: Entry[PoolName, int] = Entry("devices of a pool", Fact.REFRESHED)


def give_up(cycle: CycleState, workload: Workload, attempt: Attempt) -> None:
    """Remember what an attempt held inside its team's guarantee, or won back, when it ended."""
    for one in attempt.placements:
        hold_class = class_of_worker(attempt.hold_class, one)
        until_ms = _kept_until_ms(cycle, workload, attempt, one)
        if until_ms > cycle.now_ms:
            given_up = Released(
                team=workload.spec.team,
                # Memory beyond its share was lent to it.
                placement=evolve(one, extra_offset=0, extra_milli=0),
                hold_class=hold_class,
                until_ms=until_ms,
            )
            cycle.carried.released = (*cycle.carried.released, given_up)


def is_kept(cycle: CycleState, workload: Workload, attempt: Attempt) -> bool:
    """Whether something that it gives up, should it end now, is not lent at once."""
    released = cycle.memo.remember(_RELEASED_BITS, None, lambda: _released_bits(cycle))
    return any(
        _kept_until_ms(cycle, workload, attempt, one) > cycle.now_ms
        or any(
            mask_of(one) & released.get((one.node_id, device_id), 0) for device_id in one.device_ids
        )
        for one in attempt.placements
    )


def _released_bits(cycle: CycleState) -> dict[tuple[NodeId, DeviceId], int]:
    """What was given up and is not lent yet: asked for all that end at once."""
    found: dict[tuple[NodeId, DeviceId], int] = {}
    for one in cycle.carried.released:
        for device_id in one.placement.device_ids:
            where = (one.placement.node_id, device_id)
            found[where] = found.get(where, 0) | mask_of(one.placement)
    return found


def _kept_until_ms(
    cycle: CycleState, workload: Workload, attempt: Attempt, one: WorkerPlacement
) -> Millis:
    node = cycle.nodes.get(one.node_id)
    pool = None if node is None else cycle.pools.get(node.pool)
    hold_class = class_of_worker(attempt.hold_class, one)
    if pool is None:
        return cycle.now_ms
    if hold_class is HoldClass.GUARANTEED:
        return Millis(cycle.now_ms + pool.lend_after_ms)
    until_ms = Millis(attempt.reserved_ms + pool.lend_after_ms)
    if hold_class is not HoldClass.FIXED or until_ms <= cycle.now_ms:
        return cycle.now_ms
    return until_ms if reclaim_cooldown.had_others_stopped(cycle, workload) else cycle.now_ms


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
