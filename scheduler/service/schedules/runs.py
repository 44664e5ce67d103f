"""The start of a run that is due: the job that was stored, submitted as its owner of today."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Workload
from gpucommons.scheduler.models.jobs.jobs import DATA_VERSION_LABEL, MOST_LABELS
from gpucommons.scheduler.parents import Parent, ParentId, ParentKind
from gpucommons.scheduler.schedules.due_runs import Start
from gpucommons.scheduler.schedules.schedule import Schedule
from gpucommons.scheduler.service.jobs import run_again
from gpucommons.scheduler.service.jobs.owners import owner_of
from gpucommons.scheduler.service.service import Service


def submit_run(service: Service, schedule: Schedule, due: Start) -> models.JobView:
    """Submit the job of one time as its owner; a repeated call answers with the same job.

    Raises
    ------
    Unavailable
        While it is not known who its owner is today, or nothing can be stored.
    SchedulerError
        When the job is refused.
    """
    owner = owner_of(
        service, schedule.owner, by_operator=schedule.by_operator, server=schedule.server
    )
    request = stored_request(schedule)
    # A job has so many labels at most; this one is the first to go.
    if due.version and len(request.labels) < MOST_LABELS:
        request = request.model_copy(
            update={"labels": {**request.labels, DATA_VERSION_LABEL: due.version}}
        )
    return run_again.submit_of_parent(
        service, owner, request, key=_key(schedule, due), part_of=part_of(schedule)
    )


def part_of(schedule: Schedule) -> Parent:
    """What all jobs of a schedule are part of."""
    return Parent(
        parent_id=ParentId(schedule.schedule_id), kind=ParentKind.SCHEDULE, name=schedule.name
    )


def run_of(service: Service, schedule: Schedule, due: Start) -> Workload | None:
    """The job that :func:`submit_run` made of this time; None where it made none."""
    return run_again.scheduled_job(service, schedule.owner, key=_key(schedule, due))


def stored_request(schedule: Schedule) -> models.JobRequest:
    """The job that its runs are."""
    return run_again.stored_request(
        schedule.request, of=schedule.name, remedy="write the schedule anew"
    )


def _key(schedule: Schedule, due: Start) -> str:
    # Triggers have times of their own, which may be those of the calendar.
    of = f"{due.of}-" if due.of else ""
    return f"schedule-{schedule.schedule_id}-{of}{due.due_ms}"
