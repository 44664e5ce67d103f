"""Routes of schedules."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from gpucommons.scheduler import models
from gpucommons.scheduler.api.caller import AnyCaller
from gpucommons.scheduler.api.routes.routers import a_router
from gpucommons.scheduler.models.jobs.schedules import MetricPost, PromotionRequest
from gpucommons.scheduler.service.schedules import promotions, schedules, triggers

router = a_router("schedules")

Owner = Annotated[models.UserName, Path()]
ScheduleName = Annotated[models.Name, Path()]


@router.get("/schedules", name="schedules")
async def list_schedules(
    caller: AnyCaller,
    name: Annotated[models.Name | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=schedules.MAX_LISTED)] = schedules.MAX_LISTED,
    cursor: Annotated[str | None, Query(max_length=400)] = None,
) -> models.ScheduleList:
    """A page of schedules that the caller may see, by owner and name; with a name those called so."""
    return await caller.run(schedules.schedules, name=name, limit=limit, cursor=cursor)


@router.get("/schedule-times")
async def schedule_times(
    caller: AnyCaller,
    schedule: Annotated[models.Cron, Query()],
    time_zone: Annotated[models.TimeZone, Query()] = "UTC",
) -> models.ScheduleTimes:
    """The next five times that a schedule would have."""
    return await caller.run(schedules.times_of, schedule, time_zone)


@router.get("/schedules/{owner}/{name}", name="schedule")
async def one_schedule(owner: Owner, name: ScheduleName, caller: AnyCaller) -> models.ScheduleView:
    """A schedule, its next times, and what became of the last ones."""
    return await caller.run(schedules.schedule, owner, name)


@router.put("/schedules/{owner}/{name}")
async def put_schedule(
    owner: Owner, name: ScheduleName, request: models.ScheduleRequest, caller: AnyCaller
) -> models.ScheduleView:
    """Make a schedule of one's own, or write it anew; its runs stay on record."""
    return await caller.run_dear(schedules.put_schedule, owner, name, request)


@router.post("/schedules/{owner}/{name}/suspend")
async def suspend_schedule(
    owner: Owner, name: ScheduleName, caller: AnyCaller
) -> models.ScheduleView:
    """Start no more runs; one that goes on is left alone."""
    return await caller.run(schedules.suspend_schedule, owner, name)


@router.post("/schedules/{owner}/{name}/resume")
async def resume_schedule(
    owner: Owner, name: ScheduleName, caller: AnyCaller
) -> models.ScheduleView:
    """Start runs again, from the next time on."""
    return await caller.run(schedules.resume_schedule, owner, name)


@router.post("/schedules/{owner}/{name}/run")
async def run_schedule(owner: Owner, name: ScheduleName, caller: AnyCaller) -> models.ScheduleView:
    """Start a run of one's own as soon as the scheduler looks, also of a suspended schedule."""
    return await caller.run(schedules.run_schedule, owner, name)


@router.post("/schedules/{owner}/{name}/metrics")
async def post_metric(
    owner: Owner, name: ScheduleName, posted: MetricPost, caller: AnyCaller
) -> models.ScheduleView:
    """Post a value of a metric; where it falls below that of a trigger, a run starts."""
    return await caller.run(triggers.post_metric, owner, name, posted)


@router.post("/schedules/{owner}/{name}/promote")
async def promote_schedule(
    owner: Owner, name: ScheduleName, chosen: PromotionRequest, caller: AnyCaller
) -> models.ScheduleView:
    """Let the model of one of its runs be the promoted one."""
    return await caller.run(promotions.promote_schedule, owner, name, chosen)


@router.delete("/schedules/{owner}/{name}")
async def drop_schedule(owner: Owner, name: ScheduleName, caller: AnyCaller) -> models.ScheduleView:
    """Remove a schedule; its jobs stay."""
    return await caller.run(schedules.drop_schedule, owner, name)
