"""Victims for a gang: all of its workers find a place, and nobody goes in vain.

A gang is refused at once where not even the going of everybody would help. Otherwise it takes the
cheapest place after the other, and at last every victim is spared without whom it still fits. A
handful of units is not guessed at: all sets of them are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from gpucommons.gpu.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.admission import Unit
from gpucommons.scheduler.core.clearing import Case, Option, Rank, Used
from gpucommons.scheduler.core.demand import Worker
from gpucommons.scheduler.core.placement import place
from gpucommons.scheduler.core.room import Room
from gpucommons.scheduler.core.search import Found, Search
from gpucommons.scheduler.core.spots import Spot, best_spot, placed, take
from gpucommons.scheduler.core.types import NodeId, WorkerPlacement, WorkloadId
from gpucommons.scheduler.core.units import dearness, rank

#: With at most so many units in reach, all sets of them are compared: 256 sets at most.
FEW = 8


def for_gang(search: Search) -> Found | None:
    """Return the units that must go for all workers to fit, and where they will lie."""
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
        self.cases = {i: search.case(node) for i, node in search.units.nodes.items()}
        #: Who is stopped already: more workers of the same job cost nothing more.
        self.paid: set[WorkloadId] = set()
        for case in self.cases.values():
            case.paid = self.paid

    def victims(self) -> tuple[Unit, ...] | None:
        """Who has to go; None where nothing helps."""
        if self._capacity(lambda case: case.everything) < self.count:
            return None
        candidates = None
        if self.search.lacking.anything or sum(len(c.parts) for c in self.cases.values()) <= FEW:
            candidates = self._candidates()
            if not self.search.enough(candidates):
                return None
            if len(candidates) <= FEW:
                return self._best_set(candidates)
        taken = self._greedy()
        if taken is None:
            if self.search.budget is not None:
                return None
            taken = dict.fromkeys(self._candidates())
        if not self.search.enough(taken):
            self._fill(taken, candidates or [])
        return self._spared(taken)

    def _capacity(self, gone: Callable[[Case], int]) -> int:
        """How many workers fit when these are gone; counted no further than needed."""
        total = 0
        for case in self.cases.values():
            total += case.capacity(self.worker, gone(case))
            if total >= self.count:
                break
        return total

    def _candidates(self) -> list[Unit]:
        """Units that hold something of a node, and those whose quota counts."""
        if self.search.lacking.anything:
            return self.search.units.all()
        return list(dict.fromkeys(part.unit for c in self.cases.values() for part in c.parts))

    def _best_set(self, candidates: Sequence[Unit]) -> tuple[Unit, ...] | None:
        sets = [
            tuple(unit for bit, unit in enumerate(candidates) if mask >> bit & 1)
            for mask in range(1 << len(candidates))
        ]
        for taken in sorted(sets, key=rank):
            if not (self.search.enough(taken) and self.search.allowed(taken)):
                continue
            if self._capacity(lambda case, gone=taken: case.mask_of(gone)) >= self.count:  # type: ignore[misc]
                return taken
        return None

    def _greedy(self) -> dict[Unit, None] | None:
        """Take the cheapest place after the other, free ones first."""
        taken: dict[Unit, None] = {}
        line = _Line(self, taken)
        for _ in range(self.count):
            found = line.next()
            if found is None:
                return None
            node_id, option = found
            changed = {node_id}
            for unit in option.units:
                taken[unit] = None
                self.paid.add(unit.workload_id)
                for other in self.search.units.of(unit.workload_id):
                    changed |= self.search.units.nodes_of(other) & self.cases.keys()
            line.take(node_id, option, changed)
        return taken

    def _fill(self, taken: dict[Unit, None], candidates: Sequence[Unit]) -> None:
        """Quota is still short: more of the team's own work goes, the cheapest first."""
        team = self.search.lacking.team
        for unit in sorted(candidates, key=dearness):
            if self.search.enough(taken):
                return
            if self.search.gives(unit)[0] == team:
                taken[unit] = None

    def _spared(self, taken: dict[Unit, None]) -> tuple[Unit, ...] | None:
        """Spare everyone, the dearest first, without whom the gang still fits."""
        gone = {i: case.mask_of(taken) for i, case in self.cases.items()}
        fits = {i: case.capacity(self.worker, gone[i]) for i, case in self.cases.items()}
        total = sum(fits.values())
        left = dict(taken)
        for unit in sorted(taken, key=dearness, reverse=True):
            there = self.search.units.nodes_of(unit) & self.cases.keys()
            after = {i: gone[i] & ~self.cases[i].mask_of((unit,)) for i in there}
            counts = {i: self.cases[i].capacity(self.worker, mask) for i, mask in after.items()}
            lost = sum(fits[i] - found for i, found in counts.items())
            if total - lost < self.count:
                continue
            if not self.search.enough(one for one in left if one is not unit):
                continue
            total -= lost
            gone.update(after)
            fits.update(counts)
            del left[unit]
        return tuple(left) if total >= self.count and self.search.allowed(left) else None

    def placements(
        self, workers: Sequence[Worker], taken: Collection[Unit]
    ) -> tuple[WorkerPlacement, ...]:
        """Where the workers lie once the victims are gone: node by node."""
        left = list(workers)
        found: list[WorkerPlacement] = []
        for case in self.cases.values():
            gone = case.mask_of(taken)
            count = min(len(left), case.capacity(self.worker, gone)) if left else 0
            if not count:
                continue
            mine, left = left[:count], left[count:]
            spots = _spots(case, gone, mine, self.search)
            found.extend(placed(worker, spot) for worker, spot in zip(mine, spots, strict=True))
        by_worker = {(one.role, one.index): one for one in found}
        return tuple(by_worker[worker.role, worker.index] for worker in workers)


