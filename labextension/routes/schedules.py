"""The route by which *Train* starts something again and again."""

from __future__ import annotations

import re
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from gpucommons.labextension.routes.files import FileHandler
from gpucommons.labextension.submission import Submission
from gpucommons.scheduler.client import calls, schedule_calls
from gpucommons.scheduler.errors import BadRequest, NotFound, SchedulerError
from gpucommons.scheduler.models import (
    Cron,
    JobRequest,
    Model,
    ScheduleRequest,
    ScheduleView,
    TimeZone,
)

_NUMBER = re.compile(r"-[0-9]+$")


class Scheduling(Model):
    """A file, or a job that was asked for before, and when it is to start."""

    schedule: Cron
    time_zone: TimeZone
    file: Submission | None = None
    job: JobRequest | None = None


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
        # What is no time is said before a file is packed.
        await scheduler.send(schedule_calls.schedule_times(asked.schedule, asked.time_zone))
        if asked.file is not None:
            job = await self.desk().pack(asked.file, scheduler)
        elif asked.job is not None:
            job = asked.job
        else:
            raise BadRequest("Say what is to run: file or job.")
        name = _NUMBER.sub("", job.name) or job.name
        owner = (await scheduler.send(calls.whoami())).name
        await _check_is_new(scheduler, owner, name)
        request = ScheduleRequest(schedule=asked.schedule, time_zone=asked.time_zone, job=job)
        view: ScheduleView = await scheduler.send(schedule_calls.put_schedule(owner, name, request))
        return view


async def _check_is_new(scheduler: Any, owner: str, name: str) -> None:
    try:
        known = await scheduler.send(schedule_calls.schedule(owner, name))
    except NotFound:
        return
    message = (
        f"You have a schedule {name} already ({known.schedule}, {known.what}): write another name"
        " under More…, or remove that one first."
    )
    raise BadRequest(message)
