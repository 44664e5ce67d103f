"""Slices of jobs' pods at their nodes' agents: opened before their pods ask for them.

Which card a pod shares is known beforehand, from its reservation; a whole card is chosen by the device
plugin, and its agent finds out which. Until its slice is in force the agent does not let a pod's volume
be mounted, so nothing runs without its limit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Protocol

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.gpu.errors import GpuError
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId
from gpucommons.scheduler.cluster.cluster_agents import node_of_slot
from gpucommons.scheduler.core.model.holds import slice_memory_mib
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import NodeId
from gpucommons.scheduler.loop.acting import current_attempts

log = logging.getLogger("gpucommons.scheduler.cluster.cluster_slices")

_EVERY_S = 1.0


class Agents(Protocol):
    """Of :class:`~gpucommons.scheduler.cluster.cluster_agents.ClusterAgents`, what is asked here."""

    def prepare(self, gpu_slice: GpuSlice) -> object:
        """Put a slice's limit in force; repeating it is harmless."""
        ...

    def close_slice(self, slice_id: SliceId) -> None:
        """Stop watching a slice."""
        ...

    def memories(self) -> Mapping[NodeId, str]:
        """What the agent of each node calls its memory."""
        ...


class ClusterSlices:
    """Keeps the agents in step with the jobs; notebooks' slices are kept by the service."""

    def __init__(
        self,
        cards: Callable[[], Mapping[DeviceId, DeviceId]],
        cluster: Callable[[], Cluster],
        *,
        leading: Callable[[], bool] = lambda: True,
        is_ours: Callable[[NodeId], bool] = lambda _node: True,
    ) -> None:
        """``cards`` are the UUIDs of slots that reservations hold.

        ``is_ours`` tells nodes whose slices the agents make from those of another system.
        """
        self._is_ours = is_ours
        self._leading = leading
        self._cards = cards
        self._cluster = cluster
        self._prepared: set[SliceId] = set()
        #: Of the agents, when their slices were prepared.
        self._memories: Mapping[NodeId, str] = {}
        self._said: dict[SliceId, str] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, agents: Agents) -> None:
        """Keep in step from now on, in a thread."""
        run = threading.Thread(target=self._run, args=(agents,), name="slices", daemon=True)
        self._thread = run
        run.start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(5)

    def _run(self, agents: Agents) -> None:
        while not self._closed.wait(_EVERY_S):
            if not self._leading():
                # Another replica does it; what it prepares meanwhile is prepared again.
                self._prepared.clear()
                continue
            try:
                self.step(agents)
            except Exception:
                log.exception("this look at the slices failed; the next one tries again")

    def step(self, agents: Agents) -> None:
        """Open what can be opened, close what nobody holds."""
        cards = self._cards()
        held = {
            one.slice_id: one
            for one in job_slices(self._cluster())
            if all(self._is_ours(node_of_slot(share.device_id)) for share in one.shares)
        }
        self._prepared -= self._lost(agents, held)
        for slice_id, gpu_slice in held.items():
            if slice_id not in self._prepared and _can_open(gpu_slice, cards):
                self._prepare(agents, gpu_slice)
        for slice_id in self._prepared - held.keys():
            self._close(agents, slice_id)

    def _lost(self, agents: Agents, held: Mapping[SliceId, GpuSlice]) -> set[SliceId]:
        """Slices on nodes whose agent has another memory than before."""
        before, self._memories = self._memories, agents.memories()
        nodes = {one for one, known in before.items() if self._memories.get(one, known) != known}
        return {
            slice_id
            for slice_id, gpu_slice in held.items()
            if any(node_of_slot(share.device_id) in nodes for share in gpu_slice.shares)
        }

    def _prepare(self, agents: Agents, gpu_slice: GpuSlice) -> None:
        try:
            agents.prepare(gpu_slice)
        except GpuError as error:
            if self._said.get(gpu_slice.slice_id) != str(error):
                self._said[gpu_slice.slice_id] = str(error)
                log.warning("slice %s is not in force yet: %s", gpu_slice.slice_id, error)
            return
        self._said.pop(gpu_slice.slice_id, None)
        self._prepared.add(gpu_slice.slice_id)

    def _close(self, agents: Agents, slice_id: SliceId) -> None:
        try:
            agents.close_slice(slice_id)
        except GpuError as error:
            log.warning("slice %s stays open: %s", slice_id, error)
            return
        self._prepared.discard(slice_id)


def _can_open(gpu_slice: GpuSlice, cards: Container[DeviceId]) -> bool:
    """A share of a card whose reservation is not there yet would be refused."""
    return all(
        share.milli_gpu >= WHOLE_MILLI_GPU or share.device_id in cards for share in gpu_slice.shares
    )


def job_slices(cluster: Cluster) -> Iterator[GpuSlice]:
    """The slices of all jobs' workers, on slots."""
    for workload, attempt in current_attempts(cluster).values():
        if is_lease(workload):
            continue
        for placement in attempt.placements:
            node = cluster.nodes.get(placement.node_id)
            if node is None or placement.slice_id is None or not placement.device_ids:
                continue
            devices = [one for one in node.all_devices if one.device_id in placement.device_ids]
            yield GpuSlice(
                slice_id=placement.slice_id,
                shares=tuple(
                    DeviceShare(device_id=slot, milli_gpu=placement.milli_gpu)
                    for slot in placement.device_ids
                ),
                memory_mib=slice_memory_mib(placement, devices),
            )
