"""Places on one node: which devices, which bits of them, and how well they suit.

Shares are packed, and those of block sizes begin aligned; whole GPUs go where the smallest free
group of neighbours still suits them, so that pairs and fours stay together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.capacity.device_distances import (
    Nearness,
    differ,
    nearest,
    nearness,
    parted,
)
from gpucommons.scheduler.core.capacity.node_capacity import DeviceCapacity, NodeCapacity
from gpucommons.scheduler.core.model.demand import Worker, is_block_size
from gpucommons.scheduler.core.model.holds import FULL, Load, span
from gpucommons.scheduler.core.model.types import HoldClass, WorkerPlacement

#: Typical work, in milli-GPU per worker: what free GPUs should stay good for.
TYPICAL = (250, 500, 1000, 2000, 4000, 8000)


#: How far devices are from each other, and which pairs of neighbours they part: less is better.
Looseness = tuple[Nearness, tuple[int, ...]]
_OF_SHARES: Looseness = (Nearness(0, 0), ())


class PlacementSlot(NamedTuple):
    """A place for one worker on one node."""

    node: NodeCapacity
    device_ids: tuple[DeviceId, ...]
    offset: int
    milli_gpu: int


def starts(free: int, milli_gpu: int) -> int:
    """Bits at which a share of this size may begin; block sizes begin aligned."""
    found, covered = free, 1
    while covered < milli_gpu:
        step = min(covered, milli_gpu - covered)
        found &= found >> step
        covered += step
    if is_block_size(milli_gpu):
        found &= _ALIGNED[milli_gpu]
    return found


_ALIGNED = {
    size: sum(1 << offset for offset in range(0, WHOLE_MILLI_GPU, size))
    for size in (125, 250, 500, 1000)
}


def lowest(bits: int) -> int:
    """Position of the lowest set bit."""
    return (bits & -bits).bit_length() - 1


def fragmentation(free_milli: Sequence[int]) -> int:
    """How much of a node's free GPU typical work could not use, summed over typical work."""
    idle = sum(free_milli)
    lost = 0
    for size in TYPICAL:
        least = min(size, WHOLE_MILLI_GPU)
        usable = [free for free in free_milli if free >= least]
        if len(usable) * WHOLE_MILLI_GPU < size:
            lost += idle
        else:
            lost += idle - sum(usable)
    return lost


def _slots(
    node: NodeCapacity, worker: Worker, hold_class: HoldClass
) -> Iterator[tuple[int, PlacementSlot]]:
    """Places on a node with a cost: how much of it lies in blocks, then how loosely it fits."""
    if worker.milli_gpu == 0:
        yield 0, PlacementSlot(node, (), 0, 0)
    elif worker.whole_gpus:
        yield from _whole_slots(node, worker, hold_class)
    else:
        yield from _share_slots(node, worker, hold_class)


def suits(device: DeviceCapacity, worker: Worker) -> bool:
    """It is of a kind that the worker accepts."""
    return worker.gpu_kind is None or worker.gpu_kind == device.device.kind


def _share_slots(
    node: NodeCapacity, worker: Worker, hold_class: HoldClass
) -> Iterator[tuple[int, PlacementSlot]]:
    best: tuple[int, int, PlacementSlot] | None = None
    for device_id, device in node.devices.items():
        if not suits(device, worker):
            continue
        free = FULL & ~device.blocked(hold_class)
        if free.bit_count() < worker.milli_gpu:
            continue
        anywhere = starts(free, worker.milli_gpu)
        if not anywhere:
            continue
        outside = starts(free & ~device.blocks, worker.milli_gpu)
        offset = lowest(outside or anywhere)
        rank = (0 if outside else 1, free.bit_count())
        if best is None or rank < best[:2]:
            best = (*rank, PlacementSlot(node, (device_id,), offset, worker.milli_gpu))
    if best is not None:
        yield best[0], best[2]


