"""Which GPUs of a node the workers of a gang have, once all have a place."""

from __future__ import annotations

from itertools import combinations

from builders import TRAIN, World, a_device, a_node, ids

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.gpu.devices.topology import DeviceLink, LinkKind
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.capacity.placement_slots import PlacementSlot
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.types import HoldClass
from gpucommons.scheduler.core.placement.nearest_devices import nearest_together

NEAR = ({"a0", "a1"}, {"b0", "b1"})


def a_node_of_two_kinds() -> NodeCapacity:
    """Each two of a kind are linked; between kinds it is far."""
    kinds = {"a0": "A100-40", "a1": "A100-40", "b0": "H100", "b1": "H100"}
    links = tuple(
        DeviceLink(
            first=DeviceId(one),
            second=DeviceId(other),
            kind=LinkKind.NVLINK if {one, other} in NEAR else LinkKind.NODE,
        )
        for one, other in combinations(kinds, 2)
    )
    devices = tuple(a_device(name, i, kind=kind) for i, (name, kind) in enumerate(kinds.items()))
    world = World(a_node("n1", devices=devices, links=links))
    cycle = CycleState.of(world.cluster.apart(), world.cluster.now_ms, ids("x"))
    cycle.refresh()
    (node,) = cycle.capacity.usable(TRAIN)
    return node


def taken(*gang: tuple[str, ...]) -> list[tuple[str, ...]]:
    node = a_node_of_two_kinds()
    placed = [
        (
            Worker("worker", i, 1000 * len(names), None, 100, 100),
            PlacementSlot(node, tuple(map(DeviceId, names)), 0, WHOLE_MILLI_GPU),
        )
        for i, names in enumerate(gang)
    ]
    return [slot.device_ids for _, slot in nearest_together(placed, HoldClass.GUARANTEED)]


def test_workers_with_two_kinds_of_gpus_keep_as_many_of_each() -> None:
    assert taken(("a0", "b1"), ("a1", "b0")) == [("a0", "b1"), ("a1", "b0")]


def test_workers_of_one_kind_stay_with_it() -> None:
    assert taken(("b1",), ("b0",), ("a1",)) == [("b0",), ("b1",), ("a1",)]
