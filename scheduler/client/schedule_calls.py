"""Every call about schedules as a pure value."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.client.call import Call, path_of


def schedules(cursor: str | None = None, *, name: str | None = None) -> Call[models.ScheduleList]:
    """A page of schedules that the caller may see; with a name those that are called so."""
    asked = {"cursor": cursor, "name": name}
    query = {field: value for field, value in asked.items() if value is not None}
    return Call(method="GET", path=path_of("schedules"), answer=models.ScheduleList, query=query)


def schedule_times(cron: str, time_zone: str) -> Call[models.ScheduleTimes]:
    """The next five times that a schedule would have."""
    query = {"schedule": cron, "time_zone": time_zone}
    return Call(
        method="GET", path=path_of("schedule-times"), answer=models.ScheduleTimes, query=query
    )


def schedule(owner: str, name: str) -> Call[models.ScheduleView]:
    """One schedule, with its next times and its last runs."""
    return Call(method="GET", path=path_of("schedules", owner, name), answer=models.ScheduleView)


def put_schedule(
    owner: str, name: str, request: models.ScheduleRequest
) -> Call[models.ScheduleView]:
    """Make a schedule of one's own, or write it anew."""
    path = path_of("schedules", owner, name)
    return Call(method="PUT", path=path, answer=models.ScheduleView, body=request)


def suspend_schedule(owner: str, name: str) -> Call[models.ScheduleView]:
    """Start no more runs."""
    path = path_of("schedules", owner, name, "suspend")
    return Call(method="POST", path=path, answer=models.ScheduleView)


def resume_schedule(owner: str, name: str) -> Call[models.ScheduleView]:
    """Start runs again, from the next time on."""
    path = path_of("schedules", owner, name, "resume")
    return Call(method="POST", path=path, answer=models.ScheduleView)


def run_schedule(owner: str, name: str) -> Call[models.ScheduleView]:
    """Start a run of one's own as soon as the scheduler looks."""
    path = path_of("schedules", owner, name, "run")
    return Call(method="POST", path=path, answer=models.ScheduleView)


def post_metric(owner: str, name: str, posted: models.MetricPost) -> Call[models.ScheduleView]:
    """Post a value of a metric that its triggers watch."""
    path = path_of("schedules", owner, name, "metrics")
    return Call(method="POST", path=path, answer=models.ScheduleView, body=posted)


def promote_schedule(
    owner: str, name: str, chosen: models.PromotionRequest
) -> Call[models.ScheduleView]:
    """Let the model of one of its runs be the promoted one."""
    path = path_of("schedules", owner, name, "promote")
    return Call(method="POST", path=path, answer=models.ScheduleView, body=chosen)


def drop_schedule(owner: str, name: str) -> Call[models.ScheduleView]:
    """Remove a schedule; its jobs stay."""
    return Call(method="DELETE", path=path_of("schedules", owner, name), answer=models.ScheduleView)
