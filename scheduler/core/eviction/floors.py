"""What a place on a node costs at least: most nodes are too dear to be looked at closely.

Of what a job would lose, each of its devices on a node answers for an equal part. However a place
is chosen there, the parts of its devices together are never more than the jobs on them lose.
"""

from __future__ import annotations

from gpucommons.gpu.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.capacity.node_room import NodeRoom
from gpucommons.scheduler.core.eviction.search import Search
from gpucommons.scheduler.core.eviction.units import Units
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.types import HoldClass, NodeId, WorkloadId
from gpucommons.scheduler.core.placement.admission import Unit


class Floors:
    """Costs of the devices of each node, by one right and for work of one class."""

    def __init__(self, units: Units, hold_class: HoldClass) -> None:
        """Look at nodes when they are asked for, and again when they changed."""
        self._units = units
        self._hold_class = hold_class
        self._whole: dict[NodeId, tuple[int, list[int]]] = {}

    def least_lost(self, node: NodeRoom, worker: Worker) -> int | None:
        """Work thrown away at least for a worker here; None where there is no place in any case."""
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

    def _costs(self, node: NodeRoom, size: int) -> list[int]:
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
        self, node: NodeRoom
    ) -> tuple[dict[DeviceId, list[Unit]], dict[WorkloadId, int], bool]:
        """Units by device, how many devices each job has here, and whether any is promised."""
        on: dict[DeviceId, list[Unit]] = {}
        held: dict[WorkloadId, int] = {}
        promised = False
        for key, unit in self._units.on(node):
            if key is None:
                promised = True
                continue
            devices = node.holds[key].placement.device_ids
            held[unit.workload_id] = held.get(unit.workload_id, 0) + len(devices)
            for device_id in devices:
                on.setdefault(device_id, []).append(unit)
        return on, held, promised


def floors_of(search: Search) -> Floors:
    """The floors of a search's right and class, remembered for the cycle."""
    key = ("floors", search.pool, *search.right, search.hold_class)
    found = search.draft.searches.get(key)
    if not isinstance(found, Floors):
        found = search.draft.searches[key] = Floors(search.units, search.hold_class)
    return found
