"""What a place on a node costs at least: most nodes cost too much to be looked at closely.

What a job would lose is divided evenly among its devices on a node. However a place is chosen there,
the parts of its devices together are never more than the jobs on them lose.
"""

from __future__ import annotations

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.eviction.candidates import EvictionCandidates
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.types import HoldClass, NodeId, WorkloadId
from gpucommons.scheduler.core.placement.admission import EvictionCandidate


class EvictionCostBound:
    """Costs of the devices of each node, for one set of candidates and work of one class."""

    def __init__(self, candidates: EvictionCandidates, hold_class: HoldClass) -> None:
        """Look at nodes when they are asked for, and again when they changed."""
        self._candidates = candidates
        self._hold_class = hold_class
        self._whole: dict[NodeId, tuple[int, list[int]]] = {}

    def least_lost(self, node: NodeCapacity, worker: Worker) -> int | None:
        """Work thrown away at least for a worker here; None where there is no place at all."""
        if not worker.milli_gpu:
            return 0
        if not worker.whole_gpus:
            return min(self._costs(node, worker.milli_gpu), default=None)
        known = self._whole.get(node.node.node_id)
        if known is None or known[0] != node.version:
            known = (node.version, sorted(self._costs(node, WHOLE_MILLI_GPU)))
            self._whole[node.node.node_id] = known
        costs = known[1]
        return None if len(costs) < worker.whole_gpus else sum(costs[: worker.whole_gpus])

    def _costs(self, node: NodeCapacity, size: int) -> list[int]:
        """What so much of each device costs at least; nothing for devices that cannot be had."""
        on, held, promised = self._holders(node)
        costs = []
        for device_id, device in node.devices.items():
            there = on.get(device_id)
            if WHOLE_MILLI_GPU - device.blocked(self._hold_class).bit_count() >= size:
                costs.append(0)
            elif there:
                parts = [one.lost // held[one.workload_id] for one in there]
                costs.append(sum(parts) if size == WHOLE_MILLI_GPU else min(parts))
            elif promised:
                costs.append(0)
        return costs

    def _holders(
        self, node: NodeCapacity
    ) -> tuple[dict[DeviceId, list[EvictionCandidate]], dict[WorkloadId, int], bool]:
        """Candidates by device, how many devices each job has here, and whether any is promised."""
        on: dict[DeviceId, list[EvictionCandidate]] = {}
        held: dict[WorkloadId, int] = {}
        promised = False
        for key, candidate in self._candidates.on(node):
            if key is None:
                promised = True
                continue
            devices = node.holds[key].placement.device_ids
            held[candidate.workload_id] = held.get(candidate.workload_id, 0) + len(devices)
            for device_id in devices:
                on.setdefault(device_id, []).append(candidate)
        return on, held, promised


def cost_bound_of(candidates: EvictionCandidates, hold_class: HoldClass) -> EvictionCostBound:
    """The bound for these candidates and this class, remembered for the cycle."""
    return candidates.cycle.memo.remember(
        _COST_BOUNDS,
        (candidates, hold_class),
        lambda: EvictionCostBound(candidates, hold_class),
    )


#: They look again at nodes that have changed.
_COST_BOUNDS: Entry[tuple[EvictionCandidates, HoldClass], EvictionCostBound] = Entry(
    "cost bounds", Fact.REFRESHED
)
