"""Where workers go: all of a gang in one pool, each worker on one node, or nothing.

One worker goes where the packing policy loses least (:mod:`.packing.foresight`), outside fixed
blocks first; a gang goes to the tightest part of the pool that takes all of it
(:mod:`.domains`). What a job wishes for (`capacity.affinity`) breaks ties of the latter, and goes before
packing. The same input always gives the same place, and nothing is ever taken: a search
gives back what it tried.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.scheduler.core.capacity.affinity import NONE, Affinity
from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.placement_slots import give_back, placed, take
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.types import HoldClass, PoolName, WorkerPlacement
from gpucommons.scheduler.core.placement import domains
from gpucommons.scheduler.core.placement.finding import find


def place(  # noqa: PLR0913 - one question; most leave the last two out
    capacity: Capacity,
    workers: Sequence[Worker],
    hold_class: HoldClass,
    pool: PoolName,
    optional: Sequence[Worker] = (),
    *,
    affinity: Affinity = NONE,
) -> tuple[WorkerPlacement, ...]:
    """Place all of ``workers`` and as many of ``optional`` as fit; () when not all fit.

    The capacity is as before when it returns.
    """
    if len(workers) == 1 and not optional:
        slot = find(capacity, pool, workers[0], hold_class, affinity)
        return () if slot is None else (placed(workers[0], slot),)
    found = domains.together(capacity, pool, workers, hold_class, affinity) if workers else ()
    if found is None:
        return ()
    done = list(zip(workers, found, strict=True))
    try:
        for worker, slot in done:
            take(slot, worker)
        for worker in optional:
            more = find(capacity, pool, worker, hold_class, affinity)
            if more is None:
                break
            take(more, worker)
            done.append((worker, more))
    finally:
        for worker, slot in reversed(done):
            give_back(slot, worker)
    return tuple(placed(worker, slot) for worker, slot in done)
