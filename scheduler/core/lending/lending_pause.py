"""What a guarantee has just given up is lent only after a while, so that its team may come back.

A team that works inside its guarantee starts job after job. Were the GPUs lent in the pause between
two of them, every next job would begin with somebody's eviction, and the borrower would have run
for moments. The pool says how long such a pause may be; until then in-guarantee work alone may
have them.

What was won back for a notebook is not lent again either before such a pause has passed since: who
starts and stops a server over and over has nobody stopped in between.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.capacity.hold_back import HoldBack, HoldBackReason
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.lending.not_lent import NotLent
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.holds import Load, class_of_worker, mask_of
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
from gpucommons.scheduler.core.queue import unused_quota

#: Bits of each device that were given up and are not lent yet.
_RELEASED_BITS: Entry[None, dict[tuple[NodeId, DeviceId], int]] = Entry(
    "released bits", Fact.RELEASED
)


def begin(cycle: CycleState, workload: Workload, attempt: Attempt) -> None:
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


def would_begin(cycle: CycleState, workload: Workload, attempt: Attempt) -> bool:
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
    return until_ms if workload.workload_id in cycle.index.stopped_for else cycle.now_ms


def hold_backs(cycle: CycleState, not_lent: NotLent) -> Sequence[HoldBack]:
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
        bits = not_lent.lendable_bits(one.placement)
        part = sum(mask.bit_count() for _, mask in bits or ())
        whole = placed_milli_gpu(one.placement)
        fixed = one.hold_class is HoldClass.FIXED
        if bits is not None and part <= unused[key] and (part == whole or fixed):
            unused[key] -= part
            if bits or not whole:
                found.extend(not_lent.with_these([_hold_back(one, bits, part, whole)]))
        elif not fixed:
            continue
        kept.append(one)
    if len(kept) < len(cycle.carried.released):
        cycle.carried.released = tuple(reversed(kept))
    return found


def _hold_back(
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
        return unused_quota.of_fixed(cycle, team, pool)
    return unused_quota.of_guarantee(cycle, team, pool)
