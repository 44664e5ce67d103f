"""Routes for probes: whether the scheduler decides, and whether a new process would help. They need no token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request

from gpucommons.scheduler.api.routes.routers import a_router
from gpucommons.scheduler.errors import Unavailable

router = a_router("health", prefix="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """What probes ask for."""

    healthy: Callable[[], bool]
    #: Whether who asks now finds the teams and pools of the configuration.
    ready: Callable[[], bool]
    alive: Callable[[], bool]


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def healthz(request: Request) -> dict[str, bool]:
    """Whether the scheduler is up and decides; needs no token."""
    if not _health(request).healthy():
        message = "The scheduler is up but does not decide; its log says why."
        raise Unavailable(message)
    return {"ok": True}


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz")
async def readyz(request: Request) -> dict[str, bool]:
    """As ``/healthz``, and the configuration of a first start is in force; needs no token.

    One that stands by for the lead of its store says so, too; so does one whose configuration cannot be
    in force, as admins read there why.
    """
    answer = await healthz(request)
    if not _health(request).ready():
        message = "The scheduler is up; its teams and pools are there in a moment."
        raise Unavailable(message)
    return answer


@router.head("/livez", include_in_schema=False)
@router.get("/livez")
async def livez(request: Request) -> dict[str, bool]:
    """Whether it still tries, be it in vain: if not, a new process helps; needs no token."""
    if not _health(request).alive():
        message = "The scheduler is up but hangs: start it anew."
        raise Unavailable(message)
    return {"ok": True}


def _health(request: Request) -> Health:
    found: Health = request.app.state.health
    return found
