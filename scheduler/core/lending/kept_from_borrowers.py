"""What borrowers may not have though nobody holds it: all limits on lending, in their order."""

from __future__ import annotations

from gpucommons.scheduler.core.capacity.hold_back import HoldBack, HoldBackKey, HoldBackReason
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.lending import headroom, lending_pause, unlent_gpus
from gpucommons.scheduler.core.lending.not_lent import NotLent
from gpucommons.scheduler.core.model.types import HoldClass, PoolName

_HELD_BACK: Entry[tuple[PoolName, HoldClass], tuple[HoldBack, ...]] = Entry(
    "held back", Fact.REFRESHED, Fact.CAPACITY
)


def limit_lending(cycle: CycleState) -> None:
    """Keep borrowers off headroom, off what teams may still come back for, and off a few GPUs more."""
    not_lent = NotLent(cycle.capacity.nodes)
    ledger = cycle.capacity.ledger
    found = [part for pool in cycle.pools.values() for part in headroom.hold_backs(cycle, pool)]
    ledger.replace(HoldBackKey(HoldBackReason.HEADROOM), not_lent.with_these(found))
    paused = lending_pause.hold_backs(cycle, not_lent)
    ledger.replace(HoldBackKey(HoldBackReason.LENDING_PAUSE), paused)
    found = [one for pool in cycle.pools for one in unlent_gpus.hold_backs(cycle, pool, not_lent)]
    ledger.replace(HoldBackKey(HoldBackReason.UNLENT), found)


def gpus_held_back(
    cycle: CycleState, pool: PoolName, hold_class: HoldClass
) -> tuple[HoldBack, ...]:
    """What keeps a class off whole GPUs of a pool that nobody holds: one for each GPU."""
    return cycle.memo.remember(
        _HELD_BACK,
        (pool, hold_class),
        lambda: tuple(cycle.capacity.gpus_held_back(pool, hold_class).values()),
    )
