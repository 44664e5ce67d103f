"""The composition root: settings in, one running scheduler out, and a clean end.

Nothing is decided here: every part is made and handed to those that need it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from gpucommons.gpu.extras import coming_with
from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.budgets import Budgets
from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR, Housekeeping
from gpucommons.scheduler.background_tasks.notification_delivery import Delivery
from gpucommons.scheduler.background_tasks.notifications import Notifications
from gpucommons.scheduler.background_tasks.old_job_files import Kept, Retention
from gpucommons.scheduler.background_tasks.pipelines import Pipelines
from gpucommons.scheduler.background_tasks.plan_outcomes import Judging
from gpucommons.scheduler.background_tasks.scale_up import PeriodicScaleUp
from gpucommons.scheduler.background_tasks.schedules import Schedules
from gpucommons.scheduler.background_tasks.slow_nodes import SlowNodes
from gpucommons.scheduler.background_tasks.sweeps import Sweeps
from gpucommons.scheduler.core.events import due_actions
from gpucommons.scheduler.core.events.leases import NOT_STARTED
from gpucommons.scheduler.core.model.intents import Cancel, NoteFacts, Restarted
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Attempt, Millis, Workload
from gpucommons.scheduler.curves.following import LogFollowing
from gpucommons.scheduler.errors import BadRequest, NotFound
from gpucommons.scheduler.executors.base import Executor
from gpucommons.scheduler.executors.local.local import LocalExecutor
from gpucommons.scheduler.file_storage.parts import StorageParts, storage_parts
from gpucommons.scheduler.files.log_reader import LogChunk
from gpucommons.scheduler.forecast.forecaster import Forecaster
from gpucommons.scheduler.hub import attempt_tokens
from gpucommons.scheduler.hub.hub import Hub
from gpucommons.scheduler.hub.servers import Servers
from gpucommons.scheduler.hub.user_groups import HubDirectory, NoDirectory
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.intake import plan_pools
from gpucommons.scheduler.leadership.parts import Replica, join
from gpucommons.scheduler.loop.acting import executor_of
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.loop.usage_readings import Gathering
from gpucommons.scheduler.models.text.yaml_errors import read_model
from gpucommons.scheduler.notifications import webhook
from gpucommons.scheduler.notifications.settings import NotificationSettings, read_login
from gpucommons.scheduler.service.in_memory.activity import ActivityBoard
from gpucommons.scheduler.service.in_memory.slices import Slices
from gpucommons.scheduler.service.in_memory.submit_and_upload_allowances import SubmitLimit, uploads
from gpucommons.scheduler.service.jobs.logs import READ_AT_ONCE_BYTES
from gpucommons.scheduler.service.service import Service, ServiceSettings
from gpucommons.scheduler.service.views.leases import IdleLimits
from gpucommons.scheduler.service.views.where_it_runs import AWAY
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.wiring import plugins
from gpucommons.scheduler.wiring.demo_data import sample_history
from gpucommons.scheduler.wiring.execution_backend import ExecutionBackend, execution_backend
from gpucommons.scheduler.wiring.options import SchedulerSettings
from gpucommons.scheduler.wiring.scheduler_callbacks import Asked, wall_ms

_DAY_MS, _HOUR_MS = 86_400_000, 3_600_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduler:
    """Everything of one scheduler, made and not yet started."""

    settings: SchedulerSettings
    store: Store
    loop: Loop
    service: Service
    forecaster: Forecaster
    housekeeping: Housekeeping
    schedules: Schedules
    sweeps: Sweeps
    pipelines: Pipelines
    judging: Judging
    budgets: Budgets
    slow_nodes: SlowNodes
    scale_ups: PeriodicScaleUp
    notifications: Notifications
    notification_delivery: Delivery
    log_following: LogFollowing
    retention: Retention
    attempt_key: bytes = field(repr=False)
    where: ExecutionBackend
    hub: Hub | None
    servers: Servers | None
    #: None = the only scheduler of its store.
    replica: Replica | None
    now_ms: Callable[[], Millis]


def build(settings: SchedulerSettings, *, api_url: str) -> Scheduler:
    """Make all parts. Call it inside the asyncio loop that will serve.

    Raises
    ------
    Unavailable, BadRequest, Misconfigured
        When the store or the configuration file cannot be used.
    """
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    first_config = None if settings.config is None else read_config(settings.config)
    own = LocalExecutor.name if settings.kubernetes is None else AWAY
    executors = (own, *settings.executors)
    first_pools = () if first_config is None else plan_pools(first_config, executors)
    plugins.add_launchers()
    hub = None if settings.hub is None else Hub(settings.hub.api_url, token=settings.hub.token)
    store = open_store(settings.database)
    replica = _replica(settings, store, lambda: loop.wake())  # noqa: PLW0108 - made below
    now_ms = wall_ms if replica is None else replica.clock
    key = attempt_tokens.load_key(settings.attempt_key)
    kept = storage_parts(
        settings.storage,
        settings.storage_claim,
        settings.state,
        max_bytes=settings.max_snapshot_mib << 20,
    )
    # Those below are asked by parts that they themselves are made of.
    asked = Asked(
        cluster=lambda: loop.cluster,
        wake=lambda: loop.wake(),  # noqa: PLW0108 - the loop is made below
        job=lambda job_id: loop.cluster.workloads.get(job_id) or store.workload(job_id),
        leading=lambda: loop.leading,
        may_act=lambda: loop.may_act,
        now_ms=now_ms,
        missing_nodes=lambda: scale_ups.missing(),  # noqa: PLW0108 - made below
        # Before the first configuration is in force: those it will make.
        pools=lambda: tuple(loop.cluster.pools.values()) or first_pools,
    )
    scale_ups = PeriodicScaleUp(
        asked.cluster,
        now_ms,
        note=lambda news: service.ask(OPERATOR, NoteFacts(pools=news)),
    )
    servers = None if hub is None else _servers(hub, asked, lambda: service)
    where = execution_backend(settings, kept, asked)
    around = Surroundings(
        store=store,
        executors={
            where.executor.name: where.executor,
            **plugins.guests(settings, where.executor, kept, asked),
        },
        now=now_ms,
        new_ids=IdSource(now_ms),
        token_of=partial(attempt_tokens.token_of, key),
        api_url=api_url,
        on_server_act=servers or (lambda _act, _workload: None),
        usage=Gathering(where.minutes, wake=asked.wake).after,
        retention_ms=settings.retention_days * _DAY_MS,
        holder=f"scheduler {os.getpid()}" if replica is None else replica.holder,
        leadership=None if replica is None else replica.election,
    )
    loop = Loop(around)
    idle_after_ms = settings.idle_after_s * 1000
    forecaster = Forecaster(
        loop, store, now_ms=now_ms, idle_after_ms=idle_after_ms, upcoming=scale_ups.upcoming
    )
    outside = Outside(
        where=where, hub=hub, forecaster=forecaster, scale_ups=scale_ups, kept=kept, key=key
    )
    service = _service(settings, around, loop, outside)
    log_following = LogFollowing(
        loop=loop, logs=service.logs, store=store, now_ms=loop.now, steady_s=time.monotonic
    )
    return Scheduler(
        settings=settings,
        store=store,
        loop=loop,
        service=service,
        forecaster=forecaster,
        housekeeping=Housekeeping(
            service,
            report=where.report,
            first_config=first_config,
            record=where.record,
            also=where.also(service),
        ),
        schedules=Schedules(service, epoch=lambda: loop.epoch, unread=log_following.unread),
        sweeps=Sweeps(service, epoch=lambda: loop.epoch, unread=log_following.unread),
        pipelines=Pipelines(service, epoch=lambda: loop.epoch),
        judging=Judging(service, epoch=lambda: loop.epoch),
        budgets=Budgets(service),
        slow_nodes=SlowNodes(service, avoided_ms=settings.slow_hours * _HOUR_MS),
        scale_ups=scale_ups,
        log_following=log_following,
        notifications=Notifications(service, epoch=lambda: loop.epoch),
        notification_delivery=Delivery(service, epoch=lambda: loop.epoch),
        retention=Retention(
            store=store,
            places=_places(where.executor, kept, settings.retention_days * _DAY_MS),
            snapshots_for_ms=settings.snapshot_days * _DAY_MS,
            has_snapshot=kept.snapshots.has,
            now_ms=now_ms,
        ),
        attempt_key=key,
        where=where,
        hub=hub,
        servers=servers,
        replica=replica,
        now_ms=now_ms,
    )


def _servers(hub: Hub, asked: Asked, service: Callable[[], Service]) -> Servers:
    """Who starts and stops notebook servers, and tells the service what became of them."""
    return Servers(
        hub,
        now_ms=asked.now_ms,
        on_down=lambda lease: _server_is_down(service(), lease),
        on_restarted=lambda lease: _server_is_back(service(), lease),
        on_refused=lambda lease, text: _server_is_refused(service(), lease, text),
        is_due=lambda act: asked.leading() and due_actions.is_due(asked.cluster().workloads, act),
        wake=asked.wake,
    )


def _replica(
    settings: SchedulerSettings, store: Store, on_change: Callable[[], None]
) -> Replica | None:
    """This scheduler's part among several; None where it is the only one."""
    options = settings.replica
    if options is None:
        return None
    # The client library takes a second that a workstation need not wait.
    with coming_with("kubernetes"):
        from gpucommons.scheduler.leadership.kubernetes_lease import (  # noqa: PLC0415 - see above
            open_lease,
        )

    return join(
        open_lease(options.lease), store, name=options.name, url=options.url, on_change=on_change
    )


