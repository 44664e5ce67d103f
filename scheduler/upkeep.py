"""What the service does every few seconds besides answering: readings, slices, pools' facts.

Also the configuration file of a first start, which has to wait until the node agent has said which
GPUs there are: quotas that cannot be laid out are refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from gpucommons.gpu.agent_client import NodeReport
from gpucommons.gpu.errors import GpuError
from gpucommons.gpu.usage import ISOLATION_MODES
from gpucommons.scheduler import models
from gpucommons.scheduler.core.resources import Pool
from gpucommons.scheduler.core.state import Cluster, PutPools
from gpucommons.scheduler.core.types import Kind, UserName, WorkloadId
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.service import settings
from gpucommons.scheduler.service.principal import Principal, PrincipalKind, read_rights
from gpucommons.scheduler.service.service import Pending, Service
from gpucommons.scheduler.service.slices import slice_ids

log = logging.getLogger("gpucommons.scheduler.upkeep")

#: Who changed something that nobody asked for.
OPERATOR = Principal(
    name=UserName("scheduler"),
    kind=PrincipalKind.LOCAL,
    admin=True,
    rights=read_rights(["custom:gpucommons:admin"]),
)


class Upkeep:
    """One pass after the other, from one thread."""

    def __init__(
        self,
        service: Service,
        *,
        report: Callable[[], NodeReport] | None,
        first_config: models.ConfigModel | None,
    ) -> None:
        self._service = service
        self._report = report
        self._first_config = first_config
        self._pending: Pending[models.TeamList] | None = None
        self._refusal = ""

    @property
    def configured(self) -> bool:
        """Whether the configuration of a first start is in force, or none was needed."""
        return self._first_config is None

    def step(self) -> None:
        """One pass."""
        self._configure()
        self._service.slices.step()
        self._service.activity.read(self._service.slices.usage())
        self._forget()
        self._note_facts()

    def _configure(self) -> None:
        """Apply the first configuration as soon as its quotas can be laid out."""
        if self._first_config is None or not self._service.loop.cluster.nodes:
            return
        if self._service.loop.cluster.teams and self._pending is None:
            self._first_config = None  # configured by an earlier start: admins have the word
            return
        try:
            if self._pending is None:
                config = self._first_config
                self._pending = settings.put_config(self._service, OPERATOR, config)
            if self._pending.probe() is not None:
                self._first_config = None
                log.info("the configuration of the first start is in force")
        except SchedulerError as error:
            self._pending = None
            if str(error) != self._refusal:
                self._refusal = str(error)
                log.warning("the configuration is not in force yet: %s", error)

    def _forget(self) -> None:
        held = [
            workload
            for workload in self._service.loop.cluster.workloads.values()
            if workload.spec.kind is Kind.NOTEBOOK and workload.current is not None
        ]
        self._service.activity.forget_all_but(
            frozenset(WorkloadId(workload.workload_id) for workload in held),
            frozenset(
                one for workload in held if workload.current for one in slice_ids(workload.current)
            ),
        )

    def _note_facts(self) -> None:
        """Isolation and simulation are what the agent says, never what somebody wrote."""
        if self._report is None:
            return
        try:
            report = self._report()
        except GpuError:
            return  # the executor complains already
        cluster = self._service.loop.cluster
        known = (_with_facts(pool, cluster, report) for pool in cluster.pools.values())
        changed = tuple(pool for pool in known if pool != cluster.pools[pool.name])
        if changed:
            self._service.ask(OPERATOR, PutPools(pools=changed))


def _with_facts(pool: Pool, cluster: Cluster, report: NodeReport) -> Pool:
    devices = [d for n in cluster.nodes.values() if n.pool == pool.name for d in n.devices]
    if pool.executor != "local" or not devices:
        return pool
    # A pool promises what each of its devices keeps.
    modes = [report.isolations.get(device.device_id, report.isolation) for device in devices]
    return replace(
        pool,
        isolation=max(modes, key=ISOLATION_MODES.index),
        simulated=all(device.simulated for device in devices),
    )