def _whole_slots(
    node: NodeCapacity, worker: Worker, hold_class: HoldClass
) -> Iterator[tuple[int, PlacementSlot]]:
    free = {
        device.position: device_id
        for device_id, device in node.devices.items()
        if not device.blocked(hold_class) and suits(device, worker)
    }
    if len(free) < worker.whole_gpus:
        return
    ids = tuple(free[position] for position in tightest(node, free, worker.whole_gpus))
    in_blocks = sum(node.devices[device_id].blocks.bit_count() for device_id in ids)
    yield in_blocks, PlacementSlot(node, ids, 0, WHOLE_MILLI_GPU)


def tightest(node: NodeCapacity, free: Collection[int], count: int) -> tuple[int, ...]:
    """Choose devices: outside blocks first, then those that are nearest by their links.

    Where links are not known, or are all alike: aligned neighbours, in the smallest free group.
    """
    there = ((device.position, device) for device in node.devices.values())
    blocks = {position: device.blocks.bit_count() for position, device in there if position in free}
    if node.distances is not None and differ(node.distances):
        return nearest(node.distances, free, count, blocks)
    return _tightest(frozenset(free), count, tuple(sorted(blocks.items())))


@lru_cache(maxsize=1 << 14)
def _tightest(
    free: frozenset[int], count: int, in_blocks: tuple[tuple[int, int], ...]
) -> tuple[int, ...]:
    blocks = dict(in_blocks)
    windows = [
        tuple(range(start, start + count))
        for start in range(0, max(free) + 1, count)
        if free.issuperset(range(start, start + count))
    ]
    scattered = tuple(
        sorted(
            sorted(
                free, key=lambda position: (blocks[position], group_of(free, position), position)
            )[:count]
        )
    )
    return min(
        [*windows, scattered],
        key=lambda window: (
            sum(blocks[position] for position in window),
            window == scattered and scattered not in windows,
            group_of(free, window[0]),
            window,
        ),
    )


def slots_on(
    node: NodeCapacity, worker: Worker, open_bits: Callable[[DeviceCapacity], int]
) -> Iterator[PlacementSlot]:
    """Places on a node that differ in what they leave: on a share's devices, and of GPU kinds."""
    if worker.milli_gpu == 0:
        yield PlacementSlot(node, (), 0, 0)
        return
    devices = [d for d in node.devices.values() if suits(d, worker)]
    if not worker.whole_gpus:
        seen: set[tuple[str, int]] = set()
        for device in devices:
            free = open_bits(device)
            begin = starts(free, worker.milli_gpu)
            if begin and (device.device.kind, free) not in seen:
                seen.add((device.device.kind, free))
                yield PlacementSlot(
                    node, (device.device.device_id,), lowest(begin), worker.milli_gpu
                )
        return
    kinds = sorted({device.device.kind for device in devices})
    for kind in (*kinds, None) if len(kinds) > 1 else (None,):
        free_here = {
            d.position: d.device.device_id
            for d in devices
            if kind in {None, d.device.kind} and open_bits(d) == FULL
        }
        if len(free_here) >= worker.whole_gpus:
            chosen = tightest(node, free_here, worker.whole_gpus)
            yield PlacementSlot(node, tuple(free_here[p] for p in chosen), 0, WHOLE_MILLI_GPU)


def group_of(free: frozenset[int], position: int) -> int:
    """Size of the largest aligned, wholly free group of devices around a position."""
    size = 1
    while True:
        start = position // (2 * size) * (2 * size)
        if not free.issuperset(range(start, start + 2 * size)):
            return size
        size *= 2


def _free_milli(node: NodeCapacity, hold_class: HoldClass) -> list[int]:
    return [WHOLE_MILLI_GPU - d.blocked(hold_class).bit_count() for d in node.devices.values()]


def _growth(slot: PlacementSlot, hold_class: HoldClass) -> int:
    free = _free_milli(slot.node, hold_class)
    before = fragmentation(free)
    taken = set(slot.device_ids)
    after = [
        left - slot.milli_gpu if device_id in taken else left
        for device_id, left in zip(slot.node.devices, free, strict=True)
    ]
    return fragmentation(after) - before