def _places(executor: Executor, parts: StorageParts, retention_ms: int) -> tuple[Kept, ...]:
    """Where files of old jobs lie."""
    local = (executor,) if isinstance(executor, LocalExecutor) else ()
    files = () if parts.files is None else (parts.files,)
    return (
        *(Kept(place=place, for_ms=retention_ms) for place in (*local, *files)),
        Kept(place=parts.snapshots, for_ms=_DAY_MS),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Outside:
    """Those that the service asks."""

    where: ExecutionBackend
    hub: Hub | None
    forecaster: Forecaster
    scale_ups: PeriodicScaleUp
    kept: StorageParts
    #: Of this installation.
    key: bytes = field(repr=False)


def _service(
    settings: SchedulerSettings, around: Surroundings, loop: Loop, outside: Outside
) -> Service:
    limits = IdleLimits(
        idle_after_ms=settings.idle_after_s * 1000, warn_after_ms=settings.warn_after_s * 1000
    )
    hub = outside.hub
    return Service(
        store=around.store,
        loop=loop,
        logs=ExecutorLogs(executors=around.executors, cluster=lambda: loop.cluster),
        directory=NoDirectory() if hub is None else HubDirectory(hub, now_ms=around.now),
        snapshots=outside.kept.snapshots,
        files={} if outside.kept.files is None else {AWAY: outside.kept.files},
        own_results=outside.where.results,
        activity=ActivityBoard(),
        slices=Slices(
            outside.where.agent,
            cluster=lambda: loop.cluster,
            observe=loop.observe,
            bound_to=outside.where.bound_to,
            has_pod=outside.where.has_pod,
        ),
        why_not=outside.where.why_not,
        nodes_asked=outside.scale_ups.asked,
        nodes_refused=outside.where.nodes_refused,
        why_no_secret=outside.where.why_no_secret,
        environments=outside.where.environments,
        now_ms=loop.now,
        new_ids=around.new_ids,
        sample=cache(lambda: sample_history(loop.now())) if settings.sample_data else None,
        forecasts=outside.forecaster,
        settings=ServiceSettings(
            idle=limits,
            shared_account=settings.shared_account,
            executors=tuple(around.executors),
            kept_days=settings.retention_days,
            pages_url="" if settings.hub is None or settings.hub.host else settings.hub.prefix,
        ),
        notifications=_notifications(settings.notifications),
        webhook_key=partial(webhook.signing_key, outside.key),
        submits=SubmitLimit(per_hour=settings.submits_per_hour),
        uploads=uploads(settings.upload_gib_per_day),
    )


def _notifications(path: Path | None) -> NotificationSettings:
    return NotificationSettings() if path is None else read_notifications(path)


def read_notifications(path: Path) -> NotificationSettings:
    """The YAML file that says how people are told; the login that it names is to be readable, too.

    Raises
    ------
    BadRequest
        When one of them cannot be read or says something else.
    """
    try:
        found = read_model(NotificationSettings, path.read_text(), empty={})
        if found.mail is not None and found.mail.login_file is not None:
            read_login(found.mail.login_file)
    except (OSError, ValueError, BadRequest) as error:
        message = f"{path} does not say how people are told: {error}"
        raise BadRequest(message) from None
    return found


def read_config(path: Path) -> models.ConfigModel:
    """The YAML file with pools, teams and policy.

    Raises
    ------
    BadRequest
        When it cannot be read or says something else.
    """
    try:
        return read_model(models.ConfigModel, path.read_text())
    except (OSError, BadRequest) as error:
        message = f"{path} is no configuration: {error}"
        raise BadRequest(message) from None


def _server_is_down(service: Service, lease: Workload) -> None:
    """The hub says that a server is down, though its spawner may not have told us."""
    now = service.loop.cluster.workloads.get(lease.workload_id)
    if now is not None and not is_final(now):
        service.ask(OPERATOR, Cancel(workload_id=lease.workload_id, why="stopped"))


def _server_is_back(service: Service, lease: Workload) -> None:
    """A notebook that gave its GPU back runs again."""
    service.ask(OPERATOR, Restarted(workload_id=lease.workload_id))


def _server_is_refused(service: Service, lease: Workload, text: str) -> None:
    """The hub will not start the server of a granted ticket: its place in line is of no use."""
    service.ask(OPERATOR, Cancel(workload_id=lease.workload_id, why=NOT_STARTED, text=text))


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutorLogs:
    """Logs, read by whoever ran the attempt."""

    executors: Mapping[str, Executor]
    cluster: Callable[[], Cluster]

    def read(self, workload: Workload, attempt: Attempt, *, rank: int, offset: int) -> LogChunk:
        """See :class:`gpucommons.scheduler.curves.following.ReadsLogs`."""
        executor = self.executors.get(executor_of(self.cluster(), attempt) or "")
        if executor is None:
            message = f"The log of {workload.spec.name} lies on a node that is not here any more."
            raise NotFound(message)
        return executor.log(attempt, rank=rank, offset=offset, limit_bytes=READ_AT_ONCE_BYTES)
