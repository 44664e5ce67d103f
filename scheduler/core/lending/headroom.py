"""Headroom: unused fixed-block area that is never lent, so that the next notebook starts at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.hold_back import HoldBack, HoldBackReason
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.model.demand import SMALLEST_BLOCK
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import HoldClass, NodeId, PoolName
from gpucommons.scheduler.core.quota.layout import Region, areas_of, region_of


class _Headroom:
    """Headroom of a pool; only nodes that have changed are looked at again.

    It is asked for before each reclaim: looking at all blocks each time would cost the square of them.
    """

    __slots__ = ("_blocks", "_free", "_held_back", "_nodes", "_pool", "_read")

    def __init__(self, cycle: CycleState, pool: Pool) -> None:
        self._pool = pool
        self._nodes = {node.node.node_id: node for node in cycle.capacity.usable(pool.name)}
        self._blocks: dict[NodeId, list[Region]] = {}
        for block in cycle.blocks:
            if block.pool == pool.name and block.node_id in self._nodes:
                self._blocks.setdefault(block.node_id, []).append(region_of(block))
        self._free = {node_id: self._look_at(node_id) for node_id in self._blocks}
        self._held_back = tuple(self._choose())
        self._read = cycle.capacity.changes

    def held_back(self, capacity: Capacity) -> Sequence[HoldBack]:
        """What is held back as of now."""
        changed = False
        for node_id in self._blocks.keys() & set(capacity.touched_since(self._read)):
            found = self._look_at(node_id)
            changed |= found != self._free[node_id]
            self._free[node_id] = found
        self._read = capacity.changes
        if changed:
            self._held_back = tuple(self._choose())
        return self._held_back

    def _look_at(self, node_id: NodeId) -> list[Region]:
        """Unused aligned parts of the blocks of a node."""
        node = self._nodes[node_id]
        return [part for region in self._blocks[node_id] for part in _free_parts(node, region)]

    def _choose(self) -> Iterator[HoldBack]:
        """As much as the pool asks for, of the largest parts."""
        left = self._pool.headroom_milli_gpu
        parts = sorted(
            chain.from_iterable(self._free.values()),
            key=lambda one: (-one.milli_gpu, one.node_id, one.device_ids, one.offset),
        )
        while left > 0 and parts:
            part = parts.pop(0)
            node = self._nodes[part.node_id]
            if part.milli_gpu > left and part.milli_gpu > SMALLEST_BLOCK:
                parts[:0] = list(areas_of(node, part, part.milli_gpu // 2))
                continue
            yield HoldBack(
                reason=HoldBackReason.HEADROOM,
                node_id=part.node_id,
                bits=tuple((device_id, part.mask) for device_id in part.device_ids),
                load=node.share(part.milli_gpu),
                held_for=HoldClass.FIXED,
            )
            left -= part.milli_gpu


def _free_parts(node: NodeCapacity, region: Region) -> Iterator[Region]:
    taken = [node.devices[d].held | node.devices[d].promised for d in region.device_ids]
    if not any(bits & region.mask for bits in taken):
        yield region
    elif region.milli_gpu > SMALLEST_BLOCK:
        for half in areas_of(node, region, region.milli_gpu // 2):
            yield from _free_parts(node, half)


#: It looks again at nodes that have changed.
_HEADROOM: Entry[PoolName, _Headroom] = Entry("headroom", Fact.REFRESHED, Fact.BLOCKS)


def hold_backs(cycle: CycleState, pool: Pool) -> Sequence[HoldBack]:
    """Unused block area that borrowers may not have."""
    if not pool.headroom_milli_gpu:
        return ()
    known = cycle.memo.remember(_HEADROOM, pool.name, lambda: _Headroom(cycle, pool))
    return known.held_back(cycle.capacity)
