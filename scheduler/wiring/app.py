"""The composition root: settings in, one running scheduler out, and a clean end.

Nothing is decided here: every part is made and handed to those that need it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpucommons.gpu.extras import coming_with
from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR, Housekeeping
from gpucommons.scheduler.background_tasks.old_job_files import Kept, Retention
from gpucommons.scheduler.background_tasks.scale_up import PeriodicScaleUp
from gpucommons.scheduler.core.events import due_actions
from gpucommons.scheduler.core.model.intents import NoteFacts
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.curves.following import LogFollowing
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.executors.base import Executor
from gpucommons.scheduler.executors.local.local import LocalExecutor
from gpucommons.scheduler.file_storage.parts import StorageParts, storage_parts
from gpucommons.scheduler.forecast.forecaster import Forecaster
from gpucommons.scheduler.hub import attempt_tokens
from gpucommons.scheduler.hub.hub import Hub
from gpucommons.scheduler.hub.servers import Servers
from gpucommons.scheduler.hub.user_groups import HubDirectory, NoDirectory
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.intake import plan_pools
from gpucommons.scheduler.leadership.parts import Replica, join
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.loop.usage_readings import Gathering
from gpucommons.scheduler.models.text.yaml_errors import read_model
from gpucommons.scheduler.notifications import webhook
from gpucommons.scheduler.notifications.settings import NotificationSettings, read_login
from gpucommons.scheduler.service.in_memory.activity import ActivityBoard
from gpucommons.scheduler.service.in_memory.slices import Slices
from gpucommons.scheduler.service.in_memory.submit_and_upload_allowances import SubmitLimit, uploads
from gpucommons.scheduler.service.service import Service, ServiceSettings
from gpucommons.scheduler.service.views.leases import IdleLimits
from gpucommons.scheduler.service.views.where_it_runs import AWAY
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.tracing import switch
from gpucommons.scheduler.wiring import plugins
from gpucommons.scheduler.wiring.background import BackgroundTasks, background_tasks
from gpucommons.scheduler.wiring.demo_data import sample_history
from gpucommons.scheduler.wiring.execution_backend import (
    ExecutionBackend,
    ExecutorLogs,
    execution_backend,
)
from gpucommons.scheduler.wiring.options import SchedulerSettings
from gpucommons.scheduler.wiring.scheduler_callbacks import (
    Asked,
    server_is_back,
    server_is_down,
    server_is_refused,
    wall_ms,
)

if TYPE_CHECKING:
    from gpucommons.scheduler.tracing.tracing import Tracing

DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduler:
    """Everything of one scheduler, made and not yet started."""

    foundation: Foundation
    loop: Loop
    service: Service
    forecaster: Forecaster
    background: BackgroundTasks
    where: ExecutionBackend
    servers: Servers | None
    #: None = nobody asked for traces.
    tracing: Tracing | None

    @property
    def settings(self) -> SchedulerSettings:
        """What it was told."""
        return self.foundation.settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Foundation:
    """What is read and opened before there is a loop; it asks none of the other parts."""

    settings: SchedulerSettings
    #: Where jobs on this machine reach the API.
    api_url: str
    first_config: models.ConfigModel | None
    store: Store
    hub: Hub | None
    #: None = the only scheduler of its store.
    replica: Replica | None
    now_ms: Callable[[], Millis]
    attempt_key: bytes = field(repr=False)
    kept: StorageParts

    @property
    def first_pools(self) -> tuple[Pool, ...]:
        """Those that the first configuration will make."""
        if self.first_config is None:
            return ()
        own = LocalExecutor.name if self.settings.kubernetes is None else AWAY
        return plan_pools(self.first_config, (own, *self.settings.executors))


def build(settings: SchedulerSettings, *, api_url: str) -> Scheduler:
    """Make all parts. Call it inside the asyncio loop that will serve.

    Raises
    ------
    Unavailable, BadRequest, Misconfigured
        When the store or the configuration file cannot be used.
    """
    plugins.add_launchers()
    opened = _open(settings, api_url, on_change=lambda: loop.wake())  # noqa: PLW0108 - made below
    first_pools = opened.first_pools
    # Those below are asked by parts that they themselves are made of.
    asked = Asked(
        cluster=lambda: loop.cluster,
        wake=lambda: loop.wake(),  # noqa: PLW0108 - the loop is made below
        job=lambda job_id: loop.cluster.workloads.get(job_id) or opened.store.workload(job_id),
        leading=lambda: loop.leading,
        may_act=lambda: loop.may_act,
        now_ms=opened.now_ms,
        missing_nodes=lambda: scale_ups.missing(),  # noqa: PLW0108 - made below
        # Before the first configuration is in force: those it will make.
        pools=lambda: tuple(loop.cluster.pools.values()) or first_pools,
    )
    scale_ups = PeriodicScaleUp(
        asked.cluster,
        asked.now_ms,
        note=lambda news: service.ask(OPERATOR, NoteFacts(pools=news)),
    )
    servers = None if opened.hub is None else _servers(opened.hub, asked, lambda: service)
    where = execution_backend(settings, opened.kept, asked)
    tracing = switch.open_tracing(os.environ)
    around = switch.traced(_surroundings(opened, asked, where, servers), tracing)
    loop = Loop(around)
    switch.follow(loop, tracing)
    forecaster = _forecaster(opened, loop, scale_ups, where)
    advisers = Advisers(where=where, forecaster=forecaster, scale_ups=scale_ups)
    service = _service(opened, around, loop, advisers)
    return Scheduler(
        foundation=opened,
        loop=loop,
        service=service,
        forecaster=forecaster,
        background=_background_tasks(opened, loop, service, advisers),
        where=where,
        servers=servers,
        tracing=tracing,
    )


def _open(
    settings: SchedulerSettings, api_url: str, *, on_change: Callable[[], None]
) -> Foundation:
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    first_config = None if settings.config is None else read_config(settings.config)
    hub = None if settings.hub is None else Hub(settings.hub.api_url, token=settings.hub.token)
    store = open_store(settings.database)
    replica = _replica(settings, store, on_change)
    return Foundation(
        settings=settings,
        api_url=api_url,
        first_config=first_config,
        store=store,
        hub=hub,
        replica=replica,
        now_ms=wall_ms if replica is None else replica.clock,
        attempt_key=attempt_tokens.load_key(settings.attempt_key),
        kept=storage_parts(
            settings.storage,
            settings.storage_claim,
            settings.state,
            max_bytes=settings.max_snapshot_mib << 20,
        ),
    )


def _surroundings(
    opened: Foundation, asked: Asked, where: ExecutionBackend, servers: Servers | None
) -> Surroundings:
    settings, replica = opened.settings, opened.replica
    return Surroundings(
        store=opened.store,
        executors={
            where.executor.name: where.executor,
            **plugins.guests(settings, where.executor, opened.kept, asked),
        },
        now=opened.now_ms,
        new_ids=IdSource(opened.now_ms),
        token_of=partial(attempt_tokens.token_of, opened.attempt_key),
        api_url=opened.api_url,
        on_server_act=servers or (lambda _act, _workload: None),
        usage=Gathering(where.minutes, wake=asked.wake).after,
        retention_ms=settings.retention_days * DAY_MS,
        holder=f"scheduler {os.getpid()}" if replica is None else replica.holder,
        leadership=None if replica is None else replica.election,
    )


def _forecaster(
    opened: Foundation, loop: Loop, scale_ups: PeriodicScaleUp, where: ExecutionBackend
) -> Forecaster:
    return Forecaster(
        loop,
        opened.store,
        now_ms=opened.now_ms,
        idle_after_ms=opened.settings.idle_after_s * 1000,
        upcoming=scale_ups.upcoming,
        why_not=where.why_not,
    )


def _background_tasks(
    opened: Foundation, loop: Loop, service: Service, advisers: Advisers
) -> BackgroundTasks:
    where, settings = advisers.where, opened.settings
    log_following = LogFollowing(
        loop=loop, logs=service.logs, store=opened.store, now_ms=loop.now, steady_s=time.monotonic
    )
    housekeeping = Housekeeping(
        service,
        report=where.report,
        first_config=opened.first_config,
        record=where.record,
        also=where.also(service),
    )
    retention = Retention(
        store=opened.store,
        places=_places(where.executor, opened.kept, settings.retention_days * DAY_MS),
        snapshots_for_ms=settings.snapshot_days * DAY_MS,
        has_snapshot=opened.kept.snapshots.has,
        now_ms=opened.now_ms,
    )
    return background_tasks(
        service,
        epoch=lambda: loop.epoch,
        housekeeping=housekeeping,
        log_following=log_following,
        retention=retention,
        scale_ups=advisers.scale_ups,
        slow_hours=settings.slow_hours,
    )


def _servers(hub: Hub, asked: Asked, service: Callable[[], Service]) -> Servers:
    """Who starts and stops notebook servers, and tells the service what became of them."""
    return Servers(
        hub,
        now_ms=asked.now_ms,
        on_down=lambda lease: server_is_down(service(), lease),
        on_restarted=lambda lease: server_is_back(service(), lease),
        on_refused=lambda lease, text: server_is_refused(service(), lease, text),
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
        Kept(place=parts.snapshots, for_ms=DAY_MS),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Advisers:
    """Those that the service asks what only they know."""

    where: ExecutionBackend
    forecaster: Forecaster
    scale_ups: PeriodicScaleUp


def _service(opened: Foundation, around: Surroundings, loop: Loop, advisers: Advisers) -> Service:
    settings, hub, kept, where = opened.settings, opened.hub, opened.kept, advisers.where
    return Service(
        store=opened.store,
        loop=loop,
        logs=ExecutorLogs(executors=around.executors, cluster=lambda: loop.cluster),
        directory=NoDirectory() if hub is None else HubDirectory(hub, now_ms=opened.now_ms),
        snapshots=kept.snapshots,
        files={} if kept.files is None else {AWAY: kept.files},
        own_results=where.results,
        activity=ActivityBoard(),
        slices=Slices(
            where.agent,
            cluster=lambda: loop.cluster,
            observe=loop.observe,
            bound_to=where.bound_to,
            has_pod=where.has_pod,
        ),
        why_not=where.why_not,
        nodes_asked=advisers.scale_ups.asked,
        nodes_refused=where.nodes_refused,
        why_no_secret=where.why_no_secret,
        environments=where.environments,
        now_ms=loop.now,
        new_ids=around.new_ids,
        sample=cache(lambda: sample_history(loop.now())) if settings.sample_data else None,
        forecasts=advisers.forecaster,
        settings=_service_settings(settings, executors=tuple(around.executors)),
        notifications=_notifications(settings.notifications),
        webhook_key=partial(webhook.signing_key, opened.attempt_key),
        submits=SubmitLimit(per_hour=settings.submits_per_hour),
        uploads=uploads(settings.upload_gib_per_day),
    )


def _service_settings(
    settings: SchedulerSettings, *, executors: tuple[str, ...]
) -> ServiceSettings:
    hub = settings.hub
    return ServiceSettings(
        idle=IdleLimits(
            idle_after_ms=settings.idle_after_s * 1000, warn_after_ms=settings.warn_after_s * 1000
        ),
        shared_account=settings.shared_account,
        executors=executors,
        kept_days=settings.retention_days,
        pages_url="" if hub is None or hub.host else hub.prefix,
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
