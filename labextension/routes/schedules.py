"""The route by which *Train* starts something again and again."""

from __future__ import annotations

import re
from typing import Any

from jupyter_server.auth.decorator import authorized
from pydantic import Field
from tornado import web

from gpucommons.labextension.routes.files import FileHandler, FileOrJob
from gpucommons.scheduler.client import calls, schedule_calls
from gpucommons.scheduler.errors import BadRequest, NotFound, SchedulerError
from gpucommons.scheduler.models import (
    Cron,
    ScheduleRequest,
    ScheduleView,
    TimeZone,
)
from gpucommons.scheduler.models.jobs.schedules import PromoteRequest, TriggerRequest

_NUMBER = re.compile(r"-[0-9]+$")


class Scheduling(FileOrJob):
    """A file, or a job that was asked for before, and when it is to start."""

    schedule: Cron | None = None
    time_zone: TimeZone
    triggers: list[TriggerRequest] = Field(default_factory=list, max_length=8)
    promote: PromoteRequest | None = None


class ScheduleHandler(FileHandler):
    """``POST gpucommons/schedule``."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Pack, upload, schedule: the server's owner only."""
        try:
            self.require_owner()
            view = await self._schedule(self.body_as(Scheduling), self.scheduler())
        except SchedulerError as error:
            self.refuse(error)
        else:
            self.answer(view)

    async def _schedule(self, asked: Scheduling, scheduler: Any) -> ScheduleView:
        if asked.schedule is None and not asked.triggers:
            raise BadRequest("Say when: write times, or what starts it besides.")
        # What is no time is said before a file is packed.
        if asked.schedule is not None:
            await scheduler.send(schedule_calls.schedule_times(asked.schedule, asked.time_zone))
        job = await self.job_of(asked, scheduler)
        name = _NUMBER.sub("", job.name) or job.name
        owner = (await scheduler.send(calls.whoami())).name
        await _check_is_new(scheduler, owner, name)
        request = ScheduleRequest(
            schedule=asked.schedule,
            time_zone=asked.time_zone,
            triggers=asked.triggers,
            promote=asked.promote,
            job=job,
        )
        view: ScheduleView = await scheduler.send(schedule_calls.put_schedule(owner, name, request))
        return view


async def _check_is_new(scheduler: Any, owner: str, name: str) -> None:
    try:
        known = await scheduler.send(schedule_calls.schedule(owner, name))
    except NotFound:
        return
    message = (
        f"You have a schedule {name} already ({known.what}): write another name"
        " under More…, or remove that one first."
    )
    raise BadRequest(message)
