"""The REST API as one ASGI application."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, FastAPI
from prometheus_client import CollectorRegistry

from gpucommons.scheduler.api import errors
from gpucommons.scheduler.api.authentication import Authenticator
from gpucommons.scheduler.api.caller import RouteDependencies
from gpucommons.scheduler.api.leading import ToLeader
from gpucommons.scheduler.api.limits.body_limit import BodyLimit
from gpucommons.scheduler.api.limits.waiting import Waiting
from gpucommons.scheduler.api.observing import Observing
from gpucommons.scheduler.api.routes import (
    attempts,
    cluster,
    history,
    jobs,
    leases,
    notifications,
    pipelines,
    profiles,
    schedules,
    sweeps,
)
from gpucommons.scheduler.api.routes.routers import a_router, take_routes
from gpucommons.scheduler.background_tasks.metrics import Metrics
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.service.service import Service

_VERSIONED = (
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
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiSettings:
    """What may differ between installations."""

    max_snapshot_bytes: int = 256 << 20
    #: Whether the scheduler still decides; False makes ``/healthz`` say so.
    healthy: Callable[[], bool] = field(default=lambda: True)
    #: Whether it need not be restarted; False makes ``/livez`` say so.
    alive: Callable[[], bool] = field(default=lambda: True)
    #: Where the replica that leads answers; None = there is one scheduler.
    leader: Callable[[], str | None] | None = None


def create_app(
    service: Service,
    authenticator: Authenticator,
    *,
    settings: ApiSettings | None = None,
    metrics: Metrics | None = None,
) -> FastAPI:
    """Build the application; nothing runs yet."""
    chosen, counted = settings or ApiSettings(), metrics or Metrics(service.loop)
    app = _bare()
    waiting = Waiting()
    service.loop.subscribe(waiting.changed)
    app.state.dependencies = RouteDependencies(
        service=service, authenticator=authenticator, waiting=waiting
    )
    _take_all(app, counted.registry, chosen)
    errors.install(app)
    if chosen.leader is not None:
        loop = service.loop
        app.add_middleware(ToLeader, leading=lambda: loop.leading, leader=chosen.leader)
    app.add_middleware(
        BodyLimit, streamed="/v1/snapshots/", max_streamed_bytes=chosen.max_snapshot_bytes
    )
    app.add_middleware(Observing, metrics=counted)
    return app


def describe() -> dict[str, Any]:
    """The OpenAPI document of all routes; no service is needed."""
    app = _bare()
    _take_all(app, CollectorRegistry(), ApiSettings())
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


def _take_all(app: FastAPI, metrics: CollectorRegistry, chosen: ApiSettings) -> None:
    take_routes(app, *_VERSIONED, history.metrics_router(metrics), _health(chosen))


def _health(chosen: ApiSettings) -> APIRouter:
    router = a_router("health", prefix="")

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz")
    async def healthz() -> dict[str, bool]:
        """Whether the scheduler is up and decides; needs no token."""
        if not chosen.healthy():
            message = "The scheduler is up but does not decide; its log says why."
            raise Unavailable(message)
        return {"ok": True}

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz")
    async def readyz() -> dict[str, bool]:
        """As ``/healthz``; one that stands by for the lead of its store says so, too; no token."""
        return await healthz()

    @router.head("/livez", include_in_schema=False)
    @router.get("/livez")
    async def livez() -> dict[str, bool]:
        """Whether it still tries, be it in vain: if not, a new process helps; needs no token."""
        if not chosen.alive():
            message = "The scheduler is up but hangs: start it anew."
            raise Unavailable(message)
        return {"ok": True}

    return router
