"""What the service does every few seconds besides answering: readings, slices, pools' facts.

Also the configuration file of a first start, which has to wait until the node agent has said which
GPUs there are: quotas that cannot be laid out are refused.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpucommons.gpu.client.agent_client import NodeReport
from gpucommons.gpu.errors import GpuError
from gpucommons.gpu.slices.usage import ISOLATION_MODES, AuditEntry
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.intents import NoteAgent, NoteFacts, PoolFacts
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import Cluster, Event
from gpucommons.scheduler.core.model.types import (
    Kind,
    Millis,
    PoolName,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.models.history import (
    CONFIGURATION_IN_FORCE,
    CONFIGURATION_WAITS,
    NODES_MAY_HELP,
)
from gpucommons.scheduler.principal import Principal, PrincipalKind, read_rights
from gpucommons.scheduler.service.administration import settings
from gpucommons.scheduler.service.in_memory.slices import slice_ids
from gpucommons.scheduler.service.jobs.profiles import drop_without_team
from gpucommons.scheduler.service.service import Pending, Service

log = logging.getLogger("gpucommons.scheduler.background_tasks.housekeeping")

#: Kinds of the entries in an agent's record.
AGENT_EVENTS = frozenset(
    {"memory-warn", "memory-terminate", "memory-kill", "memory-clear", "limit-refused"}
)
#: Who changed something that nobody asked for.
OPERATOR = Principal(
    name=UserName("scheduler"),
    kind=PrincipalKind.LOCAL,
    admin=True,
    rights=read_rights(["custom:gpucommons:admin"]),
    is_part=True,
)
#: Who wrote the settings of the first start, as the list of changes names it.
FIRST_START = replace(OPERATOR, name=UserName("first configuration"))
#: Nobody is kept waiting any longer for nodes that may never come.
PATIENCE_S = 30.0
_NO_NODE = (
    "No node is there yet. On Kubernetes a node of a pool has the label gpucommons.io/pool=POOL, or those"
    " that jobs.pools of the chart names."
)


class Housekeeping:
    """One pass after the other, from one thread."""

    def __init__(  # noqa: PLR0913 - each is another part's
        self,
        service: Service,
        *,
        report: Callable[[], NodeReport] | None,
        first_config: models.ConfigModel | None,
        record: Callable[[int], Sequence[AuditEntry]] | None = None,
        also: Callable[[], None] = lambda: None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._report = report
        self._record = record
        #: What another executor has to do besides.
        self._also = also
        #: Number of the last entry of the agent's record that was asked for; None = not known yet.
        self._noted: int | None = None
        self._first_config = first_config
        self._pending: Pending[models.TeamList] | None = None
        #: Why it was refused last, and whether nodes may mend it; None: nothing was refused.
        self._refusal: tuple[str, bool] | None = None
        self._now_s = now_s
        self._patient_until_s = now_s() + PATIENCE_S
        self._node: str | None = None
        #: Those that there were when profiles were looked at last.
        self._teams: frozenset[TeamName] = frozenset()

    @property
    def configured(self) -> bool:
        """Whether the configuration of a first start is in force, or none was needed."""
        return self._first_config is None

    @property
    def ready(self) -> bool:
        """Whether who asks now finds teams; where these cannot be, admins find out why."""
        first, cluster = self._first_config, self._service.loop.cluster
        if first is None or cluster.teams:
            return True
        refused_for_good = self._refusal is not None and not lacks_nodes(first, cluster)
        return refused_for_good or self._now_s() >= self._patient_until_s

    def step(self) -> None:
        """One pass."""
        self._configure()
        self._service.slices.step()
        self._service.activity.read(self._service.slices.usage())
        self._forget()
        self._drop_profiles()
        self._note_facts()
        self._note_record()
        self._also()

    def pause(self) -> None:
        """Another replica does it: what was known of the agents is old when this one goes on."""
        self._pending = None
        self._service.slices.forget()

    def _configure(self) -> None:
        """Apply the first configuration as soon as its quotas can be laid out."""
        if self._first_config is None:
            return
        config, cluster = self._first_config, self._service.loop.cluster
        if cluster.teams and self._pending is None:
            # Configured by an earlier start, or by hand meanwhile: admins have the word.
            self._first_config = None
            self._note_in_force("Teams are there: the configuration of the first start is over.")
            return
        grows = any(pool.growth is not None for pool in config.pools)
        if not cluster.nodes and not grows:
            # And where some pool grows, nodes come only once it is known.
            if self._now_s() >= self._patient_until_s:
                self._refused(config, _NO_NODE)
            return
        try:
            if self._pending is None:
                self._pending = settings.put_config(self._service, FIRST_START, config)
            if self._pending.probe() is not None:
                self._first_config = None
                log.info("the configuration of the first start is in force")
                self._note_in_force("The configuration is in force.")
        except SchedulerError as error:
            self._pending = None
            self._refused(config, str(error))

    def _refused(self, config: models.ConfigModel, why: str) -> None:
        """Say it to admins, of any replica: once, and again where something else would mend it."""
        refusal = why, lacks_nodes(config, self._service.loop.cluster)
        if refusal == self._refusal:
            return
        self._refusal = refusal
        log.warning("the configuration is not in force yet: %s", why)
        last = self._last_noted()
        if (
            last is None
            or last.kind != CONFIGURATION_WAITS
            or (last.text, last.data.get(NODES_MAY_HELP)) != refusal
        ):
            self._note_configuration(CONFIGURATION_WAITS, why, {NODES_MAY_HELP: refusal[1]})

    def _note_in_force(self, text: str) -> None:
        """That it no longer waits, where admins were told that it does."""
        last = self._last_noted()
        if last is not None and last.kind == CONFIGURATION_WAITS:
            self._note_configuration(CONFIGURATION_IN_FORCE, text, {})

    def _last_noted(self) -> Event | None:
        kinds = frozenset({CONFIGURATION_WAITS, CONFIGURATION_IN_FORCE})
        last = self._service.store.events(kinds=kinds, limit=1, newest=True)
        return last[0].event if last else None

    def _note_configuration(self, kind: str, text: str, data: Mapping[str, object]) -> None:
        note = NoteAgent(node="", at_ms=self._service.now_ms(), kind=kind, text=text, data=data)
        self._service.ask(OPERATOR, note)

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

    def _drop_profiles(self) -> None:
        teams = frozenset(self._service.loop.cluster.teams)
        # None at all: nothing was configured yet, or read.
        if teams and teams != self._teams:
            drop_without_team(self._service, OPERATOR)
            self._teams = teams

    def _note_facts(self) -> None:
        """Isolation and simulation are what the agent says, never what somebody wrote."""
        if self._report is None:
            return
        try:
            report = self._report()
        except GpuError:
            return  # the executor complains already
        self._node = report.node
        cluster = self._service.loop.cluster
        ask_facts(
            self._service,
            {pool.name: _facts_of(pool, cluster, report) for pool in cluster.pools.values()},
        )

    def _note_record(self) -> None:
        """What the agent did to somebody's processes belongs into the log that admins read."""
        if self._record is None or self._node is None:
            return
        if self._noted is None:
            known = self._service.store.events(kinds=AGENT_EVENTS, limit=1, newest=True)
            self._noted = int(known[-1].event.data.get("number", 0)) if known else 0
        try:
            entries = self._record(self._noted)
        except GpuError:
            return  # it answers again later, and nothing is lost until then
        for entry in entries:
            action = NoteAgent(
                node=self._node,
                at_ms=Millis(entry.at_ms),
                kind=entry.event,
                text=entry.text,
                slice_id=entry.slice_id,
                data={**entry.fields, "number": entry.number},
            )
            # A scheduler that was killed in between asks again for what it has.
            self._service.ask(OPERATOR, action, key=f"agent-{entry.key}")
            self._noted = entry.number


