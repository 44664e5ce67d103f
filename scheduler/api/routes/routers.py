"""What all routers share, so that the application takes their routes as they are.

FastAPI derives the fields of a route anew where an application includes its router with a prefix or
with answers of its own: 0.1 s of computing at the first request of every process. Here each router
has them from the start, and its routes are made once, when their module is imported.
"""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from gpucommons.scheduler.api import errors


def a_router(tag: str, *, prefix: str = "/v1") -> APIRouter:
    """A router whose routes stand under one heading of the OpenAPI document."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        responses=errors.REFUSALS,
        generate_unique_id_function=operation_id,
    )


def operation_id(route: APIRoute) -> str:
    """Operations are called like the calls of the client and the rules of authorization."""
    return route.name


def take_routes(app: FastAPI, *routers: APIRouter) -> None:
    """Have the application answer what these routers do."""
    for router in routers:
        app.router.routes.extend(router.routes)
