"""Which running jobs have to move so that a waiting one fits, and where each of them goes.

A job that moves ends in one place and goes on in another. Everything is tried out on copies of the
nodes concerned: the waiting job takes its place first, then everyone who moved finds one again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.capacity.capacity_arrays import free_per_node
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.capacity.placement_slots import (
    PlacementSlot,
    best_slot,
    placed,
    take,
)
from gpucommons.scheduler.core.eviction.gangs import for_gang
from gpucommons.scheduler.core.eviction.search import Search
from gpucommons.scheduler.core.model.demand import Worker, milli_gpu
from gpucommons.scheduler.core.model.holds import class_of_worker
from gpucommons.scheduler.core.model.types import (
    Attempt,
    HoldClass,
    NodeId,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.placement import guaranteed_host_resources
from gpucommons.scheduler.core.placement.eviction_plan import EvictionCandidate, EvictionPlan

#: So many sets of jobs are tried for one that waits, the smallest first; a cycle must end.
_TRIES = 16


def find(search: Search, most: int) -> EvictionPlan | None:
    """Return the smallest set of jobs, no more than ``most``, whose move makes room."""
    view, free = free_per_node(search.cycle.capacity, search.pool, HoldClass.FIXED)
    barred = sum(int(free[view.ordinals[i]]) for i in search.excluded & view.ordinals.keys())
    if int(free.sum()) - barred < milli_gpu(tuple(search.workers)):
        return None  # not scattered but too little
    for taken, slot in _sets_to_move(search, most):
        plan = _settled(search, taken, slot)
        if plan is not None and _is_kept(search, plan):
            return plan
    return None


def _is_kept(search: Search, found: EvictionPlan) -> bool:
    """Whoever is inside a guarantee then has no more of a node than goes with its GPUs there."""
    if not search.in_proportion(found.placements):
        return False
    cycle = search.cycle
    for workload_id, placements in found.destinations.items():
        mover = cycle.workloads[workload_id]
        if mover.current and mover.current.hold_class is HoldClass.GUARANTEED:
            lies = [one for one in placements if not one.surplus]
            if not guaranteed_host_resources.are_kept(cycle, mover.spec.team, search.pool, lies):
                return False
    return True


def _sets_to_move(
    search: Search, most: int
) -> Iterator[tuple[tuple[EvictionCandidate, ...], PlacementSlot | None]]:
    """Sets of jobs without which it fits, and where: the fewest and smallest first, then the least
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
        for option in search.trial(node).options(worker, most):
            # Other devices of the same jobs are no other way.
            if option.mask in seen or not option.candidates:
                continue
            seen.add(option.mask)
            # A small job finds a place more easily than a large one, and its restart costs less.
            moved = sum(search.held(candidate)[2] for candidate in option.candidates)
            options.append((len(option.candidates), moved, option.rank, number, option, node))
    options.sort(key=lambda one: one[:4])
    for *_, option, node in options[:_TRIES]:
        yield option.candidates, PlacementSlot(node, option.device_ids, option.offset, size)


class _Trial:
    """Nodes as they would be; only those that change are copied."""

    def __init__(self, nodes: Sequence[NodeCapacity]) -> None:
        self._nodes = {node.node.node_id: node for node in nodes}
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
    search: Search, taken: tuple[EvictionCandidate, ...], slot: PlacementSlot | None
) -> EvictionPlan | None:
    """Everybody's new place when these move, or None where one of them has nowhere to go."""
    policy = search.policy
    trial = _Trial(search.cycle.capacity.usable(search.pool))
    for candidate in taken:
        for node_id in sorted(search.candidates.nodes_of(candidate)):
            node = trial.copy(node_id)
            for key in [key for key in candidate.keys if key in node.holds]:
                node.remove(key)
    if slot is None:
        mine = [(worker, policy.hold_class) for worker in search.workers]
        wanted = trial.put_all(mine, search.excluded)
    else:
        wanted = (trial.put_at(search.workers[0], slot),)
    if wanted is None:
        return None
    destinations: dict[WorkloadId, tuple[WorkerPlacement, ...]] = {}
    for workload, attempt in sorted(_movers(search, taken), key=_largest_first):
        too_lean = guaranteed_host_resources.too_lean(search.cycle, workload.spec, search.pool)
        again = [_again(workload, attempt, one) for one in attempt.placements]
        found = trial.put_all(again, too_lean)
        if found is None:
            return None
        pairs = zip(found, attempt.placements, strict=True)
        destinations[workload.workload_id] = tuple(
            replace(new, surplus=old.surplus) for new, old in pairs
        )
    return EvictionPlan(wanted, policy.hold_class, taken, policy.cause, destinations)


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