def lacks_nodes(config: models.ConfigModel, cluster: Cluster) -> bool:
    """Whether a pool in which somebody has a quota has no node at all: then it may only be early."""
    there = {node.pool for node in cluster.nodes.values()}
    wanted = {
        PoolName(pool)
        for team in config.teams
        for pool, quota in team.quotas.items()
        if quota.fixed_milli_gpu or quota.guaranteed_milli_gpu
    }
    return not there or not wanted <= there


def ask_facts(service: Service, said: Mapping[PoolName, PoolFacts | None]) -> None:
    """Have noted what nodes say of pools, where they say anything and it is news."""
    known = {
        name: PoolFacts(isolation=pool.isolation, simulated=pool.simulated)
        for name, pool in service.loop.cluster.pools.items()
    }
    news = {
        name: facts
        for name, facts in said.items()
        if facts is not None and facts != known.get(name)
    }
    if news:
        service.ask(OPERATOR, NoteFacts(pools=news))


def _facts_of(pool: Pool, cluster: Cluster, report: NodeReport) -> PoolFacts | None:
    devices = [d for n in cluster.nodes.values() if n.pool == pool.name for d in n.all_devices]
    if pool.executor != "local" or not devices:
        return None
    # A pool promises what each of its devices keeps.
    modes = [report.isolations.get(device.device_id, report.isolation) for device in devices]
    weakest = max(modes, key=ISOLATION_MODES.index)
    simulated = all(device.simulated for device in devices)
    cut = any(device.device_id.startswith("MIG-") for device in devices)
    if pool.mps is not None and not simulated and not cut:
        # The daemon limits every fraction, where the agent alone would keep them apart less.
        weakest = min(weakest, "driver", key=ISOLATION_MODES.index)
    return PoolFacts(isolation=weakest, simulated=simulated)
