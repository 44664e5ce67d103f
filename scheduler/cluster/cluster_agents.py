"""The node agents of a cluster as if they were one: every slice's own node is asked.

The scheduler thinks in slots (``<node>/gpu-0``), agents in the UUIDs of the devices; who holds which
slot is known to the executor, which is asked for it. A node that does not answer is away: what runs
there is unknown, never idle, and never seen gone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from gpucommons.gpu.client.agent_client import (
    AgentClient,
    HeldDevices,
    NodeReport,
    Prepared,
    SliceReading,
)
from gpucommons.gpu.clouds.notice_source import CloudNotice
from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.gpu.errors import AgentUnavailable, GpuError, UnknownDevice, UnknownSlice
from gpucommons.gpu.slices.slices import CHOSEN_LATER, GpuSlice, SliceId
from gpucommons.gpu.slices.usage import AuditEntry, UsageMinute, UsageSample
from gpucommons.scheduler.cluster.heard_from_agents import HeardFromAgents
from gpucommons.scheduler.core.model.types import NodeId

log = logging.getLogger("gpucommons.scheduler.cluster.cluster_agents")
T = TypeVar("T")

#: Agents asked at the same time.
_AT_ONCE = 16
#: One that did not answer is left out of the next rounds for so long.
AWAY_S = 10.0
#: What a node offers changes rarely.
REPORTS_S = 15.0


def node_of_slot(slot: DeviceId) -> NodeId:
    """The node of a slot."""
    return NodeId(slot.rpartition("/")[0])


class ClusterAgents:
    """Routes each call to the agent of the slice's node. Safe from any thread.

    Parameters
    ----------
    addresses
        Where the agent of each node is, as of now.
    connect
        Makes a client for an address.
    devices_of
        The UUID of each slot that is held; slots that are not are missing.
    node_of
        Where the slices are that somebody holds: an agent that is gone cannot say it.
    """

    def __init__(
        self,
        *,
        addresses: Callable[[], Mapping[NodeId, str]],
        connect: Callable[[str], AgentClient],
        devices_of: Callable[[], Mapping[DeviceId, DeviceId]],
        node_of: Callable[[SliceId], NodeId | None] = lambda _slice: None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._addresses = addresses
        self._connect = connect
        self._devices_of = devices_of
        self._node_of = node_of
        self._now_s = now_s
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="agents")
        self._lock = threading.Lock()
        self._clients: dict[str, AgentClient] = {}
        self._where: dict[SliceId, NodeId] = {}
        self._memories: dict[NodeId, str] = {}
        self.heard = HeardFromAgents()
        #: Nodes that did not answer, and when.
        self._away: dict[NodeId, float] = {}
        #: Where the agent was that did not answer, and until when it is not asked again there.
        self._silent: dict[NodeId, tuple[str, float]] = {}
        #: Slices to be closed when their node is back.
        self._unclosed: dict[NodeId, set[SliceId]] = {}
        self._reports: Mapping[NodeId, NodeReport] = {}
        self._reported_s: float | None = None

    def close(self) -> None:
        """Let go of the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def memories(self) -> Mapping[NodeId, str]:
        """What the agent of each node calls its memory; another one: it lost what it knew."""
        with self._lock:
            return dict(self._memories)

    def notices(self) -> Mapping[NodeId, CloudNotice]:
        """What its cloud said last of each node whose agent answers; nobody is asked for it."""
        return self.heard.notices(self._addresses())

    def open(self, gpu_slice: GpuSlice, *, used: bool = False) -> None:
        """Begin to watch a slice; repeating it is harmless.

        Whether it was used before, an agent learns of the pods that are shown it. Whole GPUs may be
        chosen later, by the device plugin.

        Raises
        ------
        UnknownDevice
            While the slot of a fraction is held by nobody, so that its UUID is not known.
        """
        node, real = self._placed(gpu_slice)
        # First: it is not to be closed any more, should it still wait for that.
        self._remember(gpu_slice.slice_id, node)
        self._ask(node, lambda agent: agent.open(real, used=used))

    def prepare(self, gpu_slice: GpuSlice) -> Prepared:
        """Open a slice and put its limit in force, before its pod asks for it.

        Raises
        ------
        LimitNotInForce
            When the limit cannot be verified: nothing may start then.
        UnknownDevice
            As :meth:`open`.
        """
        node, real = self._placed(gpu_slice)
        self._remember(gpu_slice.slice_id, node)
        return self._ask(node, lambda agent: agent.prepare(real))

    def resize(self, slice_id: SliceId, memory_mib: int) -> None:
        """Change the memory of a slice in use."""
        self._ask(self._find(slice_id), lambda agent: agent.resize(slice_id, memory_mib))

    def bind(self, slice_id: SliceId, pid: int) -> None:
        """Nothing: a pod's processes belong to its slice by their control group."""

    def close_slice(self, slice_id: SliceId) -> None:
        """Stop watching a slice; where its node is away, as soon as it is back.

        Raises
        ------
        AgentUnavailable
            When it is not closed yet.
        """
        try:
            node = self._find(slice_id)
        except UnknownSlice:
            return
        self._close_on(node, slice_id)

    def park(self, slice_id: SliceId) -> tuple[int, ...]:
        """Let nothing of a slice use its devices; answers who still does. Raises as :meth:`reading` does."""
        node = self._node_of(slice_id) or self._where.get(slice_id)
        if node is None:
            message = f"No node is known to have slice {slice_id}."
            raise AgentUnavailable(message)
        return self._ask(node, lambda agent: agent.park(slice_id))

    def reading(self, slice_id: SliceId) -> SliceReading:
        """Look at one slice now.

        A slice that no agent has open is looked for by every one of them: what pods are shown does not
        go by what an agent remembers.

        Raises
        ------
        AgentUnavailable
            When its node, or one that may be its node, does not answer.
        """
        node = self._node_of(slice_id) or self._where.get(slice_id)
        if node is not None:
            return self._ask(node, lambda agent: agent.reading(slice_id))
        expected = set(self._addresses())
        found = self._ask_all(lambda agent: agent.reading(slice_id), patient=True)
        self._refuse_missing(slice_id, expected - found.keys())
        pids = tuple(pid for one in found.values() for pid in one.pids)
        samples = [one.sample for one in found.values() if one.sample is not None]
        return SliceReading(sample=samples[0] if samples else None, pids=pids)

    def live(self, node: NodeId, slice_id: SliceId) -> int | None:
        """Live processes of a slice on a node, looked for now; None where no agent knows of it.

        Raises
        ------
        AgentUnavailable
            When there is one that does not answer, or there was one that had it open.
        """
        if node not in self._addresses() and self._where.get(slice_id) != node:
            return None
        try:
            return len(self._ask(node, lambda agent: agent.reading(slice_id)).pids)
        except UnknownSlice:
            return None

    def usage(self) -> tuple[UsageSample, ...]:
        """The newest sample of every open slice of the nodes that answer."""
        return tuple(chain.from_iterable(self._ask_all(lambda agent: agent.usage()).values()))

    def minutes(self, after_ms: int = -1) -> tuple[UsageMinute, ...]:
        """Finished minutes that start later than ``after_ms``, of the nodes that answer."""
        found = self._ask_all(lambda agent: agent.minutes(after_ms))
        return tuple(chain.from_iterable(found.values()))

    def audit(self, node: NodeId, after: int = 0) -> tuple[AuditEntry, ...]:
        """What one node's agent did to somebody's process since an entry of its record."""
        return self._ask(node, lambda agent: agent.audit(after))

    def slices(self) -> tuple[GpuSlice, ...]:
        """The open slices of the nodes that answer, with devices as the agents name them."""
        found = self._ask_all(lambda agent: agent.slices())
        for node, opened in found.items():
            for gpu_slice in opened:
                self._remember(gpu_slice.slice_id, node)
        return tuple(chain.from_iterable(found.values()))

    def reports(self) -> Mapping[NodeId, NodeReport]:
        """What each node offers and how it keeps slices apart; those that answer."""
        now_s = self._now_s()
        if self._reported_s is None or now_s - self._reported_s >= REPORTS_S:
            self._reports = self._ask_all(lambda agent: agent.devices())
            self._reported_s = now_s
        return self._reports

    def held(self) -> Mapping[NodeId, tuple[HeldDevices, ...]]:
        """What each kubelet gave to which pod; a node that does not answer is missing."""
        return self._ask_all(lambda agent: agent.held())

    def _placed(self, gpu_slice: GpuSlice) -> tuple[NodeId, GpuSlice]:
        """The slice as its node's agent names its devices."""
        devices = self._devices_of()
        shares = []
        for index, share in enumerate(gpu_slice.shares):
            if share.device_id not in devices and share.milli_gpu == WHOLE_MILLI_GPU:
                # The device plugin chooses it when the pod starts; the node's agent hears which.
                later = DeviceId(f"{CHOSEN_LATER}{index}")
                shares.append(replace(share, device_id=later))
                continue
            if share.device_id not in devices:
                message = (
                    f"Slot {share.device_id} is held by no pod yet, so it is not known which GPU it "
                    "is: try again when it is."
                )
                raise UnknownDevice(message)
            shares.append(replace(share, device_id=devices[share.device_id]))
        nodes = {node_of_slot(share.device_id) for share in gpu_slice.shares}
        if len(nodes) != 1:
            message = f"Slice {gpu_slice.slice_id} must lie on the devices of one node."
            raise UnknownDevice(message)
        return nodes.pop(), replace(gpu_slice, shares=tuple(shares))

    def _find(self, slice_id: SliceId) -> NodeId:
        """The node of a slice; after a restart every agent is asked for it."""
        known = self._node_of(slice_id) or self._where.get(slice_id)
        if known is not None:
            return known
        expected = set(self._addresses())
        answered = self._ask_all(lambda agent: agent.slices(), patient=True)
        for node, opened in answered.items():
            for gpu_slice in opened:
                self._remember(gpu_slice.slice_id, node)
        found = self._where.get(slice_id)
        if found is not None:
            return found
        self._refuse_missing(slice_id, expected - answered.keys())
        raise UnknownSlice(f"No node agent has slice {slice_id} open.")

    def _refuse_missing(self, slice_id: SliceId, missing: Collection[NodeId]) -> None:
        if missing:
            named = ", ".join(sorted(missing))
            message = f"Slice {slice_id} may be on {named}, whose agent does not answer."
            raise AgentUnavailable(message)

    def _close_on(self, node: NodeId, slice_id: SliceId) -> None:
        try:
            self._ask(node, lambda agent: agent.close_slice(slice_id))
        except AgentUnavailable:
            with self._lock:
                self._unclosed.setdefault(node, set()).add(slice_id)
            raise
        with self._lock:
            self._where.pop(slice_id, None)

    def _ask(
        self, node: NodeId, question: Callable[[AgentClient], T], *, patient: bool = False
    ) -> T:
        address = self._addresses().get(node)
        if address is None:
            message = f"Node {node} has no agent now; look at the agents' DaemonSet."
            raise AgentUnavailable(message)
        if not patient:
            self._refuse_silent(node, address)
        client = self._client(address)
        try:
            answer = question(client)
        except (KeyError, TypeError, ValueError) as error:
            # One agent of another version, or a node in wrong hands, must not blind us to all others.
            self._note_away(node)
            message = f"The agent of node {node} answers what cannot be read: {error!r}"
            raise AgentUnavailable(message) from error
        except AgentUnavailable:
            self._note_away(node)
            with self._lock:
                self._silent[node] = (address, self._now_s() + AWAY_S)
                # Perhaps its token changed: the next time it is read anew.
                self._clients.pop(address, None)
            raise
        self.heard.hear(node, address, client.notice, client.driver, client.unhealthy)
        self._note_memory(node, client)
        self._note_back(node)
        return answer

    def _refuse_silent(self, node: NodeId, address: str) -> None:
        """Hundreds of slices on one dead node must not wait for it one after the other.

        After a while one of them asks it again; until that is answered the others still do not. A new
        address is another pod: nothing is known of it.
        """
        with self._lock:
            silent, until_s = self._silent.get(node, ("", 0.0))
            if silent != address:
                return
            if self._now_s() >= until_s:
                self._silent[node] = (address, self._now_s() + AWAY_S)
                return
        message = (
            f"The agent of node {node} did not answer a moment ago; it is asked again within"
            f" {AWAY_S:.0f} s. Look at its pod and at the node."
        )
        raise AgentUnavailable(message)

    def _ask_all(
        self, question: Callable[[AgentClient], T], *, patient: bool = False
    ) -> Mapping[NodeId, T]:
        """Answers by node; who does not answer is left out, and for a while not asked again."""
        now_s = self._now_s()
        nodes = [
            node
            for node in sorted(self._addresses())
            if patient or now_s - self._away.get(node, -AWAY_S) >= AWAY_S
        ]

        def ask(node: NodeId) -> tuple[NodeId, T] | None:
            try:
                return node, self._ask(node, question, patient=patient)
            except GpuError as error:
                log.debug("node %s: %s", node, error)
                return None

        return dict(one for one in self._pool.map(ask, nodes) if one is not None)

    def _client(self, address: str) -> AgentClient:
        nodes = len(self._addresses())  # not under the lock: the executor takes its own for this
        with self._lock:
            if address not in self._clients:
                # Agents' pods come and go; clients hold nothing open.
                if len(self._clients) > nodes * 2:
                    self._clients.clear()
                self._clients[address] = self._connect(address)
            return self._clients[address]

    def _remember(self, slice_id: SliceId, node: NodeId) -> None:
        with self._lock:
            self._where[slice_id] = node
            self._unclosed.get(node, set()).discard(slice_id)

    def _note_memory(self, node: NodeId, client: AgentClient) -> None:
        with self._lock:
            before = self._memories.get(node)
            if client.memory is not None:
                self._memories[node] = client.memory
        if before is not None and before != client.memory:
            log.warning("the agent of node %s lost what it knew: slices are opened again", node)

    def _note_away(self, node: NodeId) -> None:
        self.heard.forget(node)
        with self._lock:
            before = self._away.get(node)
            self._away[node] = self._now_s()
        if before is None:
            log.warning("the agent of node %s does not answer: what runs there is unknown", node)

    def _note_back(self, node: NodeId) -> None:
        with self._lock:
            was_away = self._away.pop(node, None) is not None
            self._silent.pop(node, None)
            unclosed = self._unclosed.pop(node, set())
        if was_away:
            log.info("the agent of node %s answers again", node)
        for slice_id in sorted(unclosed):
            try:
                self._close_on(node, slice_id)
            except GpuError as error:
                log.warning("slice %s stays open on %s: %s", slice_id, node, error)
