"""The slices of notebooks at the node agent: opened when granted, bound to the server's processes,
closed when those are gone.

Jobs' slices belong to their executor. For notebooks nobody else watches: the hub starts and stops
their servers, and a device is handed on only after a reading shows no process of the slice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from gpucommons.gpu.client.agent_client import SliceReading
from gpucommons.gpu.errors import GpuError, UnknownSlice
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId
from gpucommons.gpu.slices.usage import UsageSample
from gpucommons.scheduler import models
from gpucommons.scheduler.core.events.leases import SERVER_GONE
from gpucommons.scheduler.core.model.holds import slice_memory_mib
from gpucommons.scheduler.core.model.state import AttemptEnded, Cluster, Observation, SliceCleared
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptState,
    Kind,
    NodeId,
    State,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.executors.base import Bound
from gpucommons.scheduler.service.views.where_it_runs import runs_away

log = logging.getLogger("gpucommons.scheduler.slices")


class Agent(Protocol):
    """The node agent, as :class:`gpucommons.gpu.client.agent_client.AgentClient` speaks to it."""

    def open(self, gpu_slice: GpuSlice, *, used: bool = False) -> object:
        """Begin to watch a slice, perhaps one that was used before; repeating it is harmless."""
        ...

    def bind(self, slice_id: SliceId, pid: int) -> object:
        """Make a process and its descendants part of the slice."""
        ...

    def resize(self, slice_id: SliceId, memory_mib: int) -> None:
        """Change the memory limit of a slice in use; raises ``CannotShrink`` when more is in use."""
        ...

    def close_slice(self, slice_id: SliceId) -> None:
        """Stop watching a slice."""
        ...

    def reading(self, slice_id: SliceId) -> SliceReading:
        """Look at one slice now."""
        ...

    def park(self, slice_id: SliceId) -> tuple[int, ...]:
        """Let nothing of a slice use its devices until it is opened again; answers who still does."""
        ...

    def usage(self) -> tuple[UsageSample, ...]:
        """The newest sample of every open slice."""
        ...

    def slices(self) -> tuple[GpuSlice, ...]:
        """The open slices."""
        ...

    def memories(self) -> Mapping[NodeId, str]:
        """What the agent of each node calls its memory; another one: it lost what it knew."""
        ...


class Slices:
    """Keeps the agent's slices in step with the leases. ``agent`` is None where there is none."""

    def __init__(
        self,
        agent: Agent | None,
        *,
        cluster: Callable[[], Cluster],
        observe: Callable[[Observation], None],
        bound_to: Callable[[WorkerPlacement], Bound | None] = lambda _placement: None,
        has_pod: Callable[[SliceId], bool] = lambda _slice_id: False,
    ) -> None:
        self._agent = agent
        self._has_pod = has_pod
        self._bound_to = bound_to
        self._cluster = cluster
        self._observe = observe
        #: Open at the agent and ours to close; None until the agent was asked what it has open.
        self._opened: set[SliceId] | None = None
        #: Of these, which could not be closed yet.
        self._unclosed: set[SliceId] = set()
        #: Of the agents, at the last look.
        self._memories: Mapping[NodeId, str] = {}
        #: Memory limit that the agent has, as far as we know.
        self._limits: dict[SliceId, int] = {}

    def with_cards(self, view: models.LeaseView, workload: Workload) -> models.LeaseView:
        """The view of a lease with the cards that its slots are, where a cluster knows them."""
        attempt = workload.current
        if view.slice is None or attempt is None:
            return view
        bound = self._bound_to(attempt.placements[0])
        if bound is None:
            return view
        cards: dict[str, object] = {
            "visible_devices": list(bound.visible_devices),
            "plugin_devices": bound.plugin_devices,
            "can_hibernate": bound.can_hibernate and self._allows_hibernation(workload),
        }
        if bound.provider:
            cards |= {"provider": bound.provider, "isolation": bound.isolation}
        return view.model_copy(update={"slice": view.slice.model_copy(update=cards)})

    def _allows_hibernation(self, workload: Workload) -> bool:
        pool = self._cluster().pools.get(workload.spec.pools[0])
        return pool is not None and "hibernate" in pool.on_idle

    def open(self, workload: Workload) -> None:
        """Open a granted slice, so that its server finds the socket."""
        gpu_slice = slice_of(workload, self._cluster())
        if self._agent is None or gpu_slice is None or self.is_anothers(workload):
            return
        try:
            # An agent that lost what it knew must not take what runs there for nothing.
            self._agent.open(gpu_slice, used=_was_used(workload))
            self._ours().add(gpu_slice.slice_id)
            known = self._limits.setdefault(gpu_slice.slice_id, gpu_slice.memory_mib)
            if known != gpu_slice.memory_mib:
                self.resize(gpu_slice.slice_id, gpu_slice.memory_mib)
        except GpuError as error:
            # The notebook works without its usage being watched; step() tries again.
            log.warning("slice %s is not as it should be yet: %s", gpu_slice.slice_id, error)

    def resize(self, slice_id: SliceId, memory_mib: int) -> None:
        """Have a slice's memory limit changed at once.

        Raises
        ------
        GpuError
            When the agent refuses, or is away.
        """
        if self._agent is not None:
            self._agent.resize(slice_id, memory_mib)
            self._limits[slice_id] = memory_mib

    def bind(self, workload: Workload, pid: int) -> None:
        """Count the server's processes to its slice."""
        attempt = workload.current
        if self._agent is None or attempt is None:
            return
        for slice_id in slice_ids(attempt):
            try:
                self._agent.bind(slice_id, pid)
            except GpuError as error:
                log.warning("process %d is not counted to slice %s: %s", pid, slice_id, error)

    def usage(self) -> tuple[UsageSample, ...]:
        """The newest samples; none while the agent is away."""
        if self._agent is None:
            return ()
        try:
            return self._agent.usage()
        except GpuError as error:
            log.warning("no usage: %s", error)
            return ()

    def end_if_empty(self, workload: Workload) -> None:
        """Report the end of a lease whose server is down, once nothing runs in its slice.

        An agent that is away proves nothing: the device stays held until it is back.
        """
        attempt = workload.current
        if attempt is None or attempt.stop is None or attempt.stop.why not in SERVER_GONE:
            return
        if self.is_empty(workload):
            self._observe(AttemptEnded(attempt_id=attempt.attempt_id, exit_code=None))

    def clear_if_parked(self, workload: Workload) -> None:
        """Report that the devices are free of a notebook that says that it is parked, once they are.

        An agent that is away proves nothing: they stay held until it is back.
        """
        attempt = workload.current
        said = workload.state is State.PARKING and workload.parked is not None
        if not said or attempt is None or attempt.stop is not None:
            return
        try:
            clear = self._agent is None or not any(
                self._agent.park(one) for one in slice_ids(attempt)
            )
        except GpuError as error:
            log.warning("cannot tell whether %s is clear: %s", attempt.attempt_id, error)
            return
        if clear:
            self._observe(SliceCleared(attempt_id=attempt.attempt_id))

    def is_empty(self, workload: Workload) -> bool:
        """Whether its pod is gone, and a reading asked for now shows no process.

        On one machine there are no pods, and without an agent there is no process to see; nor is there
        in a slice that another system of the cluster makes, whose devices no agent knows. A slice of
        which the agent knows nothing is empty where no server was ever seen in it. Else the agent lost
        it: it is opened again, and what the agent finds out then counts.
        """
        attempt = workload.current
        if attempt is not None and any(map(self._has_pod, slice_ids(attempt))):
            return False
        if self._agent is None or attempt is None or self.is_anothers(workload):
            return not _parked_slices(workload) or self._are_empty(_parked_slices(workload))
        try:
            return not any(self._agent.reading(one).pids for one in slice_ids(attempt))
        except UnknownSlice:
            if not _was_used(workload):
                return True
            log.warning("the agent knows nothing of %s, which was used", attempt.attempt_id)
            self.open(workload)
            return False
        except GpuError as error:
            log.warning("cannot tell whether %s is empty: %s", attempt.attempt_id, error)
            return False

    def _are_empty(self, parked: frozenset[SliceId]) -> bool:
        """Whether nothing lives of what was parked; an agent that does not say so proves nothing."""
        try:
            return self._agent is not None and not any(
                self._agent.reading(one).pids for one in parked
            )
        except GpuError:
            return False

    def why_not_parked(self, workload: Workload) -> str:
        """Why its devices would stay its own while its server lives, as a sentence; empty = others can have them."""
        attempt = workload.current
        if attempt is None or not runs_away(self._cluster(), workload):
            return ""
        if self._agent is None:
            return (
                "No node agent runs in this cluster, so nobody could see whether its GPU is free."
            )
        bound = self._bound_to(attempt.placements[0])
        if bound is None:
            return "It is not certain now which GPU it has: try again in a minute."
        return bound.not_parked

    def is_anothers(self, workload: Workload) -> bool:
        """Whether another system of the cluster makes the slice."""
        attempt = workload.current
        bound = None if attempt is None else self._bound_to(attempt.placements[0])
        return bound is not None and bool(bound.provider)

    def step(self) -> None:
        """Open what should be open, end what is over and seen empty, close what nobody holds."""
        self._notice_loss()
        for workload, attempt in _held_by_notebooks(self._cluster()):
            if attempt.state is AttemptState.STOPPING:
                self.end_if_empty(workload)
            elif workload.state is State.PARKING and workload.parked is not None:
                self.clear_if_parked(workload)
            else:
                self.open(workload)
        # In this order: what was granted and opened meanwhile, while agents were asked, is held.
        opened = frozenset(self._ours())
        held = {one for _, a in _held_by_notebooks(self._cluster()) for one in slice_ids(a)}
        held |= {one for w in self._cluster().workloads.values() for one in _parked_slices(w)}
        for slice_id in opened - held:
            self._close(slice_id)
        self._limits = {one: mib for one, mib in self._limits.items() if one in held}

    def _notice_loss(self) -> None:
        """An agent that lost what it knew has found other slices again than we remember."""
        if self._agent is None:
            return
        before, self._memories = self._memories, self._agent.memories()
        if any(self._memories.get(node, known) != known for node, known in before.items()):
            self.forget()

    def forget(self) -> None:
        """Ask the agent anew what it has open."""
        self._opened = None

    def _ours(self) -> set[SliceId]:
        """What this opened; after a restart also what was left open of leases that are over."""
        if self._opened is None and self._agent is not None:
            try:
                open_now = self._agent.slices()
            except GpuError:
                return set()
            found = {one.slice_id for one in open_now}
            self._limits |= {one.slice_id: one.memory_mib for one in open_now}
            self._opened = found - _held_by_anybody(self._cluster())
        elif self._opened is None:
            self._opened = set()
        return self._opened

    def _close(self, slice_id: SliceId) -> None:
        if self._agent is None:
            return
        try:
            self._agent.close_slice(slice_id)
        except GpuError as error:
            if slice_id not in self._unclosed:
                log.warning("slice %s stays open at the agent for now: %s", slice_id, error)
            self._unclosed.add(slice_id)
        else:
            self._unclosed.discard(slice_id)
            self._ours().discard(slice_id)


