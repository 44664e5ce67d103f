"""Routes of notebooks' leases and tickets."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from gpucommons.scheduler import models
from gpucommons.scheduler.api.caller import AnyCaller, IdempotencyKey
from gpucommons.scheduler.api.routes.routers import a_router
from gpucommons.scheduler.core.model.types import State
from gpucommons.scheduler.service import idle, leases, notebook_offers, parking, why

router = a_router("notebooks")

ServerName = Annotated[models.ServerName, Query()]


@router.get("/offers")
async def offers(
    caller: AnyCaller,
    user: Annotated[models.UserName | None, Query()] = None,
    server_name: ServerName = "",
) -> models.OfferList:
    """What the user may open right now."""
    return await caller.run_dear(notebook_offers.offers, user, server_name)


@router.post("/leases/acquire")
async def acquire(
    request: models.LeaseRequest, caller: AnyCaller, key: IdempotencyKey = None
) -> models.LeaseView:
    """Redeem this server's grant or take a free slice in this cycle, else ``NoFreeSlice``."""
    return await caller.run(leases.acquire, request, key=key)


@router.post("/leases", status_code=201)
async def wait_in_line(
    request: models.LeaseRequest, caller: AnyCaller, key: IdempotencyKey = None
) -> models.LeaseView:
    """Take a ticket: a lease that waits; the server starts by itself on its turn."""
    return await caller.run(leases.wait_in_line, request, key=key)


@router.get("/leases", name="leases")
async def list_leases(
    caller: AnyCaller,
    state: Annotated[State | None, Query()] = None,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
) -> models.LeaseList:
    """Leases and tickets; those of other teams without names."""
    return await caller.run(leases.leases, state=state, cursor=cursor)


@router.get("/lease")
async def my_lease(
    caller: AnyCaller,
    server_name: Annotated[models.ServerName | None, Query()] = None,
) -> models.LeaseView:
    """The lease of the calling notebook server."""
    return await caller.run(leases.my_lease, server_name)


@router.get("/leases/{lease_id}")
async def lease(lease_id: models.Id, caller: AnyCaller) -> models.LeaseView:
    """One lease or ticket."""
    return await caller.run(leases.lease, lease_id)


@router.get("/leases/{lease_id}/why")
async def why_lease(lease_id: models.Id, caller: AnyCaller) -> models.Why:
    """Why a ticket waits, when it will likely start, and what would start it now."""
    return await caller.run_dear(why.why_lease, lease_id)


@router.post("/leases/{lease_id}/started")
async def started(
    lease_id: models.Id, report: models.StartedReport, caller: AnyCaller
) -> models.LeaseView:
    """The server of a granted lease runs."""
    return await caller.run(leases.started, lease_id, report)


@router.post("/leases/{lease_id}/end")
async def end_lease(
    lease_id: models.Id, report: models.EndReport, caller: AnyCaller
) -> models.LeaseView:
    """The server is gone, or the owner leaves the line."""
    return await caller.run(leases.end_lease, lease_id, report)


@router.post("/leases/{lease_id}/keep")
async def keep(
    lease_id: models.Id, request: models.KeepRequest, caller: AnyCaller
) -> models.LeaseView:
    """*Keep 30 min*."""
    return await caller.run(leases.keep, lease_id, request)


@router.post("/leases/{lease_id}/drop")
async def drop(lease_id: models.Id, caller: AnyCaller) -> models.LeaseView:
    """*Drop to CPU*: restart the server without its device; it says what is kept of its kernels."""
    return await caller.run(leases.drop, lease_id)


@router.post("/leases/{lease_id}/hibernate")
async def hibernate(
    lease_id: models.Id, request: models.HibernateRequest, caller: AnyCaller
) -> models.LeaseView:
    """*Hibernate*: the server saves its kernels and stops; only where it said that it can."""
    return await caller.run(idle.hibernate, lease_id, request)


@router.post("/leases/{lease_id}/park")
async def park(
    lease_id: models.Id, request: models.ParkRequest, caller: AnyCaller
) -> models.LeaseView:
    """*Park*: its GPU memory goes to the host and its GPU is free; only where its server said it can."""
    return await caller.run(parking.park, lease_id, request)


@router.put("/leases/{lease_id}/parked")
async def report_parked(
    lease_id: models.Id, report: models.ParkedReport, caller: AnyCaller
) -> models.LeaseView:
    """What came of it: its GPU is free once its node sees nothing of it there."""
    return await caller.run(parking.report_parked, lease_id, report)


@router.post("/leases/{lease_id}/unpark")
async def unpark(
    lease_id: models.Id, request: models.UnparkRequest, caller: AnyCaller
) -> models.LeaseView:
    """A parked notebook waits in line to have its GPU back, or waits no longer."""
    return await caller.run(parking.unpark, lease_id, request)


@router.put("/leases/{lease_id}/on-idle")
async def choose_on_idle(
    lease_id: models.Id, request: models.OnIdleRequest, caller: AnyCaller
) -> models.LeaseView:
    """What is to become of the notebook when it was idle for too long."""
    return await caller.run(idle.choose_on_idle, lease_id, request)


@router.post("/leases/{lease_id}/reclaim")
async def reclaim(
    lease_id: models.Id, request: models.ReclaimRequest, caller: AnyCaller
) -> models.LeaseView:
    """Take an idle notebook's GPU back after its warning; busy ones need force."""
    return await caller.run(idle.reclaim, lease_id, request)


@router.post("/leases/{lease_id}/resize")
async def resize(
    lease_id: models.Id, request: models.ResizeRequest, caller: AnyCaller
) -> models.LeaseView:
    """Another memory limit for a notebook's slice, while it is in use."""
    return await caller.run(leases.resize, lease_id, request)


@router.put("/leases/{lease_id}/activity")
async def report_activity(
    lease_id: models.Id, report: models.ActivityReport, caller: AnyCaller
) -> models.LeaseView:
    """What the notebook server does right now."""
    return await caller.run(idle.report_activity, lease_id, report)


@router.put("/leases/{lease_id}/kept")
async def report_kept_kernels(
    lease_id: models.Id, report: models.KeptKernelsReport, caller: AnyCaller
) -> models.LeaseView:
    """What is kept of its kernels while its server is stopped; all zero = nothing any more."""
    return await caller.run(leases.report_kept_kernels, lease_id, report)


@router.get("/activities")
async def activities(caller: AnyCaller) -> models.ActivityList:
    """All leases that hold a device, with what the culler decides on."""
    return await caller.run(idle.activities)


@router.get("/leases/{lease_id}/activity")
async def activity(lease_id: models.Id, caller: AnyCaller) -> models.ActivityView:
    """One lease's activity, read anew: the re-check before acting."""
    return await caller.run(idle.activity, lease_id)


@router.put("/leases/{lease_id}/idle")
async def report_idle(
    lease_id: models.Id, report: models.IdleReport, caller: AnyCaller
) -> models.LeaseView:
    """Idle since, returned at; both None = active again."""
    return await caller.run(idle.report_idle, lease_id, report)
