"""Who has to go so that somebody fits: no more than needed, with the least work lost.

A single worker takes the cheapest place of the pool. What each node could offer is remembered
within a cycle and looked at again only where a node was touched, so a long line of claims costs
little more than its first. Gangs, and claims that lack quota, are searched for in :mod:`.gangs`.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heapify, heappop, heappush

from gpucommons.gpu.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.clearing import Case, Option, Rank
from gpucommons.scheduler.core.demand import Worker
from gpucommons.scheduler.core.gangs import for_gang
from gpucommons.scheduler.core.node_room import NodeRoom
from gpucommons.scheduler.core.search import Found, Search
from gpucommons.scheduler.core.spots import best_spot, placed
from gpucommons.scheduler.core.types import HoldClass

#: How dear, which node, which version of it, and the place.
_Entry = tuple[Rank, int, int, Case, Option]


def cheapest(search: Search) -> Found | None:
    """Return the units that must go and the place they leave, or None where nothing helps."""
    if len(search.workers) > 1 or search.lacking.anything:
        return for_gang(search)
    found = _offers(search).best(search)
    if found is None:
        return None
    case, option = found
    worker = search.workers[0]
    spot = option.spot(case.node, worker)
    if not worker.whole_gpus or not case.only_place(option):
        spot = best_spot([case.cleared(option.mask)], worker, search.hold_class) or spot
    return option.units, (placed(worker, spot),)


def _offers(search: Search) -> _Offers:
    worker = replace(search.workers[0], role="", index=0)
    key = ("offers", search.pool, *search.right, worker, search.hold_class)
    found = search.draft.searches.get(key)
    if not isinstance(found, _Offers):
        found = search.draft.searches[key] = _Offers(search, worker)
    return found


def _is_too_full(node: NodeRoom, worker: Worker, hold_class: HoldClass) -> bool:
    """Less is free than it asks for, however that lies."""
    free = [WHOLE_MILLI_GPU - d.blocked(hold_class).bit_count() for d in node.devices.values()]
    return sum(free) < worker.milli_gpu


class _Offers:
    """The cheapest place on each node for one kind of worker, the cheapest of them first."""

    def __init__(self, search: Search, worker: Worker) -> None:
        self._worker = worker
        self._numbers = {node_id: number for number, node_id in enumerate(search.units.nodes)}
        self._names = list(search.units.nodes)
        self._versions = [0] * len(self._names)
        self._read = len(search.draft.room.touched)
        self._heap: list[_Entry] = []
        for number in range(len(self._names)):
            self._heap.extend(self._entry(search, number))
        heapify(self._heap)

    def _entry(self, search: Search, number: int) -> list[_Entry]:
        node = search.units.nodes[self._names[number]]
        here = search.units.on(node)
        if not here and _is_too_full(node, self._worker, search.hold_class):
            return []
        case = Case(search.draft.room, node, here, search.hold_class)
        option = case.option(self._worker)
        if option is None:
            return []
        return [(option.rank, number, self._versions[number], case, option)]

    def _refresh(self, search: Search) -> None:
        touched = search.draft.room.touched
        for node_id in dict.fromkeys(touched[self._read :]):
            number = self._numbers.get(node_id)
            if number is not None:
                self._versions[number] += 1
                for entry in self._entry(search, number):
                    heappush(self._heap, entry)
        self._read = len(touched)

    def best(self, search: Search) -> tuple[Case, Option] | None:
        """Return the cheapest place now, and its node."""
        self._refresh(search)
        best: tuple[Rank, int, Case, Option] | None = None
        over_budget = []
        while self._heap:
            found_rank, number, version, case, option = self._heap[0]
            if version != self._versions[number]:
                heappop(self._heap)
                continue
            if best is not None and best[:2] <= (found_rank, number):
                break
            if search.allowed(option.units):
                best = (found_rank, number, case, option)
                break
            over_budget.append(heappop(self._heap))
            # Its cheapest place asks too much of somebody; a dearer one there may not.
            other = case.option(self._worker, allowed=search.allowed)
            if other is not None and (best is None or (other.rank, number) < best[:2]):
                best = (other.rank, number, case, other)
        for entry in over_budget:
            heappush(self._heap, entry)
        return None if best is None else best[2:]
