"""The best place for one worker in a pool, found on arrays and checked on bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.capacity.affinity import NONE, Affinity, in_order
from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.capacity_arrays import View, asked, views_of, whole_free
from gpucommons.scheduler.core.capacity.device_distances import nearness, parted
from gpucommons.scheduler.core.capacity.node_capacity import DeviceCapacity, NodeCapacity
from gpucommons.scheduler.core.capacity.placement_slots import (
    Looseness,
    PlacementSlot,
    best_slot,
    lowest,
    starts,
    tightest,
)
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.types import HoldClass, PoolName
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.learning import NEUTRAL
from gpucommons.scheduler.core.packing.rows import Ints
from gpucommons.scheduler.core.packing.score_board import Board

#: So many equally good rows are compared by how near their GPUs are to each other.
EQUALS = 32


def find(
    capacity: Capacity,
    pool: PoolName,
    worker: Worker,
    hold_class: HoldClass,
    affinity: Affinity = NONE,
) -> PlacementSlot | None:
    """Return the best place for one worker, or None.

    A capacity that follows no pool's demand is a trial of a few nodes: those are looked at one by one.
    """
    if capacity.known is None:
        return best_on(capacity.usable(pool), worker, hold_class, affinity)
    for view in views_of(capacity, pool, hold_class):
        board = view.board(capacity, capacity.known.get(pool, NEUTRAL))
        slot = (
            find_wished(view, board, worker, affinity) if affinity else find_in(view, board, worker)
        )
        if slot is not None:
            return slot
    return None


def best_on(
    nodes: Sequence[NodeCapacity], worker: Worker, hold_class: HoldClass, affinity: Affinity
) -> PlacementSlot | None:
    """The best place on a few nodes, the most wished for first."""
    if not affinity:
        return best_slot(nodes, worker, hold_class)
    for amount in in_order((node.node.node_id for node in nodes), affinity):
        there = [node for node in nodes if affinity.get(node.node.node_id, 0) == amount]
        slot = best_slot(there, worker, hold_class)
        if slot is not None:
            return slot
    return None


def find_wished(
    view: View, board: Board, worker: Worker, affinity: Affinity, only: Ints | None = None
) -> PlacementSlot | None:
    """Return the best place among the rows that are most wished for and have one."""
    wished = view.wished(affinity)
    rows = np.arange(len(wished)) if only is None else only
    for amount in sorted(set(wished[rows].tolist()), reverse=True):
        slot = find_in(view, board, worker, rows[wished[rows] == amount])
        if slot is not None:
            return slot
    return None


def find_in(
    view: View, board: Board, worker: Worker, only: Ints | None = None
) -> PlacementSlot | None:
    """Return the best place among all rows of a view, or only some."""
    ask = asked(worker)
    while True:
        found = board.place(ask) if only is None else _best_of(board, ask, only)
        if found is None:
            return None
        row, device = found
        if view.has_preferences and worker.milli_gpu:
            row = _preferred(view, board, worker, only)
            device = board.device(ask, row)
        slot = _on(view, row, worker, device)
        if slot is not None:
            return slot
        board.refuse(ask, row)


def _preferred(view: View, board: Board, worker: Worker, only: Ints | None) -> int:
    """Of rows that are equally good: not on a slow node, then where GPUs belong together most."""
    scores = board.scores(asked(worker))
    rows = np.arange(len(scores)) if only is None else only
    equals: list[int] = rows[scores[rows] == scores[rows].max()][:EQUALS].tolist()

    def rank(row: int) -> tuple[bool, Looseness | None]:
        node, _ = view.places[row]
        slow = node.node.slow is not None
        if not worker.whole_gpus:
            return slow, None
        free = whole_free(view, row)
        chosen = _whole(view, row, worker)
        positions = [node.devices[one].position for one in chosen]
        return slow, (nearness(node.distances, positions), parted(node.distances, positions, free))

    return min(equals, key=rank)


def _best_of(board: Board, ask: Ask, only: Ints) -> tuple[int, int] | None:
    if not len(only):
        return None
    scores = board.scores(ask)[only]
    best = int(scores.argmax())
    row = int(only[best])
    return (row, board.device(ask, row)) if scores[best] >= 0 else None


def _on(view: View, row: int, worker: Worker, preferred: int) -> PlacementSlot | None:
    """The exact place in a row, if the bits there line up."""
    node, _ = view.places[row]
    if worker.milli_gpu == 0:
        return PlacementSlot(node, (), 0, 0)
    if not worker.whole_gpus:
        return _share(view, row, worker, preferred)
    ids = _whole(view, row, worker)
    return PlacementSlot(node, ids, 0, WHOLE_MILLI_GPU) if ids else None


def _whole(view: View, row: int, worker: Worker) -> tuple[DeviceId, ...]:
    """The whole GPUs that a worker should take in a row; () where there are too few."""
    node, _ = view.places[row]
    free = whole_free(view, row)
    if len(free) < worker.whole_gpus:
        return ()
    chosen = tightest(node, free, worker.whole_gpus)
    return tuple([free[position].device.device_id for position in chosen])


def _share(view: View, row: int, worker: Worker, preferred: int) -> PlacementSlot | None:
    node, devices = view.places[row]
    device = devices[preferred]
    begin = starts(view.open_bits(device), worker.milli_gpu)
    if begin:
        return PlacementSlot(node, (device.device.device_id,), lowest(begin), worker.milli_gpu)
    best: tuple[int, DeviceCapacity, int] | None = None
    for device in devices:
        free = view.open_bits(device)
        begin = starts(free, worker.milli_gpu) if free else 0
        if begin and (best is None or free.bit_count() < best[0]):
            best = (free.bit_count(), device, begin)
    if best is None:
        return None
    return PlacementSlot(node, (best[1].device.device_id,), lowest(best[2]), worker.milli_gpu)
