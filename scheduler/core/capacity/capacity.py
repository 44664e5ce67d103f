"""What is held and what is free on every device and node, as one mutable derived state of a cluster.

A :class:`Capacity` is built from a cluster once and goes with it from cycle to cycle: it shrinks as
work is placed, and follows what has changed since. A search tries things out on copies of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.capacity.hold_back import (
    HoldBack,
    HoldBackKey,
    HoldBackReason,
    Promise,
    hold_backs_of,
)
from gpucommons.scheduler.core.capacity.node_capacity import HoldBackLedger, NodeCapacity, twice
from gpucommons.scheduler.core.model.holds import (
    FULL,
    Hold,
    HoldKey,
    Load,
    block_mask,
    holds_of,
    load_by_node,
    mask_of,
    sum_loads,
)
from gpucommons.scheduler.core.model.resources import Block, Node, NodeState
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    HoldClass,
    NodeId,
    PoolName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.packing.learning import Known

#: A longer list of touched nodes is begun anew: whoever has not read it looks at all nodes.
_TOUCHES_KEPT = 10_000


@dataclass(slots=True)
class Capacity:
    """All nodes."""

    nodes: dict[NodeId, NodeCapacity]
    #: All that is kept from work though nobody holds it.
    ledger: HoldBackLedger = field(init=False)
    promises: dict[WorkloadId, Promise] = field(default_factory=dict)
    #: Victims whose processor and memory count for a promise.
    covered: set[HoldKey] = field(default_factory=set)
    #: Ids of changed nodes, in the order of the changes; readers remember how far they have read.
    touched: list[NodeId] = field(default_factory=list)
    #: The attempt of each workload that is counted.
    attempts: dict[WorkloadId, Attempt] = field(default_factory=dict)
    #: The layout that is marked.
    blocks: tuple[Block, ...] = ()
    #: Pools in which some of it lies.
    pools_with_blocks: frozenset[PoolName] = frozenset()
    #: Work known to come, by pool; None for a trial of a few nodes, which follows no demand.
    known: Mapping[PoolName, Known] | None = None
    #: Arrays kept in step with this capacity by :mod:`.views`.
    views: dict[tuple[object, ...], object] = field(default_factory=dict)
    #: What is held of a device under a node that lacks it by now or is not alone to have it.
    astray: dict[DeviceId, dict[HoldKey, int]] = field(default_factory=dict)
    #: Devices that more than one node has: a machine that has been renamed, and its lost self.
    _twins: frozenset[DeviceId] = frozenset()
    _freed: int = 0
    _forgotten: int = 0
    _usable: dict[PoolName, Sequence[NodeCapacity]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Hold nothing back."""
        self.ledger = HoldBackLedger(self.nodes)

    @classmethod
    def of(
        cls, nodes: Iterable[Node], workloads: Iterable[Workload], blocks: Iterable[Block]
    ) -> Capacity:
        """Return the capacity that these holds, promises and blocks leave."""
        ordered = sorted(nodes, key=lambda node: node.node_id)
        touched: list[NodeId] = []
        nodes_by_id = {node.node_id: NodeCapacity.empty(node, touched) for node in ordered}
        capacity = cls(nodes_by_id, touched=touched)
        capacity._twins = twice(one for node in ordered for one in node.devices)
        promised = []
        for workload in workloads:
            if workload.on_node is not None:
                capacity.add(workload, workload.on_node)
            if workload.nomination is not None:
                promised.append(workload)
        capacity.set_blocks(blocks)
        for workload in sorted(promised, key=lambda one: one.workload_id):
            capacity.promise(workload)
        return capacity

    @property
    def changes(self) -> int:
        """How many changes of nodes there were."""
        return self._forgotten + len(self.touched)

    def touched_since(self, changes: int) -> Sequence[NodeId]:
        """Nodes that changed since there were so many changes."""
        if changes < self._forgotten:
            return tuple(self.nodes)
        return self.touched[changes - self._forgotten :]

    def has_same_nodes(self, nodes: Mapping[NodeId, Node]) -> bool:
        """It is a derived state of exactly these nodes."""
        mine = self.nodes
        return len(mine) == len(nodes) and all(
            node_id in mine and mine[node_id].node is node for node_id, node in nodes.items()
        )

    def update(
        self,
        workloads: Mapping[WorkloadId, Workload],
        changed: Iterable[WorkloadId],
        blocks: Iterable[Block],
    ) -> None:
        """Become what :meth:`of` would make now, where only these workloads have changed."""
        if len(self.touched) > _TOUCHES_KEPT:
            self._forgotten += len(self.touched)
            self.touched.clear()
        self.unreserve()
        laid = tuple(blocks)
        if laid != self.blocks:
            self.set_blocks(laid)
        seen = len(self.touched)
        again: set[WorkloadId] = set()
        came: list[tuple[Workload, Attempt]] = []
        for workload_id in changed:
            workload = workloads.get(workload_id)
            before = self.attempts.get(workload_id)
            now = None if workload is None else workload.on_node
            if before is not None and before is not now:
                self.remove_attempt(before)
                del self.attempts[workload_id]
            if workload is not None and now is not None and before is not now:
                came.append((workload, now))
            if workload_id in self.promises or (workload and workload.nomination):
                again.add(workload_id)
                self.unpromise(workload_id)
        # All who go before any who come: a place passes on, and giving up its bits later would
        # take them from the newcomer.
        for workload, attempt in came:
            self.add(workload, attempt)
        again |= self._promised_on(set(self.touched[seen:]))
        for workload_id in again:
            self.unpromise(workload_id)
        for workload_id in sorted(again & workloads.keys()):
            self.promise(workloads[workload_id])

    def _promised_on(self, node_ids: set[NodeId]) -> set[WorkloadId]:
        """Promises that a change on these nodes concerns, also by way of other promises."""
        found: set[WorkloadId] = set()
        ahead = set(node_ids)
        while ahead:
            node = self.nodes.get(ahead.pop())
            for workload_id in () if node is None else node.promised_by - found:
                found.add(workload_id)
                ahead.update(one.node_id for one in self.promises[workload_id].placements)
        return found

    def follow(self, before: Workload | None, after: Workload) -> bool:
        """Hold what a workload has and was promised now; return whether that is something else."""
        had = None if before is None else before.on_node
        has, promise = after.on_node, after.nomination
        moved = had is not has and _held_by(had) != _held_by(has)
        promised = promise is not (None if before is None else before.nomination)
        if promised and promise is None:
            self.unpromise(after.workload_id)
        if moved and had is not None:
            self.remove_attempt(had)
            self.attempts.pop(after.workload_id, None)
        if moved and has is not None:
            self.add(after, has)
        if promised and promise is not None:
            self.promise(after)
        return promised or moved

    def reserve(self, workload: Workload, placements: Iterable[WorkerPlacement]) -> None:
        """Hold a place back from other in-guarantee work until :meth:`unreserve` or the next refresh."""
        key = HoldBackKey(HoldBackReason.RESERVATION, workload.workload_id)
        # Processor and memory are not kept: what ends there gives up its own.
        self.ledger.replace(
            key, hold_backs_of(key.reason, workload, placements, HoldClass.GUARANTEED)
        )

    @property
    def reservations(self) -> Mapping[WorkloadId, tuple[HoldBack, ...]]:
        """Places that are held back for in-guarantee work that waits for other such work."""
        return self.ledger.held_for(HoldBackReason.RESERVATION)

    def unreserve(self) -> None:
        """Hold no place back from in-guarantee work."""
        self.ledger.drop_all(HoldBackReason.RESERVATION)

    @property
    def freed(self) -> int:
        """How often something could be had that could not before: a hold, a promise or a reservation
        went, or blocks moved.
        """
        return self._freed + self.ledger.freed

    def gpus_held_back(self, pool: PoolName, hold_class: HoldClass) -> Mapping[DeviceId, HoldBack]:
        """Whole GPUs of a pool that nobody holds and a class may not have, and what keeps them."""
        found: dict[DeviceId, HoldBack] = {}
        for one in self.ledger.held_from(hold_class):
            node = self.nodes[one.node_id]
            for device_id, _ in one.bits if node.node.pool == pool else ():
                device = node.devices[device_id]
                # Of a GPU with blocks, borrowers may have the parts that are not kept.
                whole = not device.blocks or device.from_borrowers == FULL
                if whole and not device.blocked(HoldClass.FIXED):
                    found.setdefault(device_id, one)
        return found

    def usable(self, pool: PoolName) -> Sequence[NodeCapacity]:
        """Nodes of a pool that take new work, in a fixed order."""
        found = self._usable.get(pool)
        if found is None:
            found = self._usable[pool] = tuple(
                capacity
                for capacity in self.nodes.values()
                if capacity.node.pool == pool and capacity.node.state is NodeState.READY
            )
        return found

    def add(self, workload: Workload, attempt: Attempt) -> None:
        """Take what an attempt holds."""
        self.attempts[workload.workload_id] = attempt
        for hold in holds_of(workload, attempt):
            node = self.nodes.get(hold.placement.node_id)
            if node is not None:
                node.add(_on(node, hold))
            for device_id in hold.placement.device_ids:
                if node is None or device_id not in node.devices or device_id in self._twins:
                    self.astray.setdefault(device_id, {})[hold.key] = mask_of(hold.placement)
                    self._show_everywhere(device_id)

    def remove_attempt(self, attempt: Attempt) -> None:
        """Give back all that an attempt holds."""
        self._freed += 1
        for rank, placement in enumerate(attempt.placements):
            node = self.nodes.get(placement.node_id)
            key = HoldKey(attempt.attempt_id, rank)
            if node is not None and key in node.holds:
                node.remove(key)
            for device_id in self.astray.keys() & placement.device_ids:
                self.astray[device_id].pop(key, None)
                self._show_everywhere(device_id)

    def _show_everywhere(self, device_id: DeviceId) -> None:
        """A device is one, whichever nodes have it: what is held of it is held on all of them."""
        strays = self.astray[device_id].values()
        for node in self.nodes.values():
            if device_id in node.devices:
                own = (mask_of(hold.placement) for hold in node.holds_of(device_id))
                node.devices[device_id].held = reduce(or_, (*own, *strays), 0)
                node.touch()

    def is_free(self, placement: WorkerPlacement) -> bool:
        """Nobody holds any of this place."""
        devices = self.nodes[placement.node_id].devices
        return not any(devices[one].held & mask_of(placement) for one in placement.device_ids)

    def promise(self, workload: Workload) -> None:
        """Keep the devices of a nomination from everyone else.

        Processor and memory: victims give theirs to the nominee, so only what it needs beyond
        them is taken now. A victim shared by several counts for the one that was submitted first,
        whoever was promised something first: else the next cycle would reckon otherwise.
        """
        self.unpromise(workload.workload_id)
        nomination = workload.nomination
        if nomination is None:
            return
        again = self._sharing(frozenset(nomination.victims), nomination.placements)
        self._reckon(again, workload)

    def _sharing(
        self, victims: frozenset[AttemptId], placements: tuple[WorkerPlacement, ...]
    ) -> list[Workload]:
        """Who was promised a place on these nodes that one of these clears, or one that they share."""
        found: dict[WorkloadId, Workload] = {}
        ahead = [(victims, placements)]
        while ahead:
            cleared, places = ahead.pop()
            there = {place.node_id for place in places} & self.nodes.keys()
            for other in {i for node_id in there for i in self.nodes[node_id].promised_by}:
                promise = self.promises[other]
                if other not in found and promise.victims & cleared:
                    found[other] = promise.workload
                    ahead.append((promise.victims, promise.placements))
        return list(found.values())

    def _reckon(self, again: Sequence[Workload], *new: Workload) -> None:
        """Whose victims count for whom, anew: in the order of submits."""
        for one in again:
            self._let_go(one.workload_id)
        for one in sorted((*again, *new), key=lambda one: one.workload_id):
            self._keep(one)

    def _keep(self, workload: Workload) -> None:
        nomination = workload.nomination
        if nomination is None:
            return
        victims = frozenset(nomination.victims)
        covered: set[HoldKey] = set()
        # A search looks at some of the nodes only; of a place that is gone nothing can be kept.
        there = tuple(one for one in nomination.placements if self._is_there(one))
        extra = load_by_node(there)
        for node_id, left in tuple(extra.items()):
            node = self.nodes[node_id]
            mine = [k for k in node.holds if k.attempt_id in victims and k not in self.covered]
            given = sum_loads(node.holds[key].load for key in mine)
            covered.update(mine)
            extra[node_id] = left.minus(given).positive()
        self.covered |= covered
        kept = Promise(workload, victims, there, extra, frozenset(covered))
        self.promises[workload.workload_id] = kept
        self.ledger.replace(
            HoldBackKey(HoldBackReason.PROMISE, workload.workload_id),
            hold_backs_of(HoldBackReason.PROMISE, workload, there, nomination.hold_class, extra),
        )

    def _is_there(self, placement: WorkerPlacement) -> bool:
        node = self.nodes.get(placement.node_id)
        return node is not None and all(one in node.devices for one in placement.device_ids)

    def unpromise(self, workload_id: WorkloadId) -> None:
        """Let go of a nomination's devices."""
        gone = self._let_go(workload_id)
        if gone is not None and gone.covered:
            self._reckon(self._sharing(gone.victims, gone.placements))

    def _let_go(self, workload_id: WorkloadId) -> Promise | None:
        gone = self.promises.pop(workload_id, None)
        if gone is None:
            return None
        self.covered -= gone.covered
        self.ledger.drop(HoldBackKey(HoldBackReason.PROMISE, workload_id))
        return gone

    def promise_on_free_devices(self, workload_id: WorkloadId) -> bool:
        """A promise keeps something that nobody holds: without it, its own workload may fit."""
        return any(
            one.load != Load()
            or any(bits & ~self.nodes[one.node_id].devices[i].held for i, bits in one.bits)
            for one in self.ledger.under(HoldBackKey(HoldBackReason.PROMISE, workload_id))
        )

    def set_blocks(self, blocks: Iterable[Block]) -> None:
        """Mark where fixed quota lies, and the processor and memory that goes with it."""
        self._freed += 1
        self.blocks = tuple(blocks)
        self.pools_with_blocks = frozenset(block.pool for block in self.blocks)
        for node in self.nodes.values():
            node.touch()
            node.block_share = Load()
            for device in node.devices.values():
                device.blocks = 0
        for block in self.blocks:
            home = self.nodes.get(block.node_id)
            if home is None or any(d not in home.devices for d in block.device_ids):
                continue
            home.block_share = home.block_share.plus(home.share(block.milli_gpu))
            for device_id in block.device_ids:
                home.devices[device_id].blocks |= block_mask(block.offset, block.milli_gpu)


def _held_by(one: Attempt | None) -> object:
    return None if one is None else (one.attempt_id, one.hold_class, one.placements)


def _on(node: NodeCapacity, hold: Hold) -> Hold:
    """The hold without devices that its node has lost: what is left of it is still held."""
    placement = hold.placement
    there = tuple(one for one in placement.device_ids if one in node.devices)
    if len(there) == len(placement.device_ids):
        return hold
    return replace(hold, placement=replace(placement, device_ids=there))
