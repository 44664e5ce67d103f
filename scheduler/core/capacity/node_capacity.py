"""What is held, held back and free on one device and on one node, in bits and in plain numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device, DeviceId
from gpucommons.scheduler.core.capacity.device_distances import Distances, distances_of
from gpucommons.scheduler.core.capacity.hold_back import (
    BORROWERS,
    EVERYONE,
    HoldBack,
    HoldBackKey,
    HoldBackReason,
)
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.holds import Hold, HoldKey, Load, mask_of
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import HoldClass, NodeId, WorkloadId


@dataclass(slots=True)
class DeviceCapacity:
    """One device: who holds which bits."""

    device: Device
    position: int
    held: int = 0
    #: Held back from everyone: promised to somebody.
    promised: int = 0
    blocks: int = 0
    #: Held back from borrowers.
    from_borrowers: int = 0
    #: Held back from work inside a guarantee.
    reserved: int = 0

    def blocked(self, hold_class: HoldClass, gone: int = 0, unpromised: int = 0) -> int:
        """Bits that work of this class may not use now, or could not once these bits are given up.

        What is held or promised belongs to one worker each, so given-up bits are nobody else's.
        """
        taken = self.held & ~gone | self.promised & ~unpromised
        if hold_class is HoldClass.GUARANTEED:
            return taken | self.blocks | self.reserved
        if hold_class is HoldClass.FIXED:
            return taken
        return taken | self.from_borrowers

    def fork(self) -> DeviceCapacity:
        """Return an independent copy."""
        return evolve(self)


def blocked(devices: Iterable[DeviceCapacity], hold_class: HoldClass) -> list[int]:
    """What :meth:`DeviceCapacity.blocked` says now of each device: asked for whole nodes at a time."""
    if hold_class is HoldClass.GUARANTEED:
        return [one.held | one.promised | one.blocks | one.reserved for one in devices]
    if hold_class is HoldClass.FIXED:
        return [one.held | one.promised for one in devices]
    return [one.held | one.promised | one.from_borrowers for one in devices]


def share_of(node: Node, milli_gpu: int) -> Load:
    """The part of a node's processor and memory that goes with so many of its GPUs."""
    whole = WHOLE_MILLI_GPU * max(1, len(node.all_devices))
    return Load(node.cpu_milli * milli_gpu // whole, node.memory_mib * milli_gpu // whole)


@dataclass(slots=True)
class NodeCapacity:
    """One node: its devices, and its processor and memory by who may use them."""

    node: Node
    devices: dict[DeviceId, DeviceCapacity]
    holds: dict[HoldKey, Hold] = field(default_factory=dict)
    held: Load = Load()
    firm: Load = Load()
    fixed: Load = Load()
    promised: Load = Load()
    block_share: Load = Load()
    from_borrowers: Load = Load()
    #: What is held back here: promises and all else.
    held_back: list[HoldBack] = field(default_factory=list)
    #: Where changes are noted: all nodes of a capacity share the list.
    touched: list[NodeId] = field(default_factory=list)
    #: How often it changed.
    version: int = 0
    #: Between its devices, by position; None where nobody told any.
    distances: Distances | None = None

    @classmethod
    def empty(cls, node: Node, touched: list[NodeId] | None = None) -> NodeCapacity:
        """Return a node on which nothing runs."""
        devices = {d.device_id: DeviceCapacity(d, i) for i, d in enumerate(node.devices)}
        return cls(
            node,
            devices,
            touched=[] if touched is None else touched,
            distances=distances_of(node.devices, node.links),
        )

    def touch(self) -> None:
        """Note that something changed here, so that whoever remembers the node looks again."""
        self.version += 1
        self.touched.append(self.node.node_id)

    @property
    def total(self) -> Load:
        """All of the node's processor and memory."""
        return Load(self.node.cpu_milli, self.node.memory_mib)

    def share(self, milli_gpu: int) -> Load:
        """The part of the node's processor and memory that goes with so many of its GPUs."""
        return share_of(self.node, milli_gpu)

    def free(self, hold_class: HoldClass) -> Load:
        """Processor and memory that work of this class may use now."""
        # In plain numbers: asked for every changed node of every view.
        node, held, promised = self.node, self.held, self.promised
        cpu = node.cpu_milli - held.cpu_milli - promised.cpu_milli
        memory = node.memory_mib - held.memory_mib - promised.memory_mib
        if hold_class is HoldClass.FIXED:
            return Load(cpu, memory)
        if hold_class is HoldClass.GUARANTEED:
            firm = self.free_for_guaranteed()
            return Load(min(cpu, firm.cpu_milli), min(memory, firm.memory_mib))
        return Load(cpu - self.from_borrowers.cpu_milli, memory - self.from_borrowers.memory_mib)

    def free_for_guaranteed(self) -> Load:
        """What work that nobody may evict can have, were all borrowers gone.

        What notebooks may still claim with their blocks is lent to evictable work only.
        """
        node, share, fixed = self.node, self.block_share, self.fixed
        firm, promised = self.firm, self.promised
        return Load(
            node.cpu_milli
            - firm.cpu_milli
            - promised.cpu_milli
            - max(0, share.cpu_milli - fixed.cpu_milli),
            node.memory_mib
            - firm.memory_mib
            - promised.memory_mib
            - max(0, share.memory_mib - fixed.memory_mib),
        )

    def add(self, hold: Hold) -> None:
        """Take what the hold takes."""
        self.touch()
        self.holds[hold.key] = hold
        bits = mask_of(hold.placement)
        for device_id in hold.placement.device_ids:
            self.devices[device_id].held |= bits
        load = hold.load
        self.held = self.held.plus(load)
        if hold.firm:
            self.firm = self.firm.plus(load)
        if hold.hold_class is HoldClass.FIXED:
            self.fixed = self.fixed.plus(load)

    def remove(self, key: HoldKey) -> Hold:
        """Give back what the hold took."""
        self.touch()
        hold = self.holds.pop(key)
        bits = mask_of(hold.placement)
        for device_id in hold.placement.device_ids:
            self.devices[device_id].held &= ~bits
        load = hold.load
        self.held = self.held.minus(load)
        if hold.firm:
            self.firm = self.firm.minus(load)
        if hold.hold_class is HoldClass.FIXED:
            self.fixed = self.fixed.minus(load)
        return hold

    def add_hold_back(self, one: HoldBack) -> None:
        """Keep what is held back from those who may not have it."""
        self.held_back.append(one)
        self._reckon(one.reason.held_from)

    def remove_hold_back(self, one: HoldBack) -> None:
        """Let everybody have what was held back."""
        self.held_back.remove(one)
        self._reckon(one.reason.held_from)

    def _reckon(self, held_from: frozenset[HoldClass]) -> None:
        """Bits and load that these classes may not have, from all that is held back here."""
        self.touch()
        bits: dict[DeviceId, int] = {}
        load = Load()
        for one in self.held_back:
            if one.reason.held_from is held_from:
                load = load.plus(one.load)
                for device_id, mask in one.bits:
                    bits[device_id] = bits.get(device_id, 0) | mask
        found = ((device, bits.get(device_id, 0)) for device_id, device in self.devices.items())
        if held_from is EVERYONE:
            self.promised = load
            for device, mask in found:
                device.promised = mask
        elif held_from is BORROWERS:
            self.from_borrowers = load
            for device, mask in found:
                device.from_borrowers = mask
        else:
            for device, mask in found:
                device.reserved = mask

    @property
    def promised_by(self) -> set[WorkloadId]:
        """Who was promised a part of it."""
        return {
            one.workload_id
            for one in self.held_back
            if one.workload_id is not None and one.reason is HoldBackReason.PROMISE
        }

    def holds_of(self, device_id: DeviceId) -> Iterator[Hold]:
        """Who holds a part of a device under this node."""
        return (one for one in self.holds.values() if device_id in one.placement.device_ids)

    def fork(self) -> NodeCapacity:
        """Return an independent copy."""
        return evolve(
            self,
            devices={device_id: capacity.fork() for device_id, capacity in self.devices.items()},
            holds=dict(self.holds),
            held_back=list(self.held_back),
            touched=[],
            version=0,
        )


class HoldBackLedger:
    """All that is held back on the nodes of a capacity, by reason and for whom.

    Whoever decides says which :class:`HoldBack` there should be; only what differs from before is
    changed on the nodes, so that whoever remembers a node looks again only where there is a reason.
    """

    __slots__ = ("_held", "_nodes", "borrower_changes", "freed")

    def __init__(self, nodes: Mapping[NodeId, NodeCapacity]) -> None:
        """Hold nothing back on these nodes."""
        self._nodes = nodes
        self._held: dict[HoldBackReason, dict[WorkloadId, tuple[HoldBack, ...]]] = {
            reason: {} for reason in HoldBackReason
        }
        #: How often something was given up that was not only held back from borrowers.
        self.freed = 0
        #: How often what is held back from borrowers has changed.
        self.borrower_changes = 0

    def replace(self, key: HoldBackKey, wanted: Iterable[HoldBack]) -> None:
        """Hold back just this under a key, and nothing of what was held back under it before."""
        held = self._held[key.reason]
        after, before = tuple(wanted), held.pop(key.workload_id, ())
        if after:
            held[key.workload_id] = after
        if after == before:
            return
        if key.reason.held_from is BORROWERS:
            self.borrower_changes += 1
        else:
            self.freed += bool(before)
        # Mostly one of them is empty: somebody gets a place, or loses it.
        both = bool(before and after)
        for one in (Counter(before) - Counter(after)).elements() if both else before:
            self._nodes[one.node_id].remove_hold_back(one)
        for one in (Counter(after) - Counter(before)).elements() if both else after:
            self._nodes[one.node_id].add_hold_back(one)

    def drop(self, key: HoldBackKey) -> None:
        """Hold back nothing under this key any more."""
        self.replace(key, ())

    def drop_all(self, reason: HoldBackReason) -> None:
        """Hold back nothing for this reason any more."""
        for one in tuple(self._held[reason]):
            self.drop(HoldBackKey(reason, one))

    def under(self, key: HoldBackKey) -> tuple[HoldBack, ...]:
        """What is held back under a key."""
        return self._held[key.reason].get(key.workload_id, ())

    def held_for(self, reason: HoldBackReason) -> Mapping[WorkloadId, tuple[HoldBack, ...]]:
        """All that is held back for a reason, by workload."""
        return self._held[reason]

    def held_from(self, hold_class: HoldClass) -> Iterator[HoldBack]:
        """What work of this class may not have, and others may."""
        for reason, held in self._held.items():
            if hold_class in reason.held_from and reason.held_from is not EVERYONE:
                yield from chain.from_iterable(held.values())

    @contextmanager
    def without(self, key: HoldBackKey) -> Iterator[None]:
        """Look as if it were not held back: what is one's own is not in one's way."""
        found = self.under(key)
        self.drop(key)
        try:
            yield
        finally:
            self.replace(key, found)

    @contextmanager
    def with_also(self, also: Sequence[HoldBack]) -> Iterator[None]:
        """Look as if this were held back, too."""
        for one in also:
            self._nodes[one.node_id].add_hold_back(one)
        try:
            yield
        finally:
            for one in also:
                self._nodes[one.node_id].remove_hold_back(one)


def twice(devices: Iterable[Device]) -> frozenset[DeviceId]:
    """Devices that are there more than once."""
    seen: set[DeviceId] = set()
    twice: set[DeviceId] = set()
    for device in devices:
        (twice if device.device_id in seen else seen).add(device.device_id)
    return frozenset(twice)
