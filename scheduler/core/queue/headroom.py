"""Headroom: unused fixed-block area that is never lent, so that the next notebook starts at once."""

from __future__ import annotations

from collections.abc import Iterator

from gpucommons.scheduler.core.capacity.hold_back import HoldBack, HoldBackReason
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.demand import SMALLEST_BLOCK
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import HoldClass, PoolName
from gpucommons.scheduler.core.quota.layout import Region, areas_of, region_of


def free_blocks(cycle: CycleState, pool: PoolName) -> Iterator[Region]:
    """Unused aligned parts of fixed blocks, the largest first: what headroom is made of."""
    usable = {node.node.node_id: node for node in cycle.capacity.usable(pool)}
    found: list[Region] = []
    for block in cycle.blocks:
        node = usable.get(block.node_id)
        if block.pool == pool and node is not None:
            found.extend(_free_parts(node, region_of(block)))
    yield from sorted(
        found, key=lambda one: (-one.milli_gpu, one.node_id, one.device_ids, one.offset)
    )


def _free_parts(node: NodeCapacity, region: Region) -> Iterator[Region]:
    taken = [node.devices[d].held | node.devices[d].promised for d in region.device_ids]
    if not any(bits & region.mask for bits in taken):
        yield region
    elif region.milli_gpu > SMALLEST_BLOCK:
        for half in areas_of(node, region, region.milli_gpu // 2):
            yield from _free_parts(node, half)


def held_back(cycle: CycleState, pool: Pool) -> Iterator[HoldBack]:
    """Unused block area that borrowers may not have."""
    left = pool.headroom_milli_gpu
    parts = list(free_blocks(cycle, pool.name)) if left else []
    while left > 0 and parts:
        part = parts.pop(0)
        node = cycle.capacity.nodes[part.node_id]
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
