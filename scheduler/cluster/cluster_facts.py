"""What the agents of a cluster say of their nodes, brought into the scheduler's own books.

How a pool keeps slices apart is what its nodes enforce, the weakest of them, never what somebody
wrote. A node that does not answer changes nothing: no slice starts there either.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gpucommons.gpu.client.agent_client import NodeReport
from gpucommons.gpu.errors import GpuError
from gpucommons.gpu.slices.usage import ISOLATION_MODES, AuditEntry
from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR, ask_facts
from gpucommons.scheduler.core.model.intents import NoteAgent, PoolFacts
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, NodeId
from gpucommons.scheduler.service.service import Service

log = logging.getLogger("gpucommons.scheduler.cluster.cluster_facts")


class Agents(Protocol):
    """Of :class:`~gpucommons.scheduler.cluster.cluster_agents.ClusterAgents`, what is asked here."""

    def reports(self) -> Mapping[NodeId, NodeReport]:
        """What each node offers; those that answer."""
        ...

    def audit(self, node: NodeId, after: int = 0) -> Sequence[AuditEntry]:
        """What one node's agent did to somebody's process."""
        ...


class NoAgents:
    """A cluster without agents of ours."""

    def reports(self) -> Mapping[NodeId, NodeReport]:
        """See :class:`Agents`."""
        return {}

    def audit(self, node: NodeId, after: int = 0) -> Sequence[AuditEntry]:
        """See :class:`Agents`."""
        del node, after
        return ()


class ClusterFacts:
    """One pass after the other, from the thread of the housekeeping.

    ``another`` says how another system keeps a pool's slices apart; None where our agents make them.
    """

    def __init__(
        self,
        service: Service,
        agents: Agents,
        *,
        another: Callable[[Pool], str | None] = lambda _pool: None,
    ) -> None:
        self._service = service
        self._agents = agents
        self._another = another
        #: The last entry of each node's record that is in our log.
        self._noted: dict[NodeId, int] = {}

    def step(self) -> None:
        """One pass."""
        reports = self._agents.reports()
        self._note_facts(reports)
        for node in reports:
            self._note_record(node)

    def _note_facts(self, reports: Mapping[NodeId, NodeReport]) -> None:
        cluster = self._service.loop.cluster
        said = {
            pool.name: self._facts_of(pool, cluster, reports)
            for pool in cluster.pools.values()
            if pool.executor == "kubernetes"
        }
        ask_facts(self._service, said)

    def _facts_of(
        self, pool: Pool, cluster: Cluster, reports: Mapping[NodeId, NodeReport]
    ) -> PoolFacts | None:
        isolation = self._another(pool)
        if isolation is not None:
            return PoolFacts(isolation=isolation, simulated=pool.simulated)
        return facts_of(pool, cluster, reports)

    def _note_record(self, node: NodeId) -> None:
        try:
            entries = self._agents.audit(node, self._noted.get(node, 0))
        except GpuError:
            return  # it answers again later, and nothing is lost until then
        for entry in entries:
            action = NoteAgent(
                node=node,
                at_ms=Millis(entry.at_ms),
                kind=entry.event,
                text=entry.text,
                slice_id=entry.slice_id,
                data={**entry.fields, "number": entry.number},
            )
            # After a restart everything is asked for again; what is known is known by its key.
            self._service.ask(OPERATOR, action, key=f"agent-{entry.key}")
            self._noted[node] = entry.number


def facts_of(
    pool: Pool, cluster: Cluster, reports: Mapping[NodeId, NodeReport]
) -> PoolFacts | None:
    """What a pool's nodes keep; None where none of them answers."""
    names = {node.node_id for node in cluster.nodes.values() if node.pool == pool.name}
    heard = [report for name, report in reports.items() if name in names and report.devices]
    if not heard:
        return None
    modes = [
        report.isolations.get(device.device_id, report.isolation)
        for report in heard
        for device in report.devices
    ]
    return PoolFacts(
        isolation=max(modes, key=ISOLATION_MODES.index),
        simulated=all(device.simulated for report in heard for device in report.devices),
    )
