"""Use cases about schedules: write, look, start a run, suspend, resume, drop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from gpucommons.scheduler import models
from gpucommons.scheduler.amount_words import size_words
from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName
from gpucommons.scheduler.errors import BadRequest, Misconfigured, PolicyRefused
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL, SCHEDULE_ORIGIN
from gpucommons.scheduler.principal import Principal, PrincipalKind
from gpucommons.scheduler.schedules import cron_times
from gpucommons.scheduler.schedules.due_runs import next_by_hand, next_look_ms
from gpucommons.scheduler.schedules.schedule import (
    Concurrency,
    Schedule,
    Scheduled,
    ScheduleId,
    Standing,
    too_many,
)
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.jobs import run_again, snapshots
from gpucommons.scheduler.service.jobs.environments import script_reader
from gpucommons.scheduler.service.jobs.jobs import check_labels, checked_in_time
from gpucommons.scheduler.service.jobs.owners import owner_of
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.schedules.finding import find, note
from gpucommons.scheduler.service.schedules.promotions import promote_of
from gpucommons.scheduler.service.schedules.runs import stored_request
from gpucommons.scheduler.service.schedules.triggers import posted_still, triggers_of
from gpucommons.scheduler.service.schedules.views import schedule_view, schedule_views
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.jobs import request_of

#: Of one user.
MAX_SCHEDULES = 50
#: Of the files that the schedules of one user keep, together.
MAX_KEPT_BYTES = 4 << 30
#: In a list.
_LISTED_RUNS = 3
#: More than the page shows, so that it asks seldom.
MAX_LISTED = 200
#: What belongs to one submit and not to many.
_ONCE = ("after", "after_any", "after_failed", "not_before_ms", "parent", "resume_from")


def put_schedule(
    service: Service,
    principal: Principal,
    owner: str,
    name: str,
    request: models.ScheduleRequest,
) -> models.ScheduleView:
    """Make a schedule, or replace what was written of it; its runs stay on record.

    Its job is checked as if it were submitted now, and keeps the files and the environment of now.
    """
    authorization.schedules.put_schedule(principal, owner)
    now_ms = service.now_ms()
    if request.schedule is not None:
        cron_times.check(request.schedule, request.time_zone, now_ms)
    mine, known = _mine(service, UserName(owner), name)
    by_operator = principal.kind is PrincipalKind.LOCAL and principal.admin
    runs_as = owner_of(
        service, UserName(owner), by_operator=by_operator, server=principal.server_name
    )
    job = _job_of(service, principal, runs_as, name, request)
    _check_bytes(service, [one.schedule for one in mine if one is not known], job.snapshot)
    before = None if known is None else known.schedule
    held = before is not None and before.held
    suspended = request.suspend or held
    triggers = triggers_of(service, principal, name, request.triggers, before)
    made = Schedule(
        schedule_id=before.schedule_id if before else ScheduleId(next(service.new_ids)),
        name=name,
        owner=UserName(owner),
        team=TeamName(job.team or ""),
        cron=request.schedule or "",
        time_zone=request.time_zone,
        concurrency=Concurrency(request.concurrency_policy),
        starting_deadline_s=request.starting_deadline_s,
        suspended=suspended,
        held=held,
        asked_ms=Millis(0) if before is None else before.asked_ms,
        since_ms=now_ms,
        resumed_ms=_resumed_ms(before, suspended=suspended, now_ms=now_ms),
        request=job.model_dump_json(exclude_defaults=True),
        snapshot=job.snapshot,
        by_operator=by_operator,
        server=principal.server_name,
        triggers=triggers,
        posted=posted_still(before, triggers),
        promote=promote_of(request),
        chosen=None if before is None else before.chosen,
    )
    return _stored(service, principal, made, known, "written")


def _mine(
    service: Service, owner: UserName, name: str
) -> tuple[Sequence[Scheduled], Scheduled | None]:
    """All that a user has, and the one of this name; refused where a new one would be too many."""
    mine = service.store.schedules.all(owner)
    known = next((one for one in mine if one.schedule.name == name), None)
    if known is None and len(mine) >= MAX_SCHEDULES:
        # Before anything is checked and put on record; the store counts again.
        raise too_many(owner, len(mine))
    return mine, known


def _job_of(
    service: Service,
    principal: Principal,
    runs_as: Principal,
    name: str,
    request: models.ScheduleRequest,
) -> models.JobRequest:
    """What its runs are submitted with: complete, good for many times, and checked as each of them is."""
    if request.repeat is not None:
        found = find_job(service, principal, request.repeat)
        snapshots.check_may_run(service, principal, found)
        if snapshots.has_a_key(service, found.spec.snapshot):
            message = (
                f"{found.spec.name} is the workers of a notebook's cluster, and nothing without it: repeat a"
                " job that begins a cluster of its own."
            )
            raise Misconfigured(message)
        job = run_again.own_request(principal, found)
    else:
        assert request.job is not None  # noqa: S101 - the model wants one of the two
        job = request.job
        once = [field for field in _ONCE if getattr(job, field)]
        check_labels(principal, job)
        if once:
            message = f"job: {', '.join(once)} is of one submit alone, and this one is repeated: leave it out."
            raise Misconfigured(message)
    job = job.model_copy(
        update={
            "name": name,
            "user": None,
            "parent": None,
            "kind": request.kind,
            "priority": _priority(request),
            "labels": {**job.labels, ORIGIN_LABEL: f"{SCHEDULE_ORIGIN}{name}"},
        }
    )
    # As each of its runs will be, also where it was a job before.
    spec = checked_in_time(service, runs_as, job, script_reader(service, job))
    return request_of(spec).model_copy(update={"near": []})


def _check_bytes(service: Service, others: list[Schedule], snapshot: str | None) -> None:
    """Files are kept for as long as their schedules: without a bound, somebody's would fill the disk."""
    kept = {one.snapshot for one in others if one.snapshot is not None}
    if snapshot is None or snapshot in kept:
        return
    more = service.snapshots.size_bytes(snapshot)
    before = sum(service.snapshots.size_bytes(one) for one in kept)
    if before + more > MAX_KEPT_BYTES:
        message = (
            f"The files of your schedules take {size_words(before)}, and the {size_words(more)} of this one are"
            f" more than the {size_words(MAX_KEPT_BYTES)} that are kept for one user: remove a schedule,"
            " or leave data files out."
        )
        raise PolicyRefused(message)