def best_slot(
    nodes: Sequence[NodeCapacity], worker: Worker, hold_class: HoldClass
) -> PlacementSlot | None:
    """Return the best place for one worker on a few nodes, or None.

    Outside fixed blocks first, then where free GPUs stay most useful to work of the usual sizes.
    """
    need = Load(worker.cpu_milli, worker.memory_mib)
    best: tuple[tuple[int, int, int, bool, Looseness], PlacementSlot] | None = None
    for node in nodes:
        if not node.free(hold_class).at_least(need):
            continue
        for in_blocks, slot in _slots(node, worker, hold_class):
            if worker.milli_gpu:
                rank = (
                    in_blocks,
                    _growth(slot, hold_class),
                    sum(_free_milli(node, hold_class)),
                    node.node.slow is not None,
                    looseness(slot, hold_class),
                )
            else:
                # Work without a GPU keeps away from GPU nodes, then packs.
                rank = (len(node.devices), 0, node.free(hold_class).cpu_milli, False, _OF_SHARES)
            if best is None or rank < best[0]:
                best = (rank, slot)
    return None if best is None else best[1]


def looseness(slot: PlacementSlot, hold_class: HoldClass) -> Looseness:
    """How loosely its whole devices belong together."""
    node = slot.node
    if slot.milli_gpu != WHOLE_MILLI_GPU:
        return _OF_SHARES
    positions = [node.devices[one].position for one in slot.device_ids]
    free = [one.position for one in node.devices.values() if not one.blocked(hold_class)]
    return nearness(node.distances, positions), parted(node.distances, positions, free)


def capacity(node: NodeCapacity, worker: Worker) -> int:
    """How many workers like this one an empty node takes."""
    limits = [node.node.cpu_milli // max(1, worker.cpu_milli)]
    limits.append(node.node.memory_mib // max(1, worker.memory_mib))
    suiting = sum(suits(device, worker) for device in node.devices.values())
    if worker.whole_gpus:
        limits.append(suiting // worker.whole_gpus)
    elif worker.milli_gpu:
        limits.append(suiting * (WHOLE_MILLI_GPU // worker.milli_gpu))
    return min(limits)


def placed(worker: Worker, slot: PlacementSlot) -> WorkerPlacement:
    """Return the worker at its place."""
    return WorkerPlacement(
        role=worker.role,
        index=worker.index,
        node_id=slot.node.node.node_id,
        device_ids=slot.device_ids,
        milli_gpu=slot.milli_gpu,
        offset=slot.offset,
        cpu_milli=worker.cpu_milli,
        memory_mib=worker.memory_mib,
    )


def take(slot: PlacementSlot, worker: Worker) -> None:
    """Take a place from the node it lies on."""
    load = Load(worker.cpu_milli, worker.memory_mib)
    slot.node.promised = slot.node.promised.plus(load)
    for device_id in slot.device_ids:
        slot.node.devices[device_id].promised |= span(slot.offset, slot.milli_gpu)
    slot.node.touch()


def give_back(slot: PlacementSlot, worker: Worker) -> None:
    """Undo :func:`take`."""
    load = Load(worker.cpu_milli, worker.memory_mib)
    slot.node.promised = slot.node.promised.minus(load)
    for device_id in slot.device_ids:
        slot.node.devices[device_id].promised &= ~span(slot.offset, slot.milli_gpu)
    slot.node.touch()


def bits_of(mask: int) -> Iterator[int]:
    """Positions of the set bits."""
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit


def shares_in(free: int, milli_gpu: int) -> int:
    """How many shares of one size fit into the free bits of a device."""
    count, anywhere = 0, starts(free, milli_gpu)
    if is_block_size(milli_gpu):
        return anywhere.bit_count()
    while anywhere:
        count += 1
        free &= ~((1 << (lowest(anywhere) + milli_gpu)) - 1)
        anywhere = starts(free, milli_gpu)
    return count
