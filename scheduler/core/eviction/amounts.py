"""Whether work could fit at all if others gave what they may: amounts first, devices later.

A search for victims looks at devices, bits and loads. Most searches fail on amounts alone, and
those are quickly added up: what is free on each node, and what each borrower has there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpucommons.scheduler.core.capacity.views import View, free_per_node
from gpucommons.scheduler.core.cycle_state.draft import Draft
from gpucommons.scheduler.core.eviction.units import Units, held_by
from gpucommons.scheduler.core.model.demand import Worker, milli_gpu, placed_milli_gpu
from gpucommons.scheduler.core.model.holds import mask_of
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    PoolName,
    TeamName,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.core.packing.rows import Ints
from gpucommons.scheduler.core.placement.admission import Unit

#: May this workload's devices be taken now?
Takeable = Callable[[Draft, Workload], bool]


def suffice(
    draft: Draft,
    pool: PoolName,
    workers: Sequence[Worker],
    budget: Mapping[TeamName, int],
    takeable: Takeable,
) -> bool:
    """No is certain: as borrowers they fit nowhere though every team gave up to its budget.

    Yes only means that it is worth a closer look.
    """
    view, free = free_per_node(draft.room, pool, HoldClass.OVER_QUOTA)
    lent = _lent(draft, pool, view, takeable)
    within = free + _ending(draft, pool, view)
    most = int(within.sum())
    gives = bool(draft.register.stopping)
    for team, milli in budget.items():
        parts = [there for part, there in lent.get(team, ()) if part <= milli]
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


def may_suffice(
    draft: Draft,
    pool: PoolName,
    workers: tuple[Worker, ...],
    hold_class: HoldClass,
    units: Units,
) -> bool:
    """No is certain: less is free, and would be if all of these units went, than is asked for."""
    need = milli_gpu(workers)
    _, free = free_per_node(draft.room, pool, hold_class)
    left = need - int(free.sum())
    for unit in units.all() if left > 0 else ():
        left -= _given(draft, unit)
        if left <= 0:
            break
    return left <= 0


def _given(draft: Draft, unit: Unit) -> int:
    """What a unit gives whoever takes it; what is cleared for somebody goes with his promise."""
    attempt = draft.workloads[unit.workload_id].current
    if not unit.ending or attempt is None:
        use = held_by(draft, unit)
        return use.fixed + use.training
    return sum(_unpromised(draft, attempt.placements[key.rank]) for key in unit.keys)


def _unpromised(draft: Draft, placement: WorkerPlacement) -> int:
    """Milli-GPU of a placed worker that nobody is promised."""
    devices = draft.room.nodes[placement.node_id].devices
    mask = mask_of(placement)
    there = [devices[i].promised for i in placement.device_ids if i in devices]
    return sum([(mask & ~taken).bit_count() for taken in there])


#: By team: the parts in which it borrows, and how much of such on each node.
_Lent = dict[TeamName, list[tuple[int, Ints]]]


@dataclass(slots=True)
class _Known:
    """What is lent, as long as nobody began or ceased to borrow."""

    changes: int
    lent: _Lent = field(default_factory=dict)


def _lent(draft: Draft, pool: PoolName, view: View, takeable: Takeable) -> _Lent:
    key = ("lent", pool)
    known = draft.searches.get(key)
    changes = draft.register.lent_changes
    if isinstance(known, _Known) and known.changes == changes:
        return known.lent
    sums: dict[tuple[TeamName, int], list[int]] = {}
    for workload_id, lent in draft.register.lent.items():
        if takeable(draft, draft.workloads[workload_id]):
            here = sums.setdefault((lent.team, lent.part), [0] * len(view.ordinals))
            for node_id, milli in lent.nodes:
                number = view.ordinals.get(node_id)
                if number is not None:
                    here[number] += milli
    known = draft.searches[key] = _Known(changes)
    for (team, part), here in sums.items():
        known.lent.setdefault(team, []).append((part, np.array(here, dtype=np.int64)))
    return known.lent


def _ending(draft: Draft, pool: PoolName, view: View) -> Ints:
    """What is being cleared on each node for nobody, and what is promised to those who are stopped.

    What is cleared for somebody is his: it counts where his promise may be taken, as lent.
    """
    key = ("ending", pool)
    known = draft.searches.get(key)
    if not isinstance(known, _Ending) or known.state != draft.state:
        known = draft.searches[key] = _Ending(draft.state, _add_up_ending(draft, view))
    return known.by_node


@dataclass(frozen=True, slots=True)
class _Ending:
    """What is being cleared, as long as nothing changes."""

    state: tuple[int, int]
    by_node: Ints


def _add_up_ending(draft: Draft, view: View) -> Ints:
    found = np.zeros(len(view.ordinals), dtype=np.int64)
    for workload_id in draft.register.stopping:
        workload = draft.workloads[workload_id]
        attempt, promise = workload.current, workload.nomination
        for one in () if attempt is None else attempt.placements:
            number = view.ordinals.get(one.node_id)
            if number is not None:
                found[number] += _unpromised(draft, one)
        for one in () if promise is None else promise.placements:
            number = view.ordinals.get(one.node_id)
            if number is not None:
                found[number] += placed_milli_gpu(one)
    return found