def _priority(request: models.ScheduleRequest) -> Literal["low", "normal", "high"]:
    """What was said of the schedule, or in its job; else they come last."""
    job = request.job
    if request.priority is not None or job is None or "priority" not in job.model_fields_set:
        return request.priority or "low"
    return job.priority


def schedules(
    service: Service,
    principal: Principal,
    *,
    name: str | None = None,
    limit: int = MAX_LISTED,
    cursor: str | None = None,
) -> models.ScheduleList:
    """A page of those that the caller may see; with a name those that are called so."""
    authorization.schedules.schedules(principal)
    sight = authorization.sight.of(principal)
    found = service.store.schedules.page(sight, after=_behind(cursor), limit=limit + 1, name=name)
    last = found[limit - 1].schedule if len(found) > limit else None
    return models.ScheduleList(
        schedules=schedule_views(service, principal, found[:limit], runs=_LISTED_RUNS),
        cursor=None if last is None else f"{last.owner}/{last.name}",
    )


def _behind(cursor: str | None) -> tuple[str, str]:
    if cursor is None:
        return ("", "")
    owner, slash, name = cursor.rpartition("/")
    if not slash:
        raise BadRequest("cursor: take the one that the page before gave.")
    return owner, name


def times_of(
    service: Service, principal: Principal, cron: str, time_zone: str
) -> models.ScheduleTimes:
    """The next five times that a schedule would have."""
    authorization.schedules.schedule_times(principal)
    return models.ScheduleTimes(next_ms=list(cron_times.check(cron, time_zone, service.now_ms())))


def schedule(service: Service, principal: Principal, owner: str, name: str) -> models.ScheduleView:
    """One schedule; its owner sees what runs as it is stored, too."""
    found = find(service, principal, owner, name)
    view = schedule_view(service, principal, found)
    if not view.mine:
        return view
    try:
        return view.model_copy(update={"job": stored_request(found.schedule)})
    except Misconfigured:
        return view  # as its words say


def run_schedule(
    service: Service, principal: Principal, owner: str, name: str
) -> models.ScheduleView:
    """Start a run as soon as the scheduler looks, also of one that is suspended."""
    found = find(service, principal, owner, name)
    authorization.schedules.run_schedule(principal, found.schedule)
    made = replace(found.schedule, asked_ms=next_by_hand(service.now_ms()))
    if made == found.schedule:
        return schedule_view(service, principal, found)
    return _stored(service, principal, made, found, "started by hand")


def suspend_schedule(
    service: Service, principal: Principal, owner: str, name: str
) -> models.ScheduleView:
    """Start no more runs; one that goes on is left alone. What others suspend, the owner cannot lift."""
    found = find(service, principal, owner, name)
    authorization.schedules.suspend_schedule(principal, found.schedule)
    held = found.schedule.held or found.schedule.owner != principal.name
    return _changed(
        service, principal, found, replace(found.schedule, suspended=True, held=held), "suspended"
    )


def resume_schedule(
    service: Service, principal: Principal, owner: str, name: str
) -> models.ScheduleView:
    """Start runs again, from the next time on."""
    found = find(service, principal, owner, name)
    schedule = found.schedule
    authorization.schedules.resume_schedule(principal, schedule)
    resumed_ms = _resumed_ms(schedule, suspended=False, now_ms=service.now_ms())
    made = replace(schedule, suspended=False, held=False, resumed_ms=resumed_ms)
    return _changed(service, principal, found, made, "resumed")


def _resumed_ms(before: Schedule | None, *, suspended: bool, now_ms: Millis) -> Millis:
    if before is None:
        return Millis(0)
    return now_ms if before.suspended and not suspended else before.resumed_ms


def drop_schedule(
    service: Service, principal: Principal, owner: str, name: str
) -> models.ScheduleView:
    """Remove a schedule; its jobs stay. Answers with what it was."""
    found = find(service, principal, owner, name)
    authorization.schedules.drop_schedule(principal, found.schedule)
    service.ask(principal, note(found.schedule, "removed"))
    service.store.schedules.drop(found.schedule.schedule_id)
    return schedule_view(service, principal, found)


def _changed(
    service: Service, principal: Principal, found: Scheduled, schedule: Schedule, change: str
) -> models.ScheduleView:
    if schedule == found.schedule:
        return schedule_view(service, principal, found)
    made = replace(schedule, since_ms=service.now_ms())
    return _stored(service, principal, made, found, change)


def _stored(
    service: Service, principal: Principal, made: Schedule, known: Scheduled | None, change: str
) -> models.ScheduleView:
    standing = Standing() if known is None else known.standing
    scheduled = Scheduled(schedule=made, standing=standing)
    service.ask(principal, note(made, change))
    before = None if known is None else known.schedule
    next_ms = next_look_ms(scheduled)
    with service.refusal_on_record(
        principal, lambda error: note(made, change, f"not {change}: {error}")
    ):
        service.store.schedules.put(made, next_ms=next_ms, before=before, most=MAX_SCHEDULES)
    return schedule_view(service, principal, scheduled)
