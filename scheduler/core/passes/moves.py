"""Which running jobs have to move so that a waiting one fits, and where each of them goes.

A job that moves ends in one place and goes on in another. Everything is tried out on copies of the
nodes concerned: the waiting job takes its place first, then everyone who moved finds one again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.capacity.placement_slots import (
    PlacementSlot,
    best_slot,
    placed,
    take,
)
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.eviction.candidates import EvictionCandidates, work_lost
from gpucommons.scheduler.core.eviction.gangs import for_gang
from gpucommons.scheduler.core.eviction.search import Search
from gpucommons.scheduler.core.model.demand import Worker, class_of_worker
from gpucommons.scheduler.core.model.holds import HoldKey
from gpucommons.scheduler.core.model.types import (
    Attempt,
    HoldClass,
    NodeId,
    PoolName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.placement import proportions
from gpucommons.scheduler.core.placement.admission import EvictionCandidate

#: So many sets of jobs are tried for one that waits, the smallest first; a cycle must end.
_TRIES = 16
#: So many nodes are looked at for a place to clear: where most is free, least has to move.
_NODES = 64


@dataclass(frozen=True, slots=True)
class Moves:
    """Who moves, where to, and the place that becomes free by it."""

    candidates: tuple[EvictionCandidate, ...]
    placements: tuple[WorkerPlacement, ...]
    destinations: Mapping[WorkloadId, tuple[WorkerPlacement, ...]]


class Movable(EvictionCandidates):
    """Jobs that may be moved, each as a whole, on the nodes where most is free already."""

    def __init__(
        self,
        cycle: CycleState,
        pool: PoolName,
        movable: Callable[[CycleState, Workload], bool],
        without: frozenset[NodeId] = frozenset(),
    ) -> None:
        """``without``: nodes on which no place is wanted."""
        super().__init__(cycle, pool, lambda workload, _: movable(cycle, workload))
        self.everywhere = self.nodes
        free = {
            node_id: sum(
                WHOLE_MILLI_GPU - d.blocked(HoldClass.FIXED).bit_count()
                for d in node.devices.values()
            )
            for node_id, node in self.nodes.items()
            if node_id not in without
        }
        most = sorted((i for i in free if free[i]), key=lambda node_id: (-free[node_id], node_id))
        near = set(most[:_NODES])
        self.nodes = {i: node for i, node in self.everywhere.items() if i in near}
        self.free = sum(free.values())

    def _split(self, workload: Workload) -> Iterator[EvictionCandidate]:
        attempt = workload.current
        if attempt is None or not self._takeable(workload, attempt.hold_class):
            return
        if all(one.node_id in self.nodes for one in attempt.placements):
            keys = tuple(HoldKey(attempt.attempt_id, r) for r in range(len(attempt.placements)))
            lost = work_lost(workload, attempt, self.cycle.now_ms)
            yield EvictionCandidate(workload.workload_id, keys, lost, attempt.reserved_ms)


def find(search: Search, most: int) -> Moves | None:
    """Return the smallest set of jobs, no more than ``most``, whose move makes capacity."""
    candidates = search.candidates
    if not isinstance(candidates, Movable) or candidates.free < sum(
        one.milli_gpu for one in search.workers
    ):
        return None  # not scattered but too little
    for taken, slot in _candidates(search, most):
        moves = _settled(search, candidates.everywhere, taken, slot)
        if moves is not None and _are_kept(search, moves):
            return moves
    return None


def _are_kept(search: Search, found: Moves) -> bool:
    """Whoever is inside a guarantee then has no more of a node than goes with its GPUs there."""
    if not search.kept(found.placements):
        return False
    cycle = search.cycle
    for workload_id, placements in found.destinations.items():
        mover = cycle.workloads[workload_id]
        if mover.current and mover.current.hold_class is HoldClass.GUARANTEED:
            lies = [one for one in placements if not one.surplus]
            if not proportions.are_kept(cycle, mover.spec.team, search.pool, lies):
                return False
    return True


def _candidates(
    search: Search, most: int
) -> Iterator[tuple[tuple[EvictionCandidate, ...], PlacementSlot | None]]:
    """Sets of jobs without whom it fits, and where: the fewest and smallest first, then the least
    work lost.
    """
    if len(search.workers) > 1:
        found = for_gang(search)
        if found is not None and 0 < len(found[0]) <= most:
            yield found[0], None
        return
    worker = search.workers[0]
    size = min(worker.milli_gpu, WHOLE_MILLI_GPU)
    options = []
    for number, node in enumerate(search.nodes.values()):
        seen: set[int] = set()
        for option in search.case(node).options(worker, most):
            # Other devices of the same jobs are no other way.
            if option.mask in seen or not option.candidates:
                continue
            seen.add(option.mask)
            # A small job finds a place more easily than a large one, and its restart costs less.
            moved = sum(search.gives(candidate)[2] for candidate in option.candidates)
            options.append((len(option.candidates), moved, option.rank, number, option, node))
    options.sort(key=lambda one: one[:4])
    for *_, option, node in options[:_TRIES]:
        yield option.candidates, PlacementSlot(node, option.device_ids, option.offset, size)


class _Trial:
    """Nodes as they would be; only those that change are copied."""

    def __init__(self, nodes: Mapping[NodeId, NodeCapacity]) -> None:
        self._nodes = dict(nodes)
        self._copies: set[NodeId] = set()

    def copy(self, node_id: NodeId) -> NodeCapacity:
        """A node that may be changed."""
        if node_id not in self._copies:
            self._copies.add(node_id)
            self._nodes[node_id] = self._nodes[node_id].fork()
        return self._nodes[node_id]

    def put(
        self, worker: Worker, hold_class: HoldClass, too_lean: frozenset[NodeId]
    ) -> WorkerPlacement | None:
        """Place one worker somewhere; inside a guarantee only where it may be inside."""
        barred = too_lean if hold_class is HoldClass.GUARANTEED else ()
        nodes = [node for i, node in self._nodes.items() if i not in barred]
        slot = best_slot(nodes, worker, hold_class)
        if slot is None:
            return None
        return self.put_at(worker, slot)

    def put_at(self, worker: Worker, slot: PlacementSlot) -> WorkerPlacement:
        """Place one worker just here."""
        slot = slot._replace(node=self.copy(slot.node.node.node_id))
        take(slot, worker)
        return placed(worker, slot)

    def put_all(
        self, workers: Sequence[tuple[Worker, HoldClass]], too_lean: frozenset[NodeId]
    ) -> tuple[WorkerPlacement, ...] | None:
        """Place workers, the largest first; in the order given they come back."""
        done: dict[int, WorkerPlacement] = {}
        order = sorted(range(len(workers)), key=lambda i: (-workers[i][0].milli_gpu, i))
        for i in order:
            found = self.put(*workers[i], too_lean)
            if found is None:
                return None
            done[i] = found
        return tuple(done[i] for i in range(len(workers)))


def _settled(
    search: Search,
    nodes: Mapping[NodeId, NodeCapacity],
    taken: Sequence[EvictionCandidate],
    slot: PlacementSlot | None,
) -> Moves | None:
    """Everybody's new place when these move, or None where one of them has nowhere to go."""
    trial = _Trial(nodes)
    for candidate in taken:
        for node_id in sorted(search.candidates.nodes_of(candidate)):
            node = trial.copy(node_id)
            for key in [key for key in candidate.keys if key in node.holds]:
                node.remove(key)
    if slot is None:
        mine = [(worker, search.hold_class) for worker in search.workers]
        wanted = trial.put_all(mine, search.without)
    else:
        wanted = (trial.put_at(search.workers[0], slot),)
    if wanted is None:
        return None
    destinations: dict[WorkloadId, tuple[WorkerPlacement, ...]] = {}
    for workload, attempt in sorted(_movers(search, taken), key=_largest_first):
        too_lean = proportions.too_lean(search.cycle, workload.spec, search.pool)
        again = [_again(workload, attempt, one) for one in attempt.placements]
        found = trial.put_all(again, too_lean)
        if found is None:
            return None
        pairs = zip(found, attempt.placements, strict=True)
        destinations[workload.workload_id] = tuple(_as_before(new, old) for new, old in pairs)
    return Moves(tuple(taken), wanted, destinations)


def _movers(
    search: Search, taken: Sequence[EvictionCandidate]
) -> Iterator[tuple[Workload, Attempt]]:
    for candidate in taken:
        workload = search.cycle.workloads[candidate.workload_id]
        if workload.current is not None:
            yield workload, workload.current


def _largest_first(mover: tuple[Workload, Attempt]) -> tuple[int, str]:
    largest = max((one.milli_gpu * len(one.device_ids) for one in mover[1].placements), default=0)
    return (-largest, mover[0].workload_id)


def _again(workload: Workload, attempt: Attempt, one: WorkerPlacement) -> tuple[Worker, HoldClass]:
    """A placed worker as one that asks for a place."""
    kind = next(role.gpu_kind for role in workload.spec.roles if role.name == one.role)
    milli_gpu = one.milli_gpu * len(one.device_ids)
    worker = Worker(one.role, one.index, milli_gpu, kind, one.cpu_milli, one.memory_mib)
    return worker, class_of_worker(attempt.hold_class, one)


def _as_before(new: WorkerPlacement, old: WorkerPlacement) -> WorkerPlacement:
    return replace(new, surplus=old.surplus)
