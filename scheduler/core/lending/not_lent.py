"""What is not lent so far while limits are worked out one after the other, and what that leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.capacity.hold_back import HoldBack
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.model.holds import mask_of
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.types import HoldClass, NodeId, WorkerPlacement


class NotLent:
    """Parts of devices that the limits looked at so far keep from borrowers."""

    def __init__(self, nodes: Mapping[NodeId, NodeCapacity]) -> None:
        """Nothing is kept from borrowers yet."""
        self._nodes = nodes
        self._bits: dict[tuple[NodeId, DeviceId], int] = {}

    def with_these(self, found: Sequence[HoldBack]) -> Sequence[HoldBack]:
        """Count these as well; they are returned as they came."""
        for one in found:
            for device_id, bits in one.bits:
                where = (one.node_id, device_id)
                self._bits[where] = self._bits.get(where, 0) | bits
        return found

    def has_some_of(self, node: NodeCapacity, device_id: DeviceId) -> bool:
        """A part of the device is not lent."""
        return (node.node.node_id, device_id) in self._bits

    def lendable_bits(self, one: WorkerPlacement) -> tuple[tuple[DeviceId, int], ...] | None:
        """What borrowers could have of a place; None where it is not there."""
        node = self._nodes.get(one.node_id)
        if node is None or node.node.state is not NodeState.READY:
            return None
        if not node.devices.keys() >= set(one.device_ids):
            return None
        mask = mask_of(one)
        lendable = (
            mask
            & ~node.devices[device_id].blocked(HoldClass.FIXED)
            & ~self._bits.get((one.node_id, device_id), 0)
            for device_id in one.device_ids
        )
        return tuple((i, bits) for i, bits in zip(one.device_ids, lendable, strict=True) if bits)