def _held_by_notebooks(cluster: Cluster) -> Iterator[tuple[Workload, Attempt]]:
    for workload in cluster.workloads.values():
        attempt = workload.current
        if workload.spec.kind is Kind.NOTEBOOK and attempt is not None:
            yield workload, attempt


def _parked_slices(workload: Workload) -> frozenset[SliceId]:
    """What a parked notebook's server lives in though it holds no device."""
    parked = workload.parked
    if parked is None or workload.current is not None:
        return frozenset()
    return frozenset() if parked.place.slice_id is None else frozenset({parked.place.slice_id})


def _held_by_anybody(cluster: Cluster) -> set[SliceId]:
    attempts = (workload.current for workload in cluster.workloads.values())
    return {one for attempt in attempts if attempt is not None for one in slice_ids(attempt)}


def slice_ids(attempt: Attempt) -> tuple[SliceId, ...]:
    """The slices of an attempt."""
    return tuple(p.slice_id for p in attempt.placements if p.slice_id is not None)


def _was_used(workload: Workload) -> bool:
    """Whether a server may have run in the slice."""
    attempt = workload.current
    return attempt is not None and attempt.started_ms is not None


def slice_of(workload: Workload, cluster: Cluster) -> GpuSlice | None:
    """The slice that a lease holds, in the agent's words."""
    attempt = workload.current
    if attempt is None or not attempt.placements:
        return None
    placement = attempt.placements[0]
    node = cluster.nodes.get(placement.node_id)
    if node is None or placement.slice_id is None or not placement.device_ids:
        return None
    devices = [one for one in node.all_devices if one.device_id in placement.device_ids]
    pool = cluster.pools.get(node.pool)
    return GpuSlice(
        slice_id=placement.slice_id,
        shares=tuple(
            DeviceShare(device_id=device.device_id, milli_gpu=placement.milli_gpu)
            for device in devices
        ),
        memory_mib=slice_memory_mib(placement, devices),
        mps=None if pool is None else pool.mps,
    )
