"""A place for one worker on a node, and who has to go for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.capacity.placement_slots import PlacementSlot
from gpucommons.scheduler.core.eviction.victim_order import Cost
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.holds import Load, span
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.core.placement.eviction_plan import EvictionCandidate

Rank = tuple[Cost, int]
#: May these candidates be taken together?
Allowed = Callable[[Sequence[EvictionCandidate]], bool]


@dataclass(frozen=True, slots=True)
class Option:
    """A place for one worker on a node, and the candidates that have to go for it."""

    rank: Rank
    candidates: tuple[EvictionCandidate, ...]
    mask: int
    device_ids: tuple[DeviceId, ...] = ()
    offset: int = 0

    def slot(self, node: NodeCapacity, worker: Worker) -> PlacementSlot:
        """The place itself."""
        return PlacementSlot(
            node, self.device_ids, self.offset, min(worker.milli_gpu, WHOLE_MILLI_GPU)
        )


@dataclass(slots=True)
class Used:
    """What the workers placed so far take of a node."""

    bits: dict[DeviceId, int] = field(default_factory=dict)
    load: Load = Load()
    count: int = 0
    #: Workloads that are stopped already, wherever: more of them costs nothing more.
    paid: Collection[WorkloadId] = ()

    def add(self, worker: Worker, option: Option) -> None:
        """Take an option's place."""
        taken = span(option.offset, min(worker.milli_gpu, WHOLE_MILLI_GPU))
        for device_id in option.device_ids:
            self.bits[device_id] = self.bits.get(device_id, 0) | taken
        self.load = self.load.plus(Load(worker.cpu_milli, worker.memory_mib))
        self.count += 1
