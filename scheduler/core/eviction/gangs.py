"""Victims for a gang: all of its workers find a place, and nobody is stopped who need not be.

A gang is refused at once where stopping every candidate would not help. Otherwise its workers take the
cheapest places one by one; then each victim is spared without which the gang still fits. Where there
are few candidates, all sets of them are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import Any

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.capacity.placement_slots import (
    PlacementSlot,
    best_slot,
    placed,
    take,
)
from gpucommons.scheduler.core.eviction.node_trial import NodeEvictionTrial
from gpucommons.scheduler.core.eviction.option import Option, Used
from gpucommons.scheduler.core.eviction.search import Found, Search
from gpucommons.scheduler.core.eviction.victim_order import rank, sparing_order
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.types import NodeId, WorkerPlacement, WorkloadId
from gpucommons.scheduler.core.placement.eviction_plan import EvictionCandidate
from gpucommons.scheduler.core.placement.placement import place

#: With at most so many candidates in reach, all sets of them are compared: 256 sets at most.
FEW = 8


def for_gang(search: Search) -> Found | None:
    """Return the candidates that must go for all workers to fit, and where they will lie."""
    kinds = {replace(worker, role="", index=0) for worker in search.workers}
    if len(kinds) == 1:
        gang = _Gang(search, kinds.pop(), len(search.workers))
        taken = gang.victims()
        return None if taken is None else (taken, gang.placements(search.workers, frozenset(taken)))
    return _mixed(search, kinds)


class _Gang:
    """Workers that are all alike: whether they fit is a matter of counting."""

    def __init__(self, search: Search, worker: Worker, count: int) -> None:
        self.search = search
        self.worker = worker
        self.count = count
        #: Where to look.
        self.nodes = search.nodes
        #: Who is stopped already: more workers of the same job cost nothing more.
        self.paid: set[WorkloadId] = set()
        self._counts: dict[tuple[NodeId, int], int] = {}

    def trial(self, node_id: NodeId) -> NodeEvictionTrial:
        """A node as the search sees it."""
        return self.search.trial(self.nodes[node_id])

    def trials(self) -> Iterator[NodeEvictionTrial]:
        """All nodes, each looked at only when it is needed."""
        return map(self.search.trial, self.nodes.values())

    def least_lost(self, node_id: NodeId) -> int | None:
        """What a worker costs at least on a node; None where it has no place at all."""
        return self.search.trial(self.nodes[node_id]).least_lost(self.worker)

    def victims(self) -> tuple[EvictionCandidate, ...] | None:
        """Who has to go; None where nothing helps."""
        if self._capacity(lambda trial: trial.everything) < self.count:
            return None
        candidates = None
        if self.search.policy.shortfall.anything or self._are_few():
            candidates = self._candidates()
            if not self.search.quota_suffices(candidates):
                return None
            if len(candidates) <= FEW:
                return self._best_set(candidates)
        taken = self._greedy()
        if taken is None:
            if self.search.policy.budget is not None:
                return None
            taken = dict.fromkeys(self._candidates())
        if not self.search.quota_suffices(taken):
            self._fill(taken, candidates or [])
        return self._spared(taken)

    def _capacity(self, gone: Callable[[NodeEvictionTrial], int]) -> int:
        """How many workers fit when these are gone; counts no further than needed."""
        total = 0
        for trial in self.trials():
            total += trial.capacity(self.worker, gone(trial))
            if total >= self.count:
                break
        return total

    def count_on(self, node_id: NodeId, gone: int) -> int:
        """How many workers fit on a node when these are gone; remembered."""
        found = self._counts.get((node_id, gone))
        if found is None:
            found = self.trial(node_id).capacity(self.worker, gone)
            self._counts[node_id, gone] = found
        return found

    def fit(self, gone: Mapping[NodeId, int]) -> bool:
        """Whether all of them fit, and nobody else, when these are gone."""
        total = 0
        for node_id, mask in gone.items():
            total += self.count_on(node_id, mask)
            if total >= self.count:
                return True
        return False

    def _are_few(self) -> bool:
        """Whether there are few candidates in all; counts no further than needed."""
        found: set[EvictionCandidate] = set()
        for trial in self.trials():
            # A gang is one candidate, on however many nodes it lies.
            found.update(trial.parts)
            if len(found) > FEW:
                return False
        return True

    def _candidates(self) -> list[EvictionCandidate]:
        """Candidates that hold something of a node, and those whose quota counts."""
        if self.search.policy.shortfall.anything:
            return self.search.candidates.all()
        return list(dict.fromkeys(part for trial in self.trials() for part in trial.parts))

    def _best_set(
        self, candidates: Sequence[EvictionCandidate]
    ) -> tuple[EvictionCandidate, ...] | None:
        sets = [
            tuple(candidate for bit, candidate in enumerate(candidates) if mask >> bit & 1)
            for mask in range(1 << len(candidates))
        ]
        for taken in sorted(sets, key=rank):
            if not (self.search.quota_suffices(taken) and self.search.within_budget(taken)):
                continue
            if self._capacity(lambda trial, gone=taken: trial.mask_of(gone)) >= self.count:  # type: ignore[misc]
                return taken
        return None

    def _greedy(self) -> dict[EvictionCandidate, None] | None:
        """Take the cheapest places one by one, free ones first."""
        taken: dict[EvictionCandidate, None] = {}
        places = _NextPlaces(self, taken)
        for _ in range(self.count):
            found = places.next()
            if found is None:
                return None
            node_id, option = found
            changed = {node_id}
            for candidate in option.candidates:
                taken[candidate] = None
                self.paid.add(candidate.workload_id)
                for other in self.search.candidates.of(candidate.workload_id):
                    changed |= self.search.candidates.nodes_of(other) & self.nodes.keys()
            places.take(node_id, option, changed)
        return taken

    def _fill(
        self, taken: dict[EvictionCandidate, None], candidates: Sequence[EvictionCandidate]
    ) -> None:
        """Quota is still short: more of the team's own work goes, the cheapest first."""
        team = self.search.policy.team
        for candidate in sorted(candidates, key=sparing_order):
            if self.search.quota_suffices(taken):
                return
            if self.search.held(candidate)[0] == team:
                taken[candidate] = None

    def _spared(self, taken: dict[EvictionCandidate, None]) -> tuple[EvictionCandidate, ...] | None:
        """Spare each victim, the costliest first, without which the gang still fits."""
        gone = {i: self.trial(i).mask_of(taken) for i in self._in_play(taken)}
        fits = {i: self.trial(i).capacity(self.worker, mask) for i, mask in gone.items()}
        total = sum(fits.values())
        left = dict(taken)
        for candidate in sorted(taken, key=sparing_order, reverse=True):
            there = self.search.candidates.nodes_of(candidate) & self.nodes.keys()
            after = {i: gone[i] & ~self.trial(i).mask_of((candidate,)) for i in there}
            counts = {i: self.trial(i).capacity(self.worker, mask) for i, mask in after.items()}
            lost = sum(fits[i] - found for i, found in counts.items())
            if total - lost < self.count:
                continue
            if not self.search.quota_suffices(one for one in left if one is not candidate):
                continue
            total -= lost
            gone.update(after)
            fits.update(counts)
            del left[candidate]
        return tuple(left) if total >= self.count and self.search.within_budget(left) else None

    def _in_play(self, taken: Iterable[EvictionCandidate]) -> list[NodeId]:
        """Nodes on which one of these lies, or a worker fits though nobody is stopped."""
        there = {
            node_id for candidate in taken for node_id in self.search.candidates.nodes_of(candidate)
        }
        return [i for i in self.nodes if i in there or self.least_lost(i) == 0]

    def placements(
        self, workers: Sequence[Worker], taken: Collection[EvictionCandidate]
    ) -> tuple[WorkerPlacement, ...]:
        """Where the workers lie once the victims are gone: node by node."""
        left = list(workers)
        found: list[WorkerPlacement] = []
        for trial in map(self.trial, self._in_play(taken)):
            gone = trial.mask_of(taken)
            count = min(len(left), trial.capacity(self.worker, gone)) if left else 0
            if not count:
                continue
            mine, left = left[:count], left[count:]
            slots = _slots_on(trial, gone, mine, self.search)
            found.extend(placed(worker, slot) for worker, slot in zip(mine, slots, strict=True))
        by_worker = {(one.role, one.index): one for one in found}
        return tuple(by_worker[worker.role, worker.index] for worker in workers)


