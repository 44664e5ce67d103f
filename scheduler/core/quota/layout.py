"""Fixed quota on real devices: which part of which GPU is kept for which team's notebooks.

A quota is cut into its binary expansion (… 2, 1, ½, ¼, ⅛ GPU), each block aligned and on one
node, so notebooks of block sizes always pack. Blocks stay where they are when they can; notebooks
and in-guarantee jobs that run now are obstacles, borrowers are not (they can be won back).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.model.demand import SMALLEST_BLOCK
from gpucommons.scheduler.core.model.holds import block_mask, mask_of
from gpucommons.scheduler.core.model.resources import Block, Quota
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    NodeId,
    PoolName,
    TeamName,
    WorkerPlacement,
)
from gpucommons.scheduler.errors import CannotLayOut

#: In a sentence about a pool that has more quota than devices.
_TEAMS_NAMED = 6


@dataclass(frozen=True, slots=True)
class Region:
    """An aligned part of one node: where a block may lie."""

    node_id: NodeId
    device_ids: tuple[DeviceId, ...]
    offset: int
    milli_gpu: int

    @property
    def mask(self) -> int:
        """Its bits on each of its devices."""
        return block_mask(self.offset, self.milli_gpu)

    def has_some_of(self, node_id: NodeId, device_ids: Iterable[DeviceId], mask: int) -> bool:
        """Some of these bits of a node's devices are in it."""
        return (
            node_id == self.node_id
            and bool(mask & self.mask)
            and not set(device_ids).isdisjoint(self.device_ids)
        )

    def overlaps(self, other: Region) -> bool:
        """Both have some of the same bits."""
        return self.has_some_of(other.node_id, other.device_ids, other.mask)

    def covers(self, placement: WorkerPlacement) -> bool:
        """A placed worker lies in it, or in a part of it."""
        return self.has_some_of(placement.node_id, placement.device_ids, mask_of(placement))


def region_of(block: Block) -> Region:
    """Where a block lies."""
    return Region(block.node_id, block.device_ids, block.offset, block.milli_gpu)


def moved(block: Block, to: Region) -> Block:
    """Return the block at another place of its size."""
    return replace(block, node_id=to.node_id, device_ids=to.device_ids, offset=to.offset)


def largest_block(device_counts: Iterable[int]) -> int:
    """The largest block that any of these nodes can take."""
    most = max(device_counts, default=0)
    return 0 if most == 0 else WHOLE_MILLI_GPU << (most.bit_length() - 1)


