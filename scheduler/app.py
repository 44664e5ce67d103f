"""The composition root: settings in, one running scheduler out, and a clean end.

Nothing is decided here: every part is made and handed to those that need it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import yaml
from pydantic import ValidationError

from gpucommons.gpu.agent_client import AgentClient
from gpucommons.scheduler import attempt_tokens, models
from gpucommons.scheduler.accounts import accounts, home_of
from gpucommons.scheduler.acting import executor_of
from gpucommons.scheduler.core.lifecycle import is_final
from gpucommons.scheduler.core.resources import Node, Pool
from gpucommons.scheduler.core.state import Cancel, Cluster, Restarted
from gpucommons.scheduler.core.types import Attempt, Millis, Workload
from gpucommons.scheduler.directory import HubDirectory, NoDirectory
from gpucommons.scheduler.errors import BadRequest, NotFound
from gpucommons.scheduler.executors.base import Executor, LogChunk
from gpucommons.scheduler.executors.local import LocalExecutor, LocalSettings
from gpucommons.scheduler.forecast.forecaster import Forecaster
from gpucommons.scheduler.hub import Hub
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.intake import plan_config
from gpucommons.scheduler.local_nodes import local_nodes
from gpucommons.scheduler.loop import Loop, Surroundings
from gpucommons.scheduler.options import SchedulerSettings
from gpucommons.scheduler.retention import Retention
from gpucommons.scheduler.servers import Servers
from gpucommons.scheduler.service.activity import ActivityBoard
from gpucommons.scheduler.service.service import Service, ServiceSettings
from gpucommons.scheduler.service.slices import Slices
from gpucommons.scheduler.service.views.leases import IdleLimits
from gpucommons.scheduler.snapshots import Snapshots
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.upkeep import OPERATOR, Upkeep

#: Bytes of log in one answer.
_LOG_BYTES = 256 << 10
_DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduler:
    """Everything of one scheduler, made and not yet started."""

    settings: SchedulerSettings
    store: Store
    loop: Loop
    service: Service
    forecaster: Forecaster
    upkeep: Upkeep
    retention: Retention
    attempt_key: bytes = field(repr=False)
    hub: Hub | None
    servers: Servers | None


def now_ms() -> Millis:
    """The wall clock."""
    return Millis(time.time_ns() // 1_000_000)


def build(settings: SchedulerSettings, *, api_url: str) -> Scheduler:
    """Make all parts. Call it inside the asyncio loop that will serve.

    Raises
    ------
    Unavailable, BadRequest
        When the store or the configuration file cannot be used.
    """
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    first_config = None if settings.config is None else read_config(settings.config)
    agent = AgentClient(settings.agent)
    hub = None
    if settings.hub is not None:
        hub = Hub(settings.hub.api_url, token=settings.hub.token)
    store = open_store(settings.database)
    key = attempt_tokens.load_key(settings.state / "attempt-key")
    snapshots = Snapshots(settings.state / "snapshots", max_bytes=settings.max_snapshot_mib << 20)
    servers = None
    if hub is not None:
        # Its callback needs the service, which needs the loop, which needs this.
        servers = Servers(
            hub,
            now_ms=now_ms,
            on_down=lambda lease: _server_is_down(service, lease),
            on_restarted=lambda lease: _server_is_back(service, lease),
        )
    executor = LocalExecutor(
        _local_settings(settings, agent, snapshots, lambda: _pools(loop.cluster, first_config)),
        agent=agent,
        on_change=lambda: loop.wake(),  # noqa: PLW0108 - the loop is made below
    )
    around = Surroundings(
        store=store,
        executors={executor.name: executor},
        now=now_ms,
        new_ids=IdSource(now_ms),
        token_of=partial(attempt_tokens.token_of, key),
        api_url=api_url,
        on_server_act=servers or (lambda _act, _workload: None),
        usage=agent.minutes,
        retention_ms=settings.retention_days * _DAY_MS,
        holder=f"scheduler {os.getpid()}",
    )
    loop = Loop(around)
    forecaster = Forecaster(loop, store, now_ms=now_ms)
    outside = Outside(agent=agent, hub=hub, forecaster=forecaster)
    service = _service(settings, around, loop, snapshots, outside)
    return Scheduler(
        settings=settings,
        store=store,
        loop=loop,
        service=service,
        forecaster=forecaster,
        upkeep=Upkeep(service, report=agent.devices, first_config=first_config),
        retention=Retention(
            store=store,
            places=(executor, snapshots),
            now_ms=now_ms,
            retention_ms=settings.retention_days * _DAY_MS,
        ),
        attempt_key=key,
        hub=hub,
        servers=servers,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Outside:
    """Those that the service asks."""

    agent: AgentClient
    hub: Hub | None
    forecaster: Forecaster


def _service(
    settings: SchedulerSettings,
    around: Surroundings,
    loop: Loop,
    snapshots: Snapshots,
    outside: Outside,
) -> Service:
    limits = IdleLimits(
        idle_after_ms=settings.idle_after_s * 1000, warn_after_ms=settings.warn_after_s * 1000
    )
    hub = outside.hub
    return Service(
        store=around.store,
        loop=loop,
        logs=ExecutorLogs(executors=around.executors, cluster=lambda: loop.cluster),
        directory=NoDirectory() if hub is None else HubDirectory(hub, now_ms=now_ms),
        snapshots=snapshots,
        activity=ActivityBoard(),
        slices=Slices(outside.agent, cluster=lambda: loop.cluster, observe=loop.observe),
        now_ms=now_ms,
        new_ids=around.new_ids,
        forecasts=outside.forecaster,
        settings=ServiceSettings(idle=limits, shared_account=settings.shared_account),
    )


def read_config(path: Path) -> models.ConfigModel:
    """The YAML file with pools, teams and policy.

    Raises
    ------
    BadRequest
        When it cannot be read or says something else.
    """
    try:
        document = yaml.safe_load(path.read_text())
        return models.ConfigModel.model_validate(document)
    except (OSError, yaml.YAMLError, ValidationError) as error:
        message = f"{path} is no configuration: {error}"
        raise BadRequest(message) from None


def _pools(cluster: Cluster, first: models.ConfigModel | None) -> tuple[Pool, ...]:
    """The pools there are; before the first configuration is in force, those it will make."""
    if cluster.pools or first is None:
        return tuple(cluster.pools.values())
    return plan_config(first, cluster).pools


def _local_settings(
    settings: SchedulerSettings,
    agent: AgentClient,
    snapshots: Snapshots,
    pools: Callable[[], tuple[Pool, ...]],
) -> LocalSettings:
    def nodes() -> tuple[Node, ...]:
        return local_nodes(agent.devices(), pools())

    return LocalSettings(
        state_dir=settings.state,
        home_of=partial(home_of, settings),
        nodes=nodes,
        snapshot_path=snapshots.path,
        account_of=accounts(settings, os.geteuid()),
    )


def _server_is_down(service: Service, lease: Workload) -> None:
    """The hub says that a server is down, though its spawner may not have told us."""
    now = service.loop.cluster.workloads.get(lease.workload_id)
    if now is not None and not is_final(now):
        service.ask(OPERATOR, Cancel(workload_id=lease.workload_id, why="stopped"))


def _server_is_back(service: Service, lease: Workload) -> None:
    """A notebook that gave its GPU back runs again."""
    service.ask(OPERATOR, Restarted(workload_id=lease.workload_id))


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutorLogs:
    """Logs, read by whoever ran the attempt."""

    executors: Mapping[str, Executor]
    cluster: Callable[[], Cluster]

    def read(self, workload: Workload, attempt: Attempt, *, rank: int, offset: int) -> LogChunk:
        """See :class:`gpucommons.scheduler.service.service.Logs`."""
        executor = self.executors.get(executor_of(self.cluster(), attempt) or "")
        if executor is None:
            message = f"The log of {workload.spec.name} lies on a node that is not here any more."
            raise NotFound(message)
        return executor.log(attempt, rank=rank, offset=offset, limit_bytes=_LOG_BYTES)