class _NextPlaces:
    """The next place on every node, the cheapest first, while a gang is being placed."""

    def __init__(self, gang: _Gang, taken: Mapping[EvictionCandidate, None]) -> None:
        self._gang = gang
        self._taken = taken
        self._gone = dict.fromkeys(gang.nodes, 0)
        self._used: dict[NodeId, Used] = {}
        self._versions = dict.fromkeys(gang.nodes, 0)
        #: Its cost, the node, its version, and the place; without one it costs at least that much.
        self._heap: list[tuple[tuple[Any, ...], NodeId, int, Option | None]] = []
        for node_id in gang.nodes:
            least = gang.least_lost(node_id)
            if least is not None:
                self._heap.append((((least,),), node_id, 0, None))
        heapify(self._heap)

    def _allowed(self, candidates: Sequence[EvictionCandidate]) -> bool:
        return self._gang.search.within_budget([*self._taken, *candidates])

    def _look(self, node_id: NodeId) -> None:
        """Look at a node again: what was known of it is out of date."""
        self._versions[node_id] += 1
        option = self._gang.trial(node_id).option(
            self._gang.worker,
            self._gone[node_id],
            self._used_of(node_id),
            None if self._gang.search.policy.budget is None else self._allowed,
        )
        if option is not None:
            heappush(self._heap, (option.rank, node_id, self._versions[node_id], option))

    def _used_of(self, node_id: NodeId) -> Used:
        if node_id not in self._used:
            self._used[node_id] = Used(paid=self._gang.paid)
        return self._used[node_id]

    def next(self) -> tuple[NodeId, Option] | None:
        """Return the cheapest place; None where there is none left."""
        while self._heap:
            _, node_id, version, option = heappop(self._heap)
            if version != self._versions[node_id]:
                continue
            if option is not None and (
                self._gang.search.policy.budget is None or self._allowed(option.candidates)
            ):
                return node_id, option
            self._look(node_id)
        return None

    def take(self, node_id: NodeId, option: Option, changed: Collection[NodeId]) -> None:
        """Put a worker there; its victims are gone from all of these nodes."""
        self._used_of(node_id).add(self._gang.worker, option)
        for other in sorted(changed):
            self._gone[other] |= self._gang.trial(other).mask_of(option.candidates)
            self._look(other)


