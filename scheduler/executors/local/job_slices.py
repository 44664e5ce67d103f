"""The slices of jobs on one machine, at its agent: limits first, then processes, then an empty reading.

An agent may lose what it knew. Its slices are then opened again as such that are used, so that it takes
care not to call them empty; their limits lie in files and control groups, which stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.errors import AgentUnavailable, GpuError, LimitNotInForce, UnknownSlice
from gpucommons.gpu.providers.base import Injection
from gpucommons.gpu.slices.slices import GpuSlice, MpsDaemon, SliceId
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, PoolName
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.executors.local.launch_plan import slice_of

_LOG = logging.getLogger("gpucommons.scheduler.executors.local.local")


class JobSlices:
    """What the executor asks of the agent; ``agent`` is None where there is none."""

    def __init__(
        self,
        agent: AgentClient | None,
        *,
        nodes: Callable[[], tuple[Node, ...]],
        mps_of: Callable[[PoolName], MpsDaemon | None],
    ) -> None:
        self._agent = agent
        self._nodes = nodes
        self._mps_of = mps_of
        self._bound: set[AttemptId] = set()
        #: Of attempts that are over, which could not be closed yet.
        self._unclosed: set[SliceId] = set()
        #: Of the agent, when the processes were bound.
        self._memory: str | None = None

    def prepare(self, attempt: Attempt, uid: int | None) -> Mapping[SliceId, Injection]:
        """Have every slice's limit put in force; one that is not starts nothing.

        Raises
        ------
        BadRequest
            When a limit cannot be verified, which another try would not change.
        """
        if self._agent is None:
            return {}
        self._close_what_is_over(self._agent)
        prepared: dict[SliceId, Injection] = {}
        for gpu_slice in self._slices(attempt):
            try:
                made = self._agent.prepare(gpu_slice, uid=uid)
            except LimitNotInForce as error:
                message = f"The limit of its GPU slice is not in force: nothing started. {error}"
                raise BadRequest(message) from error
            prepared[gpu_slice.slice_id] = made.injection
        return prepared

    def bind(self, attempt: Attempt, pids: Mapping[str, int]) -> None:
        """Tell the agent, once, which process tree each slice belongs to."""
        if self._agent is None:
            return
        if self._agent.memory != self._memory:
            # Another agent, or one that lost what it was told.
            self._bound.clear()
            self._memory = self._agent.memory
        if attempt.attempt_id in self._bound:
            return
        try:
            for rank, placement in enumerate(attempt.placements):
                if placement.slice_id is not None and str(rank) in pids:
                    self._bind(self._agent, attempt, placement.slice_id, pids[str(rank)])
        except AgentUnavailable as error:
            _LOG.warning("attempt %s: %s", attempt.attempt_id, error)
            return
        except GpuError as error:
            # Such a short life that the worker is gone already: nothing to attribute.
            _LOG.info("attempt %s: %s", attempt.attempt_id, error)
        self._bound.add(attempt.attempt_id)

    def are_empty(self, attempt: Attempt, *, were_used: bool) -> bool:
        """Whether a reading, asked for now, shows no process on any of the slices."""
        if self._agent is None:
            return True
        try:
            for placement in attempt.placements:
                if placement.slice_id is None:
                    continue
                if not self._is_empty(self._agent, attempt, placement.slice_id, were_used):
                    return False
        except GpuError as error:
            _LOG.warning("attempt %s has ended, but: %s", attempt.attempt_id, error)
            return False
        return True

    def close(self, attempt_id: AttemptId, attempt: Attempt | None) -> None:
        """Forget an attempt, and what it had open."""
        self._bound.discard(attempt_id)
        if attempt is None or self._agent is None:
            return
        self._unclosed |= {p.slice_id for p in attempt.placements if p.slice_id is not None}
        self._close_what_is_over(self._agent)

    def _close_what_is_over(self, agent: AgentClient) -> None:
        for slice_id in sorted(self._unclosed):
            try:
                agent.close_slice(slice_id)
            except GpuError as error:
                _LOG.warning("slice %s stays open for now: %s", slice_id, error)
            else:
                self._unclosed.discard(slice_id)

    def _bind(self, agent: AgentClient, attempt: Attempt, slice_id: SliceId, pid: int) -> None:
        try:
            agent.bind(slice_id, pid)
        except UnknownSlice:
            self._open_again(agent, attempt, slice_id)
            agent.bind(slice_id, pid)

    def _is_empty(
        self, agent: AgentClient, attempt: Attempt, slice_id: SliceId, were_used: bool
    ) -> bool:
        try:
            return not agent.reading(slice_id).pids
        except UnknownSlice:
            if not were_used:
                return True
            self._open_again(agent, attempt, slice_id)
            return not agent.reading(slice_id).pids

    def _open_again(self, agent: AgentClient, attempt: Attempt, slice_id: SliceId) -> None:
        _LOG.warning("the agent knows nothing of slice %s, which was used", slice_id)
        for gpu_slice in self._slices(attempt):
            if gpu_slice.slice_id == slice_id:
                agent.open(gpu_slice, used=True)

    def _slices(self, attempt: Attempt) -> list[GpuSlice]:
        nodes = {node.node_id: node for node in self._nodes()}
        devices: dict[str, Device] = {d.device_id: d for n in nodes.values() for d in n.all_devices}
        found = []
        for placement in attempt.placements:
            node = nodes.get(placement.node_id)
            mps = None if node is None else self._mps_of(node.pool)
            gpu_slice = slice_of(placement, devices, mps)
            if gpu_slice is not None:
                found.append(gpu_slice)
        return found
