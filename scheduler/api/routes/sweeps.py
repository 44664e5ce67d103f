"""Routes of sweeps and maps."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from gpucommons.scheduler import models
from gpucommons.scheduler.api.caller import AnyCaller, IdempotencyKey
from gpucommons.scheduler.api.routes.routers import a_router
from gpucommons.scheduler.service.jobs import sweeps

router = a_router("sweeps")

SweepRef = Annotated[models.Ref, Path()]


@router.post("/sweeps", status_code=201)
async def submit_sweep(
    request: models.SweepRequest, caller: AnyCaller, key: IdempotencyKey = None
) -> models.SweepView:
    """Submit a sweep over a search space, or a map over a list; answered as soon as it is durable."""
    return await caller.run_dear(sweeps.submit_sweep, request, key=key)


@router.get("/sweeps", name="sweeps")
async def list_sweeps(
    *,
    caller: AnyCaller,
    limit: Annotated[int, Query(ge=1, le=sweeps.MAX_LISTED)] = sweeps.MAX_LISTED,
    cursor: Annotated[models.Id | None, Query()] = None,
    owner: Annotated[models.UserName | None, Query()] = None,
    live: Annotated[bool, Query()] = False,
) -> models.SweepList:
    """A page of sweeps and maps that the caller may see, newest first.

    `owner`: only theirs; `live`: only those that go on.
    """
    # Who asks for those that go on goes through all pages, and each is counted up from its trials.
    run = caller.run_dear if live else caller.run
    return await run(sweeps.sweeps, limit=limit, cursor=cursor, owner=owner, live=live)


@router.post("/sweeps/{ref:path}/stop")
async def stop_sweep(ref: SweepRef, caller: AnyCaller) -> models.SweepView:
    """End it: its jobs that are not over are cancelled, and what they told stays."""
    return await caller.run(sweeps.stop_sweep, ref)


@router.post("/sweeps/{ref:path}/leave-out")
async def leave_out(
    ref: SweepRef, request: models.LeaveOutRequest, caller: AnyCaller
) -> models.SweepView:
    """Jobs of a list that are not to run, by number; those that have begun are cancelled."""
    return await caller.run(sweeps.leave_out, ref, request)


@router.post("/sweeps/{ref:path}/budget")
async def add_to_budget(
    ref: SweepRef,
    request: models.MoreBudgetRequest,
    caller: AnyCaller,
    key: IdempotencyKey = None,
) -> models.SweepView:
    """Add trials, GPU hours or time; a sweep that was over goes on."""
    return await caller.run(sweeps.add_to_budget, ref, request, key=key)


@router.get("/sweeps/{ref:path}/figures", name="sweep_figures")
async def sweep_figures(ref: SweepRef, caller: AnyCaller) -> models.SweepFigures:
    """Its GPUs over time, and which parameters matter."""
    return await caller.run_dear(sweeps.figures, ref)


@router.get("/sweeps/{ref:path}", name="sweep")
async def one_sweep(ref: SweepRef, caller: AnyCaller) -> models.SweepView:
    """A sweep with its trials, best first."""
    return await caller.run(sweeps.sweep, ref)