def _slots_on(
    trial: NodeEvictionTrial, gone: int, workers: Sequence[Worker], search: Search
) -> list[PlacementSlot]:
    size = workers[0].whole_gpus
    whole = trial.whole_free(workers[0], gone) if size else []
    if size and len(whole) == size * len(workers):
        # All that is free there is needed: nothing to choose.
        parts = [tuple(whole[at : at + size]) for at in range(0, len(whole), size)]
        return [PlacementSlot(trial.node, ids, 0, WHOLE_MILLI_GPU) for ids in parts]
    node = trial.cleared(gone)
    found: list[PlacementSlot] = []
    for worker in workers:
        slot = best_slot([node], worker, search.policy.hold_class)
        if slot is None:
            break
        take(slot, worker)
        found.append(slot)
    if len(found) == len(workers):
        return found
    # Shares of odd sizes fit as counted only when they lie close together, from the left.
    used, found = Used(), []
    for worker in workers:
        option = trial.option(worker, gone, used)
        if option is not None and not option.candidates:
            used.add(worker, option)
            milli_gpu = min(worker.milli_gpu, 1000)
            found.append(PlacementSlot(node, option.device_ids, option.offset, milli_gpu))
    return found


def _mixed(search: Search, kinds: set[Worker]) -> Found | None:
    """Workers of several kinds: the largest kind decides, the others mostly fit beside it."""
    largest = max(kinds, key=lambda kind: (kind.milli_gpu, kind.cpu_milli, kind.memory_mib))
    count_of = Counter(replace(worker, role="", index=0) for worker in search.workers)
    gang = _Gang(search, largest, count_of[largest])
    taken = gang.victims()
    if taken is None:
        return None
    trials = _Trials([gang, *(_Gang(search, kind, count_of[kind]) for kind in kinds - {largest})])
    # Whom the largest kind alone cannot spare, all kinds together cannot spare either.
    where = trials.fit(taken)
    if where:
        return taken, where
    everyone = sorted(search.candidates.all(), key=sparing_order)
    if not trials.fit(everyone):
        return None
    taken = _needed([], everyone, lambda gone: bool(trials.fit(gone)))
    where = trials.fit(taken)
    return (tuple(taken), where) if where else None


