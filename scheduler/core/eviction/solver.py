"""The one search for who has to be stopped: no more than needed, with the least work lost.

What cannot succeed is refused by adding up amounts, before any device is looked at. A single worker
takes the cheapest place of the pool. What each node could offer is remembered within a cycle and looked
at again only where a node has changed, so many who ask for the same cost little more than the first.
Gangs, and work that lacks quota, are searched for in :mod:`.gangs`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

from gpucommons.scheduler.core.capacity.placement_slots import best_slot, placed
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.eviction import feasibility
from gpucommons.scheduler.core.eviction.candidates import EvictionCandidates
from gpucommons.scheduler.core.eviction.gangs import for_gang
from gpucommons.scheduler.core.eviction.node_trial import NodeEvictionTrial
from gpucommons.scheduler.core.eviction.option import Option, Rank
from gpucommons.scheduler.core.eviction.policies import EvictionPolicy
from gpucommons.scheduler.core.eviction.search import Found, Search
from gpucommons.scheduler.core.model.demand import Worker, must_have
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.holds import Load
from gpucommons.scheduler.core.model.types import HoldClass, NodeId, PoolName, Spec
from gpucommons.scheduler.core.placement.eviction_plan import EvictionCandidate, EvictionPlan
from gpucommons.scheduler.core.quota.layout import Region

#: Its cost, the node's number and version, and the place; without a place it costs at least that much.
_Entry = tuple[tuple[Any, ...], int, int, tuple[NodeEvictionTrial, Option] | None]


def solve(
    cycle: CycleState, spec: Spec, pool: PoolName, policy: EvictionPolicy
) -> EvictionPlan | None:
    """Return victims none of whom could be spared, and the place they leave; None: nothing helps."""
    workers, budget = must_have(spec), policy.budget
    if budget is not None and not feasibility.could_fit(cycle, pool, workers, budget):
        return None
    search = Search.of(cycle, spec, pool, policy)
    if policy.within_team and not feasibility.could_fit_without(search):
        return None
    found = _cheapest(search)
    if found is None:
        return None
    victims, placements = found
    return EvictionPlan(placements, policy.hold_class, victims, policy.cause)


def victims_in(
    cycle: CycleState, spec: Spec, policy: EvictionPolicy, area: Region, need: Load
) -> tuple[EvictionCandidate, ...] | None:
    """Return who must go so that just this area and this load are free; None: they cannot be."""
    node = cycle.capacity.nodes[area.node_id]
    search = Search.of(cycle, spec, node.node.pool, policy)
    return search.trial(node).area(dict.fromkeys(area.device_ids, area.mask), need)


def _cheapest(search: Search) -> Found | None:
    if len(search.workers) > 1 or search.policy.shortfall.anything:
        return for_gang(search)
    found = _cheapest_places(search).best(search)
    if found is None:
        return None
    trial, option = found
    worker = search.workers[0]
    slot = option.slot(trial.node, worker)
    if not worker.whole_gpus or not trial.only_place(option):
        slot = best_slot([trial.cleared(option.mask)], worker, search.policy.hold_class) or slot
    return option.candidates, (placed(worker, slot),)


def _cheapest_places(search: Search) -> _CheapestPlaces:
    worker = evolve(search.workers[0], role="", index=0)
    key = (search.candidates, worker, search.policy.hold_class, search.excluded)
    return search.cycle.memo.remember(
        _CHEAPEST_PLACES, key, lambda: _CheapestPlaces(search, worker)
    )


class _CheapestPlaces:
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
        """What a node costs at least: most cost too much to be looked at closely."""
        node = search.candidates.nodes[self._names[number]]
        least = search.trial(node).least_lost(self._worker)
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
            if search.within_budget(option.candidates):
                best = (option.rank, number, trial, option)
                break
            over_budget.append(heappop(self._heap))
            # Its cheapest place asks too much of somebody; a costlier one there may not.
            other = trial.option(self._worker, allowed=search.within_budget)
            if other is not None and (best is None or (other.rank, number) < best[:2]):
                best = (other.rank, number, trial, other)
        for entry in over_budget:
            heappush(self._heap, entry)
        return None if best is None else best[2:]


#: They look again at nodes that have changed.
_CHEAPEST_PLACES: Entry[
    tuple[EvictionCandidates, Worker, HoldClass, frozenset[NodeId]], _CheapestPlaces
] = Entry("cheapest places", Fact.REFRESHED)
