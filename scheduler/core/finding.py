"""The best place for one worker in a pool, found on arrays and checked on bits."""

from __future__ import annotations

from gpucommons.gpu.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.demand import Worker
from gpucommons.scheduler.core.node_room import DeviceRoom
from gpucommons.scheduler.core.packing.board import Board
from gpucommons.scheduler.core.packing.learning import NEUTRAL
from gpucommons.scheduler.core.packing.rows import Ints
from gpucommons.scheduler.core.room import Room
from gpucommons.scheduler.core.spots import Spot, best_spot, lowest, starts, tightest
from gpucommons.scheduler.core.types import HoldClass, PoolName
from gpucommons.scheduler.core.views import View, asked, views_of, whole_free


def find(room: Room, pool: PoolName, worker: Worker, hold_class: HoldClass) -> Spot | None:
    """Return the best place for one worker, or None.

    A room that follows no pool's demand is a trial of a few nodes: those are looked at one by one.
    """
    if room.known is None:
        return best_spot(room.usable(pool), worker, hold_class)
    for view in views_of(room, pool, hold_class):
        spot = find_in(view, view.board(room, room.known.get(pool, NEUTRAL)), worker)
        if spot is not None:
            return spot
    return None


def find_in(view: View, board: Board, worker: Worker, only: Ints | None = None) -> Spot | None:
    """Return the best place among all rows of a view, or only some."""
    ask = asked(worker)
    while True:
        row = board.best(ask) if only is None else _best_of(board.scores(ask)[only], only)
        if row is None:
            return None
        spot = _on(view, row, worker, board.device(ask, row))
        if spot is not None:
            return spot
        board.refuse(ask, row)


def _best_of(scores: Ints, only: Ints) -> int | None:
    if not len(only):
        return None
    best = int(scores.argmax())
    return int(only[best]) if scores[best] >= 0 else None


def _on(view: View, row: int, worker: Worker, preferred: int) -> Spot | None:
    """The exact place in a row, if the bits there line up."""
    node, devices = view.places[row]
    if worker.milli_gpu == 0:
        return Spot(node, (), 0, 0)
    if not worker.whole_gpus:
        return _share(view, row, worker, preferred)
    free = whole_free(view, devices)
    if len(free) < worker.whole_gpus:
        return None
    blocks = {device.position: device.blocks.bit_count() for device in node.devices.values()}
    chosen = tightest(frozenset(free), worker.whole_gpus, blocks)
    ids = tuple(free[position].device.device_id for position in chosen)
    return Spot(node, ids, 0, WHOLE_MILLI_GPU)


def _share(view: View, row: int, worker: Worker, preferred: int) -> Spot | None:
    node, devices = view.places[row]
    best: tuple[int, DeviceRoom, int] | None = None
    for position, device in enumerate(devices):
        free = view.open_bits(device)
        begin = starts(free, worker.milli_gpu) if free else 0
        if not begin:
            continue
        if position == preferred:
            return Spot(node, (device.device.device_id,), lowest(begin), worker.milli_gpu)
        if best is None or free.bit_count() < best[0]:
            best = (free.bit_count(), device, begin)
    if best is None:
        return None
    return Spot(node, (best[1].device.device_id,), lowest(best[2]), worker.milli_gpu)