class _Trials:
    """Whether workers of several kinds fit together when some candidates are gone, asked many times."""

    def __init__(self, kinds: Sequence[_Gang]) -> None:
        self._kinds = kinds
        self._search = kinds[0].search
        self._trials = {node_id: kinds[0].trial(node_id) for node_id in kinds[0].nodes}
        #: On which nodes each candidate lies, and its bit there.
        self._lying: dict[EvictionCandidate, list[tuple[NodeId, int]]] = {}
        for node_id, trial in self._trials.items():
            for number, candidate in enumerate(trial.parts):
                self._lying.setdefault(candidate, []).append((node_id, 1 << number))
        self._cleared: dict[tuple[NodeId, int], NodeCapacity] = {}

    def fit(self, gone: Sequence[EvictionCandidate]) -> tuple[WorkerPlacement, ...]:
        """Where everybody lies then, or nothing."""
        search = self._search
        if not search.quota_suffices(gone) or not search.within_budget(gone):
            return ()
        masks = dict.fromkeys(self._trials, 0)
        for candidate in gone:
            for node_id, bit in self._lying.get(candidate, ()):
                masks[node_id] |= bit
        # Each kind alone is counted first: placing all of them together takes much longer.
        if not all(kind.fit(masks) for kind in self._kinds):
            return ()
        nodes = {
            node_id: self._node(node_id, mask)
            for node_id, mask in masks.items()
            if any(kind.count_on(node_id, mask) for kind in self._kinds)
        }
        found = place(Capacity(nodes), search.workers, search.policy.hold_class, search.pool)
        # What has no GPU counts beside those that have one: only now is known beside which.
        return found if search.in_proportion(found) else ()

    def _node(self, node_id: NodeId, mask: int) -> NodeCapacity:
        found = self._cleared.get((node_id, mask))
        if found is None:
            found = self._cleared[node_id, mask] = self._trials[node_id].cleared(mask)
        return found


def _needed(
    sure: list[EvictionCandidate],
    candidates: list[EvictionCandidate],
    fits: Callable[[Sequence[EvictionCandidate]], bool],
) -> tuple[EvictionCandidate, ...]:
    """Return the few of the candidates that must go beside those that go for sure.

    Halves are tried before single candidates, costly ones are spared first. Without all of them it fits.
    """
    if fits(sure):
        return ()
    if len(candidates) == 1:
        return (candidates[0],)
    middle = len(candidates) // 2
    cheap, costly = candidates[:middle], candidates[middle:]
    needed_costly = list(_needed([*sure, *cheap], costly, fits))
    needed_cheap = list(_needed([*sure, *needed_costly], cheap, fits))
    return (*needed_cheap, *needed_costly)