class _Line:
    """The next place on every node, the cheapest first, while a gang is being placed."""

    def __init__(self, gang: _Gang, taken: Mapping[Unit, None]) -> None:
        self._gang = gang
        self._taken = taken
        self._gone = dict.fromkeys(gang.cases, 0)
        self._used = {node_id: Used() for node_id in gang.cases}
        self._versions = dict.fromkeys(gang.cases, 0)
        self._heap: list[tuple[Rank, NodeId, int, Option]] = []
        for node_id in gang.cases:
            self._look(node_id)

    def _allowed(self, units: Sequence[Unit]) -> bool:
        return self._gang.search.allowed([*self._taken, *units])

    def _look(self, node_id: NodeId) -> None:
        """Look at a node anew: what was known of it is out of date."""
        self._versions[node_id] += 1
        option = self._gang.cases[node_id].option(
            self._gang.worker,
            self._gone[node_id],
            self._used[node_id],
            None if self._gang.search.budget is None else self._allowed,
        )
        if option is not None:
            heappush(self._heap, (option.rank, node_id, self._versions[node_id], option))

    def next(self) -> tuple[NodeId, Option] | None:
        """Return the cheapest place; None where there is none left."""
        while self._heap:
            _, node_id, version, option = heappop(self._heap)
            if version != self._versions[node_id]:
                continue
            if self._gang.search.budget is None or self._allowed(option.units):
                return node_id, option
            self._look(node_id)
        return None

    def take(self, node_id: NodeId, option: Option, changed: Collection[NodeId]) -> None:
        """Put a worker there; its victims are gone from all of these nodes."""
        self._used[node_id].add(self._gang.worker, option)
        for other in sorted(changed):
            self._gone[other] |= self._gang.cases[other].mask_of(option.units)
            self._look(other)


def _spots(case: Case, gone: int, workers: Sequence[Worker], search: Search) -> list[Spot]:
    size = workers[0].whole_gpus
    whole = case.whole_free(workers[0], gone) if size else []
    if size and len(whole) == size * len(workers):
        # All that is free there is needed: nothing to choose.
        parts = [tuple(whole[at : at + size]) for at in range(0, len(whole), size)]
        return [Spot(case.node, ids, 0, WHOLE_MILLI_GPU) for ids in parts]
    node = case.cleared(gone)
    found: list[Spot] = []
    for worker in workers:
        spot = best_spot([node], worker, search.hold_class)
        if spot is None:
            break
        take(spot, worker)
        found.append(spot)
    if len(found) == len(workers):
        return found
    # Shares of odd sizes fit as counted only when they lie close together, from the left.
    used, found = Used(), []
    for worker in workers:
        option = case.option(worker, gone, used)
        if option is not None and not option.units:
            used.add(worker, option)
            milli_gpu = min(worker.milli_gpu, 1000)
            found.append(Spot(node, option.device_ids, option.offset, milli_gpu))
    return found


def _mixed(search: Search, kinds: set[Worker]) -> Found | None:
    """Workers of several kinds: the largest kind decides, the others mostly find room beside it."""
    largest = max(kinds, key=lambda kind: (kind.milli_gpu, kind.cpu_milli, kind.memory_mib))
    count = sum(replace(worker, role="", index=0) == largest for worker in search.workers)
    gang = _Gang(search, largest, count)
    taken = gang.victims()
    if taken is None:
        return None

    def fit(gone: Sequence[Unit]) -> tuple[WorkerPlacement, ...]:
        if not search.enough(gone) or not search.allowed(gone):
            return ()
        nodes = {i: case.cleared(case.mask_of(frozenset(gone))) for i, case in gang.cases.items()}
        return place(Room(nodes), search.workers, search.hold_class, search.pool)

    # Who cannot be spared by the largest kind alone can still less be spared by all.
    where = fit(taken)
    if where:
        return taken, where
    everyone = sorted(search.units.all(), key=dearness)
    if not fit(everyone):
        return None
    taken = _needed([], everyone, lambda gone: bool(fit(gone)))
    return tuple(taken), fit(taken)


def _needed(
    sure: list[Unit], candidates: list[Unit], fits: Callable[[Sequence[Unit]], bool]
) -> tuple[Unit, ...]:
    """Return the few of the candidates that must go beside those that go for sure.

    Halves are tried before single units, dear ones are spared first. All together they do fit.
    """
    if fits(sure):
        return ()
    if len(candidates) == 1:
        return (candidates[0],)
    middle = len(candidates) // 2
    cheap, dear = candidates[:middle], candidates[middle:]
    needed_dear = list(_needed([*sure, *cheap], dear, fits))
    needed_cheap = list(_needed([*sure, *needed_dear], cheap, fits))
    return (*needed_cheap, *needed_dear)
