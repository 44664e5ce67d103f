"""The REST API as one ASGI application."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from gpucommons.scheduler.api import errors
from gpucommons.scheduler.api.authentication import Authenticator
from gpucommons.scheduler.api.caller import RouteDependencies
from gpucommons.scheduler.api.leading import ToLeader
from gpucommons.scheduler.api.limits.body_limit import BodyLimit
from gpucommons.scheduler.api.limits.waiting import Waiting
from gpucommons.scheduler.api.observing import Observing, Spans
from gpucommons.scheduler.api.routes import (
    attempts,
    cluster,
    health,
    history,
    jobs,
    leases,
    notifications,
    pipelines,
    profiles,
    schedules,
    sweeps,
)
from gpucommons.scheduler.api.routes.routers import take_routes
from gpucommons.scheduler.background_tasks.metrics import Metrics
from gpucommons.scheduler.service.service import Service

_ROUTERS = (
    cluster.router,
    jobs.router,
    pipelines.router,
    profiles.router,
    schedules.router,
    sweeps.router,
    attempts.router,
    leases.router,
    history.router,
    notifications.router,
    history.unversioned,
    health.router,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiSettings:
    """What may differ between installations."""

    max_snapshot_bytes: int = 256 << 20
    #: Whether the scheduler still decides; False makes ``/healthz`` say so.
    healthy: Callable[[], bool] = field(default=lambda: True)
    #: Whether the configuration of a first start is in force; False makes ``/readyz`` say so.
    ready: Callable[[], bool] = field(default=lambda: True)
    #: Whether it need not be restarted; False makes ``/livez`` say so.
    alive: Callable[[], bool] = field(default=lambda: True)
    #: Where the replica that leads answers; None = there is one scheduler.
    leader: Callable[[], str | None] | None = None
    #: Its name; "" where nobody is known to lead.
    leader_name: Callable[[], str] = field(default=lambda: "")


def create_app(
    service: Service,
    authenticator: Authenticator,
    *,
    settings: ApiSettings | None = None,
    metrics: Metrics | None = None,
    spans: Spans | None = None,
) -> FastAPI:
    """Build the application; nothing runs yet."""
    chosen, counted = settings or ApiSettings(), metrics or Metrics(service.loop)
    app = _bare()
    waiting = Waiting()
    service.loop.subscribe(waiting.changed)
    app.state.dependencies = RouteDependencies(
        service=service, authenticator=authenticator, waiting=waiting
    )
    app.state.metrics = counted.registry
    app.state.health = health.Health(healthy=chosen.healthy, ready=chosen.ready, alive=chosen.alive)
    take_routes(app, *_ROUTERS)
    errors.install(app)
    if chosen.leader is not None:
        loop = service.loop
        app.add_middleware(
            ToLeader,
            leading=lambda: loop.leading,
            leader=chosen.leader,
            name=chosen.leader_name,
        )
    app.add_middleware(
        BodyLimit, streamed="/v1/snapshots/", max_streamed_bytes=chosen.max_snapshot_bytes
    )
    app.add_middleware(Observing, metrics=counted, spans=spans)
    return app


def describe() -> dict[str, Any]:
    """The OpenAPI document of all routes; no service is needed."""
    app = _bare()
    take_routes(app, *_ROUTERS)
    return app.openapi()


def _bare() -> FastAPI:
    return FastAPI(
        title="GPU Commons",
        version="1",
        description="Jobs, notebooks' leases, quotas and usage of GPU Commons.",
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
