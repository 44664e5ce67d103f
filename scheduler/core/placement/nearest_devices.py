"""Workers of a gang that share a node take GPUs that belong together, the gang as a whole.

One after the other they would each take what is best for one: two workers would part two pairs and
have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.capacity.device_distances import Distances, differ, nearest
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.capacity.placement_slots import PlacementSlot
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.types import HoldClass

Placed = list[tuple[Worker, PlacementSlot]]


def nearest_together(placed: Placed, hold_class: HoldClass) -> Placed:
    """The same workers on the same nodes; those with whole GPUs on devices that are nearest together.

    The capacity is as it was before they were placed. Nobody gets another kind of GPU, and no more of
    fixed blocks: who has two kinds keeps what it has.
    """
    found = list(placed)
    alike = sorted(
        (one for one in range(len(placed)) if _has_choice(*placed[one])),
        key=lambda one: _where(placed[one][1]),
    )
    for _, group in groupby(alike, key=lambda one: _where(placed[one][1])):
        members = sorted(group, key=lambda one: (-placed[one][0].whole_gpus, one))
        if len(members) > 1:
            _place_again(found, members, hold_class)
    return found


def _has_choice(worker: Worker, slot: PlacementSlot) -> bool:
    return worker.whole_gpus > 0 and differ(slot.node.distances) and len(_kinds(slot)) == 1


def _where(slot: PlacementSlot) -> tuple[str, tuple[str, ...]]:
    return slot.node.node.node_id, _kinds(slot)


def _kinds(slot: PlacementSlot) -> tuple[str, ...]:
    return tuple(sorted({slot.node.devices[one].device.kind for one in slot.device_ids}))


def _place_again(found: Placed, members: Sequence[int], hold_class: HoldClass) -> None:
    slot = found[members[0]][1]
    node, distances, kinds = slot.node, slot.node.distances, _kinds(slot)
    if distances is None:
        return
    others = {
        device_id
        for i, (_, one) in enumerate(found)
        if i not in members and one.node is node
        for device_id in one.device_ids
    }
    free = {
        device.position: device_id
        for device_id, device in node.devices.items()
        if device_id not in others
        and device.device.kind in kinds
        and not device.blocked(hold_class)
    }
    left = _of_all(node, distances, free, sum(found[one][0].whole_gpus for one in members))
    for one in members:
        worker, before = found[one]
        mine = nearest(distances, left, worker.whole_gpus, {})
        found[one] = (worker, before._replace(device_ids=tuple(free[at] for at in mine)))
        left -= set(mine)


def _of_all(
    node: NodeCapacity, distances: Distances, free: dict[int, DeviceId], count: int
) -> set[int]:
    blocks = {at: node.devices[device_id].blocks.bit_count() for at, device_id in free.items()}
    return set(nearest(distances, free, count, blocks))
