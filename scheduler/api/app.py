"""The REST API as one ASGI application."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from gpucommons.scheduler.api import errors, history, jobs, leases, settings
from gpucommons.scheduler.api.authentication import Authenticator
from gpucommons.scheduler.api.body_limit import BodyLimit
from gpucommons.scheduler.api.caller import Doorway
from gpucommons.scheduler.api.waiting import Waiting
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.metrics import Metrics
from gpucommons.scheduler.service.service import Service

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiSettings:
    """What may differ between installations."""

    max_snapshot_bytes: int = 256 << 20
    #: Whether the scheduler still decides; False makes ``/healthz`` say so.
    healthy: Callable[[], bool] = field(default=lambda: True)


def create_app(
    service: Service,
    authenticator: Authenticator,
    *,
    settings: ApiSettings | None = None,
    metrics: Metrics | None = None,
) -> FastAPI:
    """Build the application; nothing runs yet."""
    chosen, counted = settings or ApiSettings(), metrics or Metrics(service.loop)
    app = FastAPI(
        title="GPU Commons",
        version="1",
        description="Jobs, notebooks' leases, quotas and usage of GPU Commons.",
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_operation_id,
        responses=errors.REFUSALS,
    )
    waiting = Waiting()
    service.loop.subscribe(waiting.changed)
    app.state.doorway = Doorway(service=service, authenticator=authenticator, waiting=waiting)
    _include(app, history.metrics_router(counted.registry), _health(chosen))
    errors.install(app)
    _observe(app, counted)
    app.add_middleware(
        BodyLimit, streamed="/v1/snapshots/", max_streamed_bytes=chosen.max_snapshot_bytes
    )
    return app


def _include(app: FastAPI, *unversioned: APIRouter) -> None:
    for router in (settings.router, jobs.router, leases.router, history.router):
        app.include_router(router, prefix="/v1")
    for router in unversioned:
        app.include_router(router)


def _operation_id(route: APIRoute) -> str:
    """Operations are called like the calls of the client and the rules of authorization."""
    return route.name


def _health(chosen: ApiSettings) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def healthz() -> dict[str, bool]:
        """Whether the scheduler is up and decides; needs no token."""
        if not chosen.healthy():
            message = "The scheduler is up but does not decide; its log says why."
            raise Unavailable(message)
        return {"ok": True}

    return router


def _observe(app: FastAPI, counted: Metrics) -> None:
    """Count requests by route, and add the headers that every answer has."""

    @app.middleware("http")
    async def observe(
        request: Request, proceed: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        begun = time.perf_counter()
        response = await proceed(request)
        route = request.scope.get("route")
        name = getattr(route, "name", None) or "none"
        counted.request(request.method, name, response.status_code, time.perf_counter() - begun)
        for header, value in _HEADERS.items():
            response.headers[header] = value
        return response
