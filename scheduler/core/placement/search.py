"""Places for a whole gang, looked for one worker after the other: back where the next finds none.

For parts of a pool in which the amounts suffice and the largest workers first found no place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.capacity.node_capacity import DeviceCapacity, NodeCapacity
from gpucommons.scheduler.core.capacity.placement_slots import (
    PlacementSlot,
    give_back,
    slots_on,
    take,
)
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.holds import Load
from gpucommons.scheduler.core.model.types import HoldClass

#: Places tried in one search before it is given up.
TRIES = 20_000

Spots = tuple[PlacementSlot, ...]


@dataclass(frozen=True, slots=True)
class GangDemand:
    """What a gang asks for in all: no part with less can take it."""

    milli_gpu: int
    whole_gpus: int
    cpu_milli: int
    memory_mib: int

    @classmethod
    def of(cls, workers: Sequence[Worker]) -> GangDemand:
        """Of all these together."""
        return cls(
            sum(one.milli_gpu for one in workers),
            sum(one.whole_gpus for one in workers),
            sum(one.cpu_milli for one in workers),
            sum(one.memory_mib for one in workers),
        )


def largest_first(workers: Sequence[Worker]) -> list[int]:
    """A small worker must not take the only place of a large one."""
    return sorted(
        range(len(workers)),
        key=lambda i: (
            -workers[i].milli_gpu,
            workers[i].gpu_kind is None,
            -workers[i].cpu_milli,
            -workers[i].memory_mib,
            i,
        ),
    )


@dataclass(slots=True)
class Search:
    """Tries places for one worker after the other and goes back where the next finds none."""

    open_bits: Callable[[DeviceCapacity], int]
    hold_class: HoldClass
    tries: int = 0
    dead: set[tuple[object, ...]] = field(default_factory=set)

    def through(self, nodes: Sequence[NodeCapacity], workers: Sequence[Worker]) -> Spots | None:
        """A place for each of these workers, or None."""
        order = largest_first(workers)
        if not self._amounts_suffice(nodes, workers):
            return None
        found: dict[int, PlacementSlot] = {}
        if not self._next(nodes, workers, order, found):
            return None
        return tuple(found[i] for i in range(len(workers)))

    def _amounts_suffice(self, nodes: Sequence[NodeCapacity], workers: Sequence[Worker]) -> bool:
        need = GangDemand.of(workers)
        free = [node.free(self.hold_class).positive() for node in nodes]
        bits = [self.open_bits(d) for node in nodes for d in node.devices.values()]
        return (
            sum(one.bit_count() for one in bits) >= need.milli_gpu
            and sum(one.bit_count() == WHOLE_MILLI_GPU for one in bits) >= need.whole_gpus
            and sum(one.cpu_milli for one in free) >= need.cpu_milli
            and sum(one.memory_mib for one in free) >= need.memory_mib
        )

    def _next(
        self,
        nodes: Sequence[NodeCapacity],
        workers: Sequence[Worker],
        order: Sequence[int],
        found: dict[int, PlacementSlot],
    ) -> bool:
        if len(found) == len(order):
            return True
        looks = [self._look(node) for node in nodes]
        state = (len(found), *sorted(looks))
        if state in self.dead:
            return False
        i = order[len(found)]
        worker = workers[i]
        seen: set[tuple[object, ...]] = set()
        for node, look in zip(nodes, looks, strict=True):
            # Of nodes that look alike one is as good as the other.
            if look in seen:
                continue
            seen.add(look)
            for slot in self._slots(node, worker):
                self.tries += 1
                if self.tries > TRIES:
                    return False
                take(slot, worker)
                found[i] = slot
                done = self._next(nodes, workers, order, found)
                give_back(slot, worker)
                if done:
                    return True
                del found[i]
        self.dead.add(state)
        return False

    def _look(self, node: NodeCapacity) -> tuple[object, ...]:
        devices = tuple((d.device.kind, self.open_bits(d)) for d in node.devices.values())
        return (*node.free(self.hold_class), devices)

    def _slots(self, node: NodeCapacity, worker: Worker) -> Iterable[PlacementSlot]:
        need = Load(worker.cpu_milli, worker.memory_mib)
        if not node.free(self.hold_class).at_least(need):
            return ()
        return slots_on(node, worker, self.open_bits)
