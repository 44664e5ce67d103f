"""Where workers go: all of a gang in one pool, each worker on one node, or nothing.

One worker goes where the packing policy loses least (:mod:`.packing.foresight`), outside fixed
blocks first, and gets the GPUs there that are nearest to each other (`capacity.device_distances`). A
gang goes to the tightest part of a pool that takes all of it: a node, of several the one where its
GPUs are nearest, then a rack, then the pool. In each, the largest workers are placed first; where that
fails though the amounts suffice, the places are searched through: all of them on a cluster of up to
:data:`EXACT_NODES` nodes with up to :data:`.search.TRIES` tries, so that no feasible gang waits there. What a
job wishes for (`capacity.affinity`) breaks ties of the latter, and goes before packing. The same input always gives
the same place, and nothing is ever taken: a search gives back what it tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.capacity.affinity import NONE, Affinity, beside
from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.capacity_arrays import View, views_of, whole_free
from gpucommons.scheduler.core.capacity.device_distances import nearness
from gpucommons.scheduler.core.capacity.node_capacity import DeviceCapacity, NodeCapacity
from gpucommons.scheduler.core.capacity.placement_slots import (
    PlacementSlot,
    give_back,
    placed,
    take,
    tightest,
)
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.holds import FULL
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import HoldClass, NodeId, PoolName, WorkerPlacement
from gpucommons.scheduler.core.packing.learning import NEUTRAL
from gpucommons.scheduler.core.packing.rows import Ints
from gpucommons.scheduler.core.packing.score_board import Board
from gpucommons.scheduler.core.placement.nearest_devices import nearest_together
from gpucommons.scheduler.core.placement.one_worker import best_on, find, find_in, find_wished
from gpucommons.scheduler.core.placement.search import GangDemand, Search, Spots, largest_first
from gpucommons.scheduler.core.placement.slow_pairs import ways_around

#: Parts with more nodes than these are not searched through.
EXACT_NODES = 64
#: Parts of one size that are looked at closely; amounts alone rule most others out.
PARTS = 32


def place(  # noqa: PLR0913 - one question; most leave the last two out
    capacity: Capacity,
    workers: Sequence[Worker],
    hold_class: HoldClass,
    pool: PoolName,
    optional: Sequence[Worker] = (),
    *,
    affinity: Affinity = NONE,
    near: Iterable[NodeId] = (),
) -> tuple[WorkerPlacement, ...]:
    """Place all of ``workers`` and as many of ``optional`` as fit; () when not all fit.

    Optional ones go where the others are, or as near to them as they can, and to those that run on the
    nodes in ``near``. The capacity is as before when it returns.
    """
    if len(workers) == 1 and not optional:
        slot = find(capacity, pool, workers[0], hold_class, affinity)
        return () if slot is None else (placed(workers[0], slot),)
    found = together(capacity, pool, workers, hold_class, affinity) if workers else ()
    if found is None:
        return ()
    done = list(zip(workers, found, strict=True))
    try:
        for worker, slot in done:
            take(slot, worker)
        have, wished = {*near, *(slot.node.node.node_id for _, slot in done)}, affinity
        told = {node_id: node.node for node_id, node in capacity.nodes.items()} if optional else {}
        if have:
            wished = beside(affinity, have, told)
        for worker in optional:
            more = find(capacity, pool, worker, hold_class, wished)
            if more is None:
                break
            take(more, worker)
            done.append((worker, more))
            if more.node.node.node_id not in have:
                have.add(more.node.node.node_id)
                wished = beside(affinity, have, told)
    finally:
        for worker, slot in reversed(done):
            give_back(slot, worker)
    done = nearest_together(done, hold_class)
    return tuple(placed(worker, slot) for worker, slot in done)


def together(
    capacity: Capacity,
    pool: PoolName,
    workers: Sequence[Worker],
    hold_class: HoldClass,
    affinity: Affinity = NONE,
) -> Spots | None:
    """Return a slot for each worker in the tightest part that takes them all, or None.

    Of parts that are equally tight, the one that is most wished for takes them.
    """
    if capacity.known is None:
        return _on_nodes(capacity.usable(pool), workers, hold_class, affinity)
    for view in views_of(capacity, pool, hold_class):
        board = view.board(capacity, capacity.known.get(pool, NEUTRAL))
        found = _Ladder(capacity, pool, view, workers, hold_class, affinity).climb(board)
        if found is not None:
            return found
    return None


@dataclass(slots=True)
class _Ladder:
    """The parts of a pool, tightest first, as one view sees them."""

    capacity: Capacity
    pool: PoolName
    view: View
    workers: Sequence[Worker]
    hold_class: HoldClass
    affinity: Affinity
    need: GangDemand = field(init=False)

    def __post_init__(self) -> None:
        self.need = GangDemand.of(self.workers)

    def climb(self, board: Board) -> Spots | None:
        """The first part that takes the gang; of equally tight ones the most wished for.

        A part in which it would lie on a slow pair comes after all others of its size.
        """
        for parts in self._levels():
            with_pairs: list[Ints] = []
            found = self._best(self._apart(rows, board, with_pairs) for rows in parts)
            if found is None:
                found = self._best(self._in(rows, board) for rows in with_pairs)
            if found is not None:
                return found
        return None

    def _best(self, found: Iterator[Spots | None]) -> Spots | None:
        there = (one for one in found if one is not None)
        return max(there, key=self._worth, default=None) if self.affinity else next(there, None)

    def _worth(self, slots: Spots) -> int:
        return sum(self.affinity.get(slot.node.node.node_id, 0) for slot in slots)

    def _levels(self) -> Iterator[Iterable[Ints]]:
        """Rows of every part in which the amounts suffice: the nodes, the racks, the pool."""
        rows = self.view.rows
        figures = np.stack(
            (
                rows.free.sum(axis=1),
                (rows.free == WHOLE_MILLI_GPU).sum(axis=1),
                # A node with two kinds has two rows, and its processor but once.
                rows.cpu_milli * self.view.first_rows,
                rows.memory_mib * self.view.first_rows,
            )
        )
        nodes = self._enough(figures, self.view.node_of_row)
        yield self._preferred_first(nodes) if self.view.has_preferences else nodes
        racks = self.view.rack_of_row
        if racks.max(initial=-1) >= 0:
            yield self._enough(figures, racks)
        if len(rows) and self._suffices(figures.sum(axis=1)):
            yield (np.arange(len(rows)),)

    def _preferred_first(self, nodes: Iterable[Ints]) -> list[Ints]:
        """Linked GPUs are a tighter part than a node: where enough are go first; slow nodes last."""

        def rank(rows: Ints) -> tuple[bool, int]:
            node, _ = self.view.places[int(rows[0])]
            slow = node.node.slow is not None
            free = {at for row in rows.tolist() for at in whole_free(self.view, row)}
            if not 0 < self.need.whole_gpus <= len(free):
                return slow, 0
            chosen = tightest(node, free, self.need.whole_gpus)
            return slow, nearness(node.distances, chosen).farthest

        return sorted(nodes, key=rank)

    def _suffices(self, figures: Ints) -> bool:
        need = self.need
        wanted = (need.milli_gpu, need.whole_gpus, need.cpu_milli, need.memory_mib)
        return all(int(have) >= want for have, want in zip(figures, wanted, strict=True))

    def _enough(self, figures: Ints, part_of_row: Ints) -> Iterator[Ints]:
        count = int(part_of_row.max(initial=-1)) + 1
        sums = np.zeros((len(figures), count), dtype=np.int64)
        inside = part_of_row >= 0
        for line, values in zip(sums, figures, strict=True):
            np.add.at(line, part_of_row[inside], values[inside])
        need = self.need
        enough = (
            (sums[0] >= need.milli_gpu)
            & (sums[1] >= need.whole_gpus)
            & (sums[2] >= need.cpu_milli)
            & (sums[3] >= need.memory_mib)
        ).nonzero()[0]
        # The most wished for, then the one with least to spare first; of equals the first.
        wished = np.zeros(count, dtype=np.int64)
        if self.affinity:
            np.maximum.at(wished, part_of_row[inside], self.view.wished(self.affinity)[inside])
        order = np.lexsort((enough, sums[2][enough], sums[0][enough], -wished[enough]))
        for part in enough[order][:PARTS].tolist():
            yield (part_of_row == part).nonzero()[0]

    def _apart(self, rows: Ints, board: Board, with_pairs: list[Ints]) -> Spots | None:
        """Without one node of each slow pair; a part that has such pairs is noted, and may be tried again."""
        ways = self._without_slow_pairs(rows)
        if not ways:
            return self._in(rows, board)
        with_pairs.append(rows)
        for fewer in ways:
            found = self._greedy_in(fewer, board, self.affinity)
            if found is not None:
                return found
        return None

    def _in(self, rows: Ints, board: Board) -> Spots | None:
        found = self._greedy_in(rows, board, self.affinity)
        if found is None and self.affinity:
            found = self._greedy_in(rows, board, NONE)
        if found is not None:
            return found
        here = (self.view.places[row][0] for row in rows.tolist())
        nodes = {node.node.node_id: node for node in here}
        if len(nodes) > EXACT_NODES:
            return None
        search = Search(self.view.open_bits, self.hold_class)
        return search.through(list(nodes.values()), self.workers)

    def _without_slow_pairs(self, rows: Ints) -> list[Ints]:
        """Rows of a part without one node of each slow pair that has room; none where there is no such pair."""
        if not self.view.has_slow_pairs:
            return []
        nodes = [self.view.places[row][0].node for row in rows.tolist()]
        room = self._room_for_one(rows).tolist()
        ways = ways_around([node for node, has_room in zip(nodes, room, strict=True) if has_room])
        return [rows[[node.node_id not in left_out for node in nodes]] for left_out in ways]

    def _room_for_one(self, rows: Ints) -> NDArray[np.bool_]:
        """Of each of these rows, whether its amounts suffice for the least that any worker asks for."""
        view, workers = self.view.rows, self.workers
        free = view.free[rows]
        milli_gpu = min(WHOLE_MILLI_GPU, *(one.milli_gpu for one in workers))
        found: NDArray[np.bool_] = (
            (free.max(axis=1) >= milli_gpu)
            & ((free == WHOLE_MILLI_GPU).sum(axis=1) >= min(x.whole_gpus for x in workers))
            & (view.cpu_milli[rows] >= min(one.cpu_milli for one in workers))
            & (view.memory_mib[rows] >= min(one.memory_mib for one in workers))
        )
        return found

    def _greedy_in(self, rows: Ints, board: Board, affinity: Affinity) -> Spots | None:
        def best(worker: Worker) -> PlacementSlot | None:
            again = self.view.refreshed_board(self.capacity, board)
            if affinity:
                return find_wished(self.view, again, worker, affinity, rows)
            return find_in(self.view, again, worker, rows)

        return _greedy(self.workers, best)


def _greedy(
    workers: Sequence[Worker], best: Callable[[Worker], PlacementSlot | None]
) -> Spots | None:
    done: dict[int, PlacementSlot] = {}
    try:
        for i in largest_first(workers):
            slot = best(workers[i])
            if slot is None:
                return None
            take(slot, workers[i])
            done[i] = slot
    finally:
        for i, slot in done.items():
            give_back(slot, workers[i])
    return tuple(done[i] for i in range(len(workers)))


def _on_nodes(
    nodes: Sequence[NodeCapacity],
    workers: Sequence[Worker],
    hold_class: HoldClass,
    affinity: Affinity,
) -> Spots | None:
    """On a few nodes, looked at one by one."""
    for left_out in ways_around(_with_room(nodes, workers, hold_class)):
        fewer = [one for one in nodes if one.node.node_id not in left_out]
        apart = _greedy_on(fewer, workers, hold_class, affinity)
        if apart is not None:
            return apart
    found = _greedy_on(nodes, workers, hold_class, affinity)
    if found is None and affinity:
        found = _greedy_on(nodes, workers, hold_class, NONE)
    if found is not None or len(nodes) > EXACT_NODES:
        return found
    return Search(lambda device: _open(device, hold_class), hold_class).through(nodes, workers)


def _with_room(
    nodes: Sequence[NodeCapacity], workers: Sequence[Worker], hold_class: HoldClass
) -> list[Node]:
    """Of the nodes that are slow with another one, those on which any worker fits."""
    asked = set(workers)
    return [
        one.node
        for one in nodes
        if one.node.slow_pairs
        and any(best_on([one], worker, hold_class, NONE) is not None for worker in asked)
    ]


def _greedy_on(
    nodes: Sequence[NodeCapacity],
    workers: Sequence[Worker],
    hold_class: HoldClass,
    affinity: Affinity,
) -> Spots | None:
    return _greedy(workers, lambda worker: best_on(nodes, worker, hold_class, affinity))


def _open(device: DeviceCapacity, hold_class: HoldClass) -> int:
    return FULL & ~device.blocked(hold_class)
