"""What each class of work sees of a pool, as arrays kept in step with the capacity.

The capacity is the truth, in bits; a view mirrors it in milli-GPU per device, so that the best of
thousands of nodes is found by looking only at those that changed. A view is exact about amounts
and knows nothing of alignment: the place it names is checked on the capacity, and left out if the bits
there do not line up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.capacity.affinity import Affinity
from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.node_capacity import DeviceCapacity, NodeCapacity, blocked
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.holds import FULL
from gpucommons.scheduler.core.model.types import HoldClass, NodeId, PoolName
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.foresight import Foresight
from gpucommons.scheduler.core.packing.learning import Known
from gpucommons.scheduler.core.packing.rows import Ints, Rows
from gpucommons.scheduler.core.packing.score_board import Board

#: Classes to which no fixed block is lent.
_BORROW_NOTHING = frozenset({HoldClass.GUARANTEED, HoldClass.FIXED})


@lru_cache(maxsize=4096)
def ask_of(milli_gpu: int, cpu_milli: int, memory_mib: int, gpu_kind: str | None) -> Ask:
    """What a worker asks of a node."""
    return Ask.of(milli_gpu, cpu_milli, memory_mib, () if gpu_kind is None else (gpu_kind,))


@lru_cache(maxsize=64)
def policy_of(known: Known, kinds: tuple[str, ...], devices: tuple[int, ...]) -> Foresight:
    """The policy that follows from known work and installed devices."""
    return Foresight(known, Rows(kinds, devices))


class View:
    """The nodes of a pool as one class of work may use them."""

    def __init__(
        self, nodes: Sequence[NodeCapacity], hold_class: HoldClass, *, outside: bool
    ) -> None:
        """Mirror these nodes; ``outside`` leaves fixed blocks out though the class may use them."""
        self._hold_class = hold_class
        self._outside = outside
        #: Devices of each row, and where its node is.
        self.places: list[tuple[NodeCapacity, tuple[DeviceCapacity, ...]]] = []
        self._rows_of: dict[NodeId, range] = {}
        for node in nodes:
            first = len(self.places)
            self.places += [(node, alike) for alike in _by_kind(node)]
            self._rows_of[node.node.node_id] = range(first, len(self.places))
        #: The place of each node among the nodes.
        self.ordinals = {node.node.node_id: i for i, node in enumerate(nodes)}
        self._kinds = tuple(devices[0].device.kind if devices else "" for _, devices in self.places)
        self._counts = tuple(len(devices) for _, devices in self.places)
        self.rows = Rows(self._kinds, self._counts)
        named = sorted({node.node.rack for node in nodes if node.node.rack})
        racks = {rack: i for i, rack in enumerate(named)}
        #: Node and rack of each row (-1: no rack), and whether it is its node's first.
        self.node_of_row = np.array(
            [self.ordinals[node.node.node_id] for node, _ in self.places], dtype=np.int64
        )
        self.rack_of_row = np.array(
            [racks.get(node.node.rack or "", -1) for node, _ in self.places], dtype=np.int64
        )
        self.first_rows = np.diff(self.node_of_row, prepend=-1) > 0
        #: Of nodes that packing finds equally good, one may be better.
        self.has_preferences = any(
            node.distances is not None or node.node.slow is not None for node in nodes
        )
        self.has_slow_pairs = any(node.node.slow_pairs for node in nodes)
        self._known: Known | None = None
        self._board: Board | None = None
        self._read = 0
        for row in range(len(self.places)):
            self._write(row)

    def board(self, capacity: Capacity, known: Known) -> Board:
        """Scores as of now, resting on what is known of the work that comes."""
        self.read(capacity)
        if self._board is None:
            self._board = Board(self.rows, policy_of(known, self._kinds, self._counts))
        elif known is not self._known:
            self._board.set_policy(policy_of(known, self._kinds, self._counts))
        self._known = known
        return self._board

    def refreshed_board(self, capacity: Capacity, board: Board) -> Board:
        """The same board after places were taken."""
        self.read(capacity)
        return board

    def wished(self, affinity: Affinity) -> Ints:
        """How much each row is wished for."""
        found = [affinity.get(node.node.node_id, 0) for node, _ in self.places]
        return np.array(found, dtype=np.int64)

    def open_bits(self, device: DeviceCapacity) -> int:
        """Bits of a device that this view may use."""
        taken = device.blocked(self._hold_class)
        return FULL & ~(taken | device.blocks if self._outside else taken)

    def free_besides(self, left_out: Mapping[NodeId, Mapping[DeviceId, int]]) -> Ints:
        """What is free of each device, but for these bits."""
        free: Ints = self.rows.free.copy()
        for node_id, masks in left_out.items():
            for row in self._rows_of.get(node_id, ()):
                for place, device in enumerate(self.places[row][1]):
                    mask = masks.get(device.device.device_id, 0)
                    free[row, place] -= (self.open_bits(device) & mask).bit_count()
        return free

    def read(self, capacity: Capacity) -> None:
        """Look again at the nodes that changed."""
        for node_id in dict.fromkeys(capacity.touched_since(self._read)):
            for row in self._rows_of.get(node_id, ()):
                self._write(row)
        self._read = capacity.changes

    def _write(self, row: int) -> None:
        node, devices = self.places[row]
        cpu_milli, memory_mib = node.free(self._hold_class)
        if self._outside:
            free = [self.open_bits(device).bit_count() for device in devices]
        else:
            free = [
                WHOLE_MILLI_GPU - bits.bit_count() for bits in blocked(devices, self._hold_class)
            ]
        self.rows.write(row, free, max(0, cpu_milli), max(0, memory_mib))


class _Unheld(View):
    """What nobody holds of each device, whatever is promised or kept for whom."""

    def _write(self, row: int) -> None:
        _, devices = self.places[row]
        self.rows.write(row, [WHOLE_MILLI_GPU - one.held.bit_count() for one in devices], 0, 0)


def _by_kind(node: NodeCapacity) -> list[tuple[DeviceCapacity, ...]]:
    """The devices of each kind; a node without devices has a row, too."""
    devices = node.devices.values()
    kinds = sorted({one.device.kind for one in devices})
    return [tuple(d for d in devices if d.device.kind == kind) for kind in kinds] or [()]


def free_pieces(
    capacity: Capacity, pool: PoolName, hold_class: HoldClass | None
) -> tuple[Ints, Ints]:
    """What is free of each device of a pool that is not wholly in use, and how many whole GPUs each node has.

    Free for a class; for None, of what nobody holds.
    """
    view = _unheld(capacity, pool) if hold_class is None else _read(capacity, pool, hold_class)
    free: Ints = view.rows.free[view.rows.free > 0]
    return free, _whole_per_node(view)


def whole_free_per_node(capacity: Capacity, pool: PoolName, hold_class: HoldClass) -> Ints:
    """How many GPUs are wholly free for a class on each usable node of a pool."""
    return _whole_per_node(_read(capacity, pool, hold_class))


def _whole_per_node(view: View) -> Ints:
    whole = (view.rows.free == WHOLE_MILLI_GPU).sum(axis=1)
    found: Ints = np.bincount(view.node_of_row, weights=whole).astype(np.int64)
    return found


def largest_free(capacity: Capacity, pool: PoolName, hold_class: HoldClass) -> int:
    """The most milli-GPU that is free of one GPU for a class."""
    view = _read(capacity, pool, hold_class)
    return int(view.rows.free.max(initial=0))


def free_per_node(capacity: Capacity, pool: PoolName, hold_class: HoldClass) -> tuple[View, Ints]:
    """How much is free for a class on each usable node of a pool, and which node is which."""
    view = _read(capacity, pool, hold_class)
    free = view.rows.free.sum(axis=1)
    return view, np.bincount(view.node_of_row, weights=free).astype(np.int64)


def is_as_much_free(capacity: Capacity, pool: PoolName, need: int, one: int) -> bool:
    """So much of a pool in all, and of one GPU, whatever it is kept for."""
    if largest_free(capacity, pool, HoldClass.FIXED) < one:
        return False
    _, free = free_per_node(capacity, pool, HoldClass.FIXED)
    return int(free.sum()) >= need


def is_free_on_a_node(
    capacity: Capacity,
    pool: PoolName,
    milli_gpu: int,
    left_out: Mapping[NodeId, Mapping[DeviceId, int]],
) -> bool:
    """A part of one GPU, or so many whole ones of one node, whatever they are kept for."""
    view = _read(capacity, pool, HoldClass.FIXED)
    free = view.free_besides(left_out)
    if milli_gpu <= WHOLE_MILLI_GPU:
        return int(free.max(initial=0)) >= milli_gpu
    whole = np.bincount(view.node_of_row, weights=(free == WHOLE_MILLI_GPU).sum(axis=1))
    return int(whole.max(initial=0)) * WHOLE_MILLI_GPU >= milli_gpu


def views_of(capacity: Capacity, pool: PoolName, hold_class: HoldClass) -> tuple[View, ...]:
    """Views in the order in which they are tried: fixed blocks are lent last."""
    everything = _view(capacity, pool, hold_class, outside=False)
    if pool not in capacity.pools_with_blocks or hold_class in _BORROW_NOTHING:
        return (everything,)
    return _view(capacity, pool, hold_class, outside=True), everything


def _view(capacity: Capacity, pool: PoolName, hold_class: HoldClass, *, outside: bool) -> View:
    key = (pool, hold_class, outside)
    found = capacity.views.get(key)
    if not isinstance(found, View):
        found = capacity.views[key] = View(capacity.usable(pool), hold_class, outside=outside)
    return found


def _unheld(capacity: Capacity, pool: PoolName) -> View:
    found = capacity.views.get((pool, None))
    if not isinstance(found, _Unheld):
        found = _Unheld(capacity.usable(pool), HoldClass.FIXED, outside=False)
        capacity.views[pool, None] = found
    found.read(capacity)
    return found


def _read(capacity: Capacity, pool: PoolName, hold_class: HoldClass) -> View:
    """All that a class may use of a pool, as of now."""
    view = _view(capacity, pool, hold_class, outside=False)
    view.read(capacity)
    return view


def asked(worker: Worker) -> Ask:
    """What a worker asks of a node."""
    return ask_of(worker.milli_gpu, worker.cpu_milli, worker.memory_mib, worker.gpu_kind)


def whole_free(view: View, row: int) -> dict[int, DeviceCapacity]:
    """Wholly free devices of a row, by position."""
    devices = view.places[row][1]
    return {
        device.position: device
        for device, free in zip(devices, view.rows.plain[row][0], strict=True)
        if free == WHOLE_MILLI_GPU
    }