def expansion(milli_gpu: int, largest: int) -> tuple[int, ...]:
    """Sizes of a quota's blocks, largest first."""
    sizes: list[int] = []
    left, size = milli_gpu, largest
    while left >= SMALLEST_BLOCK and size >= SMALLEST_BLOCK:
        sizes.extend([size] * (left // size))
        left %= size
        size //= 2
    return tuple(sizes)


def regions(node: NodeCapacity, milli_gpu: int) -> Iterator[Region]:
    """All aligned places for a block of this size on one node, in order."""
    ids = tuple(node.devices)
    if milli_gpu < WHOLE_MILLI_GPU:
        for device_id in ids:
            for offset in range(0, WHOLE_MILLI_GPU, milli_gpu):
                yield Region(node.node.node_id, (device_id,), offset, milli_gpu)
        return
    width = milli_gpu // WHOLE_MILLI_GPU
    for start in range(0, len(ids) - width + 1, width):
        yield Region(node.node.node_id, ids[start : start + width], 0, milli_gpu)


def areas_of(node: NodeCapacity, home: Region, size: int) -> Iterator[Region]:
    """Aligned parts of a block."""
    for area in regions(node, size):
        inside = set(area.device_ids) <= set(home.device_ids)
        if inside and area.mask & ~home.mask == 0:
            yield area


def check_sum(
    pool: PoolName, capacity: Capacity, quotas: Mapping[TeamName, Quota], *, to_scale_up: int = 0
) -> None:
    """Refuse more quota than there are devices, and than scale-up may still bring (`to_scale_up`).

    Raises CannotLayOut with the numbers, by how much they are over, and whose could be lowered.
    """
    there = sum(len(node.devices) for node in capacity.usable(pool))
    total = (there + to_scale_up) * WHOLE_MILLI_GPU
    wanted = sum(_promised(one) for one in quotas.values())
    over = wanted - total
    if over > 0:
        message = (
            f"{pool}: fixed+guarantee {format_milli_gpu(wanted)} of"
            f" {format_milli_gpu(total)}: over by {format_milli_gpu(over)}, not saved."
            f" Lower these by {format_milli_gpu(over)} in all: {_to_lower(quotas)}."
        )
        raise CannotLayOut(message)


def _promised(quota: Quota) -> int:
    return quota.fixed_milli_gpu + quota.guaranteed_milli_gpu


def _to_lower(quotas: Mapping[TeamName, Quota]) -> str:
    """``vision (fixed 3, guaranteed ½), nlp (fixed 1)``: the largest first."""
    having = sorted(
        ((team, one) for team, one in quotas.items() if _promised(one)),
        key=lambda item: (-_promised(item[1]), item[0]),
    )
    said = []
    for team, one in having[:_TEAMS_NAMED]:
        amounts = (("fixed", one.fixed_milli_gpu), ("guaranteed", one.guaranteed_milli_gpu))
        found = ", ".join(f"{name} {format_milli_gpu(milli)}" for name, milli in amounts if milli)
        said.append(f"{team} ({found})")
    more = len(having) - len(said)
    return ", ".join(said) + (f" and {more} more" if more else "")


def check_cut(quotas: Mapping[TeamName, int]) -> None:
    """Refuse a fixed quota of which a part would be in no block.

    Raises CannotLayOut with the amounts nearest to it.
    """
    for team, milli_gpu in sorted(quotas.items()):
        left = milli_gpu % SMALLEST_BLOCK
        if left:
            below, above = milli_gpu - left, milli_gpu - left + SMALLEST_BLOCK
            message = (
                f"{team}: a fixed quota of {format_milli_gpu(milli_gpu)} GPU cannot be cut into"
                f" blocks, whole ones or ½, ¼ and ⅛. Take {format_milli_gpu(below)} or"
                f" {format_milli_gpu(above)}."
            )
            raise CannotLayOut(message)


@dataclass(slots=True)
class _Sheet:
    """Blocks laid so far on the devices of one pool."""

    nodes: dict[NodeId, NodeCapacity]
    pool: PoolName
    laid: list[Block]

    def take(self, block: Block) -> None:
        self.laid.append(block)

    def blocked_by_blocks(self, region: Region) -> bool:
        return any(region.overlaps(region_of(block)) for block in self.laid)

    def obstructed(self, region: Region, team: TeamName) -> bool:
        """Another's notebook or an in-guarantee job, held now or promised, lies there."""
        node = self.nodes[region.node_id]
        if any(node.devices[d].promised & region.mask for d in region.device_ids):
            return True
        return any(
            hold.firm
            and not (hold.hold_class is HoldClass.FIXED and hold.team == team)
            and region.covers(hold.placement)
            for hold in node.holds.values()
        )

    def share_is_there(self, region: Region) -> bool:
        """Processor and memory of the block are not held by in-guarantee work."""
        node = self.nodes[region.node_id]
        mine = sum(b.milli_gpu for b in self.laid if b.node_id == region.node_id)
        share = node.share(mine + region.milli_gpu)
        return node.total.minus(node.firm.minus(node.fixed)).at_least(share)

    def own_inside(self, region: Region, team: TeamName) -> int:
        """Milli-GPU of the team's own notebooks inside a region."""
        return sum(
            (mask_of(hold.placement) & region.mask).bit_count()
            * len(set(hold.placement.device_ids) & set(region.device_ids))
            for hold in self.nodes[region.node_id].holds.values()
            if hold.hold_class is HoldClass.FIXED and hold.team == team
        )

    def in_use(self, region: Region) -> int:
        """Milli-GPU held inside a region by anybody."""
        devices = self.nodes[region.node_id].devices
        return sum((devices[d].held & region.mask).bit_count() for d in region.device_ids)

    def blocks_around(self, region: Region) -> int:
        """Milli-GPU of blocks on the same devices: full devices are filled up first."""
        return sum(
            min(block.milli_gpu, WHOLE_MILLI_GPU)
            for block in self.laid
            if not set(block.device_ids).isdisjoint(region.device_ids)
        )


def lay_out(
    pool: PoolName,
    quotas: Mapping[TeamName, int],
    capacity: Capacity,
    existing: Sequence[Block],
    *,
    strict: bool = True,
) -> tuple[Block, ...]:
    """Lay the fixed quotas of a pool's teams out in blocks.

    Blocks stay where they are if possible; if that leaves no place, unused ones move, then all.
    Not ``strict``: lays out what can be, for when nodes are lost.

    Raises CannotLayOut when strict and a block finds no place.
    """
    if strict:
        check_cut(quotas)
    mine = [block for block in existing if block.pool == pool]
    missing: list[tuple[int, TeamName]] = []
    best: tuple[Block, ...] = ()
    for kept in _what_may_stay(capacity, pool, mine):
        laid, missing_now = _lay(pool, quotas, capacity, kept)
        if not missing_now:
            return in_order(laid)
        if not best or sum(b.milli_gpu for b in laid) > sum(b.milli_gpu for b in best):
            best, missing = tuple(laid), missing_now
    if strict:
        size, team = missing[0]
        message = (
            f"{pool}: {team}'s block of {format_milli_gpu(size)} GPU finds no free aligned place,"
            " not saved. Lower the quota, or wait until notebooks and guaranteed jobs there end."
        )
        raise CannotLayOut(message)
    return in_order(best)


def in_order(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Blocks as they lie on nodes and devices."""
    return tuple(sorted(blocks, key=lambda b: (b.node_id, b.device_ids, b.offset)))


def _what_may_stay(
    capacity: Capacity, pool: PoolName, existing: Sequence[Block]
) -> Iterator[Sequence[Block]]:
    sheet = _Sheet({node.node.node_id: node for node in capacity.usable(pool)}, pool, [])
    # Aligned among the devices that there are: a lost one moves the places of those after it.
    standing = [
        block
        for block in existing
        if block.node_id in sheet.nodes
        and region_of(block) in regions(sheet.nodes[block.node_id], block.milli_gpu)
    ]
    yield standing
    yield [block for block in standing if sheet.own_inside(region_of(block), block.team)]
    yield []


def _lay(
    pool: PoolName, quotas: Mapping[TeamName, int], capacity: Capacity, kept: Sequence[Block]
) -> tuple[list[Block], list[tuple[int, TeamName]]]:
    nodes = {node.node.node_id: node for node in capacity.usable(pool)}
    sheet = _Sheet(nodes, pool, [])
    largest = largest_block(len(node.devices) for node in nodes.values())
    wanted: list[tuple[int, TeamName]] = []
    for team in sorted(quotas):
        sizes = list(expansion(quotas[team], largest))
        # Where a quota was lowered, the blocks that hold notebooks stay.
        for block in sorted(
            (b for b in kept if b.team == team),
            key=lambda b: -sheet.own_inside(region_of(b), team),
        ):
            if block.milli_gpu in sizes:
                sizes.remove(block.milli_gpu)
                sheet.take(block)
        wanted.extend((size, team) for size in sizes)
    if largest == 0:
        wanted = [(milli, team) for team, milli in sorted(quotas.items()) if milli]
    missing = []
    for size, team in sorted(wanted, key=lambda one: (-one[0], one[1])):
        found = _best_region(sheet, size, team)
        if found is None:
            missing.append((size, team))
        else:
            sheet.take(
                Block(
                    team=team,
                    pool=pool,
                    node_id=found.node_id,
                    device_ids=found.device_ids,
                    offset=found.offset,
                    milli_gpu=size,
                )
            )
    return sheet.laid, missing


def _best_region(sheet: _Sheet, size: int, team: TeamName) -> Region | None:
    options = [
        (
            # Over the team's own notebooks, else where nobody is, else beside other blocks.
            -sheet.own_inside(region, team),
            sheet.in_use(region),
            -sheet.blocks_around(region),
            order,
            region,
        )
        for order, region in enumerate(
            region for node in sheet.nodes.values() for region in regions(node, size)
        )
        if not sheet.blocked_by_blocks(region)
        and not sheet.obstructed(region, team)
        and sheet.share_is_there(region)
    ]
    return min(options, key=lambda option: option[:4])[4] if options else None
