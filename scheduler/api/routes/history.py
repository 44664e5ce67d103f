"""Routes of what happened: events, reports, and metrics for Prometheus."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool

from gpucommons.scheduler import models
from gpucommons.scheduler.api.caller import AnyCaller
from gpucommons.scheduler.api.routes.jobs import WaitS
from gpucommons.scheduler.api.routes.routers import a_router
from gpucommons.scheduler.models.reports import Utilisation
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.administration import history, usage_report
from gpucommons.scheduler.service.administration import utilisation as over_time
from gpucommons.scheduler.service.advice import past

router = a_router("history")
unversioned = a_router("history", prefix="")


@router.get("/events")
async def events(  # noqa: PLR0913 - the filters of one feed, all optional and named
    *,
    caller: AnyCaller,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    job: Annotated[models.Ref | None, Query()] = None,
    kinds: Annotated[str, Query(pattern=r"^[a-z-]{0,64}(,[a-z-]{1,64}){0,31}$")] = "",
    newest: Annotated[int | None, Query(ge=0, le=1000)] = None,
    wait_s: WaitS = 0,
) -> models.EventList:
    """Events after a cursor that the caller may see; ``wait_s`` waits for new ones, ``newest`` never."""
    where = history.EventFilter(
        after=after,
        job=job,
        kinds=frozenset(kind for kind in kinds.split(",") if kind),
        newest=newest,
        wait_s=wait_s,
    )
    if newest is None:
        return await caller.run(history.events, where)
    run = caller.run_dear if where.of_receipts else caller.run
    return await run(history.newest_events, where)


@router.get("/report")
async def report(
    caller: AnyCaller,
    from_ms: Annotated[int, Query(ge=0, le=4_102_444_800_000)],
    to_ms: Annotated[int, Query(ge=0, le=4_102_444_800_000)],
    *,
    drawn: bool = False,
    sample: bool = False,
) -> models.Report:
    """Usage by team, user and project in a span; ``drawn``: also by day and week; ``sample``: of the
    demo's sample data.
    """
    return await caller.run_dear(
        usage_report.report, from_ms=from_ms, to_ms=to_ms, drawn=drawn, sample=sample
    )


@router.get("/utilisation")
async def utilisation(
    caller: AnyCaller,
    days: Annotated[int, Query(ge=1, le=400)] = 90,
    pool: Annotated[models.Name | None, Query()] = None,
    team: Annotated[models.Name | None, Query()] = None,
    *,
    sample: bool = False,
) -> Utilisation:
    """GPUs allocated beside GPUs used, over time (admins; leads their teams)."""
    asked = over_time.Asked(days=days, pool=pool, team=team, sample=sample)
    return await caller.run_dear(over_time.utilisation, asked)


@router.get("/calibration")
async def calibration(
    caller: AnyCaller, days: Annotated[int, Query(ge=1, le=400)] = 90, *, sample: bool = False
) -> models.CalibrationView:
    """How often windows and plans were right: of all teams, without names."""
    return await caller.run_dear(past.calibration, days=days, sample=sample)


@unversioned.get("/metrics", response_class=Response)
async def metrics(request: Request, caller: AnyCaller) -> Response:
    """Numbers for Prometheus (text)."""
    authorization.cluster.metrics(caller.principal)
    text = await run_in_threadpool(generate_latest, request.app.state.metrics)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
