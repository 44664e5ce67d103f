"""A schedule that somebody may see, and what is put on record of it."""

from __future__ import annotations

from gpucommons.scheduler.core.model.intents import NoteSchedule
from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.errors import NotFound
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.schedules.schedule import Schedule, Scheduled
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.service import Service


def note(schedule: Schedule, change: str, words: str = "") -> NoteSchedule:
    """On record first, as all that people change is; and bounded as all that they ask for."""
    return NoteSchedule(
        kind=f"schedule-{change.replace(' ', '-')}",
        text=f"schedule {schedule.name} of {schedule.owner} was {words or change}",
        team=schedule.team,
        data={"owner": schedule.owner, "name": schedule.name, "schedule": schedule.cron},
    )


def find(service: Service, principal: Principal, owner: str, name: str) -> Scheduled:
    """One that is there and theirs to see.

    Raises
    ------
    NotFound
        Where it is not.
    """
    authorization.schedules.schedules(principal)
    for found in service.store.schedules.all(UserName(owner)):
        if found.schedule.name == name:
            authorization.schedules.schedule(principal, found.schedule)
            return found
    raise NotFound(authorization.schedules.no_schedule(owner, name))
