"""Whether work could fit at all if everybody who may be stopped was: amounts first, devices later.

A search for victims looks at devices, bits and loads. Most searches fail on amounts alone, and
those are quickly added up: what is free on each node, and what each borrower has there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from gpucommons.scheduler.core.capacity.capacity_arrays import View, free_per_node
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.eviction.candidates import held_by
from gpucommons.scheduler.core.eviction.policies import may_be_stopped
from gpucommons.scheduler.core.eviction.search import Search
from gpucommons.scheduler.core.model.demand import Worker, milli_gpu, placed_milli_gpu
from gpucommons.scheduler.core.model.holds import mask_of
from gpucommons.scheduler.core.model.types import HoldClass, PoolName, TeamName, WorkerPlacement
from gpucommons.scheduler.core.packing.rows import Ints
from gpucommons.scheduler.core.placement.eviction_plan import EvictionCandidate


def could_fit(
    cycle: CycleState,
    pool: PoolName,
    workers: Sequence[Worker],
    budget: Mapping[TeamName, int],
) -> bool:
    """No is certain: as borrowers they fit nowhere though every team gave up to its budget.

    Yes only means that it is worth a closer look.
    """
    view, free = free_per_node(cycle.capacity, pool, HoldClass.OVER_QUOTA)
    borrowed = cycle.memo.remember(_BORROWED, pool, lambda: _add_up_borrowed(cycle, view))
    within = free + cycle.memo.remember(_ENDING, pool, lambda: _add_up_ending(cycle, view))
    most = int(within.sum())
    gives = bool(cycle.index.stopping)
    for team, milli in budget.items():
        parts = [there for part, there in borrowed.get(team, ()) if part <= milli]
        if parts:
            gives = True
            there = np.minimum(np.sum(parts, axis=0), milli)
            most += min(milli, int(there.sum()))
            within = within + there
    sizes = Counter(worker.milli_gpu for worker in workers if worker.milli_gpu)
    return (
        gives
        and most >= milli_gpu(tuple(workers))
        and all(int((within // size).sum()) >= count for size, count in sizes.items())
    )


def could_fit_without(search: Search) -> bool:
    """No is certain: less is free, and would be if all of these candidates went, than is asked for."""
    cycle = search.cycle
    _, free = free_per_node(cycle.capacity, search.pool, search.policy.hold_class)
    left = milli_gpu(tuple(search.workers)) - int(free.sum())
    for candidate in search.candidates.all() if left > 0 else ():
        left -= _given(cycle, candidate)
        if left <= 0:
            break
    return left <= 0


def _given(cycle: CycleState, candidate: EvictionCandidate) -> int:
    """What a candidate gives whoever takes it; what is cleared for somebody goes with his promise."""
    attempt = cycle.workloads[candidate.workload_id].current
    if not candidate.ending or attempt is None:
        use = held_by(cycle, candidate)
        return use.fixed + use.training
    return sum(_unpromised(cycle, attempt.placements[key.rank]) for key in candidate.keys)


def _unpromised(cycle: CycleState, placement: WorkerPlacement) -> int:
    """Milli-GPU of a placed worker that nobody is promised."""
    devices = cycle.capacity.nodes[placement.node_id].devices
    mask = mask_of(placement)
    there = [devices[i].promised for i in placement.device_ids if i in devices]
    return sum([(mask & ~taken).bit_count() for taken in there])


#: By team: the parts in which it borrows, and how much of such on each node.
_BorrowedByTeam = dict[TeamName, list[tuple[int, Ints]]]


_BORROWED: Entry[PoolName, _BorrowedByTeam] = Entry("borrowed", Fact.REFRESHED, Fact.BORROWERS)
#: On each node, in milli-GPU.
_ENDING: Entry[PoolName, Ints] = Entry("ending", Fact.REFRESHED, Fact.WORKLOADS, Fact.CAPACITY)


def _add_up_borrowed(cycle: CycleState, view: View) -> _BorrowedByTeam:
    sums: dict[tuple[TeamName, int], list[int]] = {}
    for workload_id, borrowed in cycle.index.borrowed.items():
        if may_be_stopped(cycle, cycle.workloads[workload_id]):
            here = sums.setdefault((borrowed.team, borrowed.part), [0] * len(view.ordinals))
            for node_id, milli in borrowed.nodes:
                number = view.ordinals.get(node_id)
                if number is not None:
                    here[number] += milli
    found: _BorrowedByTeam = {}
    for (team, part), here in sums.items():
        found.setdefault(team, []).append((part, np.array(here, dtype=np.int64)))
    return found


def _add_up_ending(cycle: CycleState, view: View) -> Ints:
    """What is being cleared on each node for nobody, and what is promised to those who are stopped.

    What is cleared for somebody is his: it counts where his promise may be taken, as borrowed.
    """
    found = np.zeros(len(view.ordinals), dtype=np.int64)
    for workload_id in cycle.index.stopping:
        workload = cycle.workloads[workload_id]
        attempt, promise = workload.current, workload.nomination
        for one in () if attempt is None else attempt.placements:
            number = view.ordinals.get(one.node_id)
            if number is not None:
                found[number] += _unpromised(cycle, one)
        for one in () if promise is None else promise.placements:
            number = view.ordinals.get(one.node_id)
            if number is not None:
                found[number] += placed_milli_gpu(one)
    return found
