"""Who has to go so that somebody fits: no more than needed, with the least work lost.

A single worker takes the cheapest place of the pool. What each node could offer is remembered
within a cycle and looked at again only where a node was touched, so a long line of claims costs
little more than its first. Gangs, and claims that lack quota, are searched for in :mod:`.gangs`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

from gpucommons.scheduler.core.capacity.placement_slots import best_slot, placed
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.eviction.candidates import EvictionCandidates
from gpucommons.scheduler.core.eviction.cost_bound import cost_bound_of
from gpucommons.scheduler.core.eviction.gangs import for_gang
from gpucommons.scheduler.core.eviction.node_trial import NodeEvictionTrial, Option, Rank
from gpucommons.scheduler.core.eviction.search import Found, Search
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.types import HoldClass, NodeId

#: How dear, which node, which version of it, and the place; without a place it is no dearer than that.
_Entry = tuple[tuple[Any, ...], int, int, tuple[NodeEvictionTrial, Option] | None]


def cheapest(search: Search) -> Found | None:
    """Return the candidates that must go and the place they leave, or None where nothing helps."""
    if len(search.workers) > 1 or search.policy.shortfall.anything:
        return for_gang(search)
    found = _offers(search).best(search)
    if found is None:
        return None
    trial, option = found
    worker = search.workers[0]
    slot = option.slot(trial.node, worker)
    if not worker.whole_gpus or not trial.only_place(option):
        slot = best_slot([trial.cleared(option.mask)], worker, search.policy.hold_class) or slot
    return option.candidates, (placed(worker, slot),)


def _offers(search: Search) -> _Offers:
    worker = evolve(search.workers[0], role="", index=0)
    key = (search.candidates, worker, search.policy.hold_class, search.without)
    return search.cycle.memo.remember(_OFFERS, key, lambda: _Offers(search, worker))


class _Offers:
    """The cheapest place on each node for one kind of worker, the cheapest of them first."""

    def __init__(self, search: Search, worker: Worker) -> None:
        self._worker = worker
        self._numbers = {node_id: number for number, node_id in enumerate(search.nodes)}
        self._names = list(search.nodes)
        self._versions = [0] * len(self._names)
        self._read = search.cycle.capacity.changes
        self._heap: list[_Entry] = []
        for number in range(len(self._names)):
            self._heap.extend(self._guess(search, number))
        heapify(self._heap)

    def _guess(self, search: Search, number: int) -> list[_Entry]:
        """What a node costs at least: most are too dear to be looked at closely."""
        node = search.candidates.nodes[self._names[number]]
        least = cost_bound_of(search).least_lost(node, self._worker)
        return [] if least is None else [(((least,),), number, self._versions[number], None)]

    def _exact(self, search: Search, number: int) -> list[_Entry]:
        node = search.candidates.nodes[self._names[number]]
        trial = search.trial(node)
        option = trial.option(self._worker)
        if option is None:
            return []
        return [(option.rank, number, self._versions[number], (trial, option))]

    def _refresh(self, search: Search) -> None:
        capacity = search.cycle.capacity
        for node_id in dict.fromkeys(capacity.touched_since(self._read)):
            number = self._numbers.get(node_id)
            if number is not None:
                self._versions[number] += 1
                for entry in self._guess(search, number):
                    heappush(self._heap, entry)
        self._read = capacity.changes

    def best(self, search: Search) -> tuple[NodeEvictionTrial, Option] | None:
        """Return the cheapest place now, and its node."""
        self._refresh(search)
        best: tuple[Rank, int, NodeEvictionTrial, Option] | None = None
        over_budget = []
        while self._heap:
            found_rank, number, version, found = self._heap[0]
            if version != self._versions[number]:
                heappop(self._heap)
                continue
            if best is not None and best[:2] <= (found_rank, number):
                break
            if found is None:
                heappop(self._heap)
                for entry in self._exact(search, number):
                    heappush(self._heap, entry)
                continue
            trial, option = found
            if search.allowed(option.candidates):
                best = (option.rank, number, trial, option)
                break
            over_budget.append(heappop(self._heap))
            # Its cheapest place asks too much of somebody; a dearer one there may not.
            other = trial.option(self._worker, allowed=search.allowed)
            if other is not None and (best is None or (other.rank, number) < best[:2]):
                best = (other.rank, number, trial, other)
        for entry in over_budget:
            heappush(self._heap, entry)
        return None if best is None else best[2:]


#: They look again at nodes that have changed.
_OFFERS: Entry[tuple[EvictionCandidates, Worker, HoldClass, frozenset[NodeId]], _Offers] = Entry(
    "offers", Fact.SURVEY
)
