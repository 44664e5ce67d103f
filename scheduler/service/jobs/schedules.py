"""Use cases about schedules: write, look, suspend, resume, drop; and the start of a run that is due."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Literal

from pydantic import ValidationError

from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.state import NoteSchedule
from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName, Workload
from gpucommons.scheduler.errors import Forbidden, Misconfigured, NotFound, PolicyRefused
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL
from gpucommons.scheduler.parents import Parent, ParentId, ParentKind
from gpucommons.scheduler.principal import (
    Identity,
    Principal,
    PrincipalKind,
    read_rights,
    resolve,
)
from gpucommons.scheduler.schedules import times
from gpucommons.scheduler.schedules.deciding import RUNS_KEPT, next_look_ms
from gpucommons.scheduler.schedules.schedule import (
    Concurrency,
    Run,
    Schedule,
    Scheduled,
    ScheduleId,
    Standing,
)
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.jobs import repeating, snapshots
from gpucommons.scheduler.service.jobs.environments import script_reader
from gpucommons.scheduler.service.jobs.jobs import check_labels, checked_in_time
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.jobs import request_of

#: Of one user.
MAX_SCHEDULES = 50
#: In a list.
_LISTED_RUNS = 3
#: What belongs to one submit and not to many.
_ONCE = ("after", "not_before_ms", "parent", "resume_from")


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
    authorization.put_schedule(principal, owner)
    now_ms = service.now_ms()
    times.check(request.schedule, request.time_zone, now_ms)
    mine = service.store.schedules.all(UserName(owner))
    known = next((one for one in mine if one.schedule.name == name), None)
    if known is None and len(mine) >= MAX_SCHEDULES:
        message = f"{owner} has {len(mine)} schedules, as many as one may: remove one first."
        raise PolicyRefused(message)
    by_operator = principal.kind is PrincipalKind.LOCAL and principal.admin
    runs_as = owner_of(service, UserName(owner), by_operator=by_operator)
    job = _job_of(service, principal, runs_as, name, request)
    made = Schedule(
        schedule_id=known.schedule.schedule_id if known else ScheduleId(next(service.new_ids)),
        name=name,
        owner=UserName(owner),
        team=TeamName(job.team or ""),
        cron=request.schedule,
        time_zone=request.time_zone,
        concurrency=Concurrency(request.concurrency_policy),
        starting_deadline_s=request.starting_deadline_s,
        suspended=request.suspend,
        since_ms=now_ms,
        request=job.model_dump_json(exclude_defaults=True),
        snapshot=job.snapshot,
        by_operator=by_operator,
    )
    return _stored(service, principal, made, known, "written")


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
        job = repeating.own_request(principal, found)
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
            "labels": {**job.labels, ORIGIN_LABEL: f"schedule {name}"},
        }
    )
    if request.repeat is not None:
        spec = repeating.checked_again(service, runs_as, job, request.repeat)
    else:
        spec = checked_in_time(service, runs_as, job, script_reader(service, job))
    return request_of(spec).model_copy(update={"near": []})


def _priority(request: models.ScheduleRequest) -> Literal["low", "normal", "high"]:
    """What was said of the schedule, or in its job; else they come last."""
    job = request.job
    if request.priority is not None or job is None or "priority" not in job.model_fields_set:
        return request.priority or "low"
    return job.priority


def schedules(service: Service, principal: Principal) -> models.ScheduleList:
    """Those that the caller may see."""
    authorization.schedules(principal)
    seen = [
        _view(service, principal, one, runs=_LISTED_RUNS)
        for one in service.store.schedules.all()
        if authorization.sees(principal, one.schedule.team, one.schedule.owner)
    ]
    return models.ScheduleList(schedules=seen)


def schedule(service: Service, principal: Principal, owner: str, name: str) -> models.ScheduleView:
    """One schedule."""
    return _view(service, principal, _find(service, principal, owner, name))


def suspend_schedule(
    service: Service, principal: Principal, owner: str, name: str
) -> models.ScheduleView:
    """Start no more runs; one that goes on is left alone."""
    found = _find(service, principal, owner, name)
    authorization.suspend_schedule(principal, found.schedule)
    return _changed(service, principal, found, replace(found.schedule, suspended=True), "suspended")


def resume_schedule(
    service: Service, principal: Principal, owner: str, name: str
) -> models.ScheduleView:
    """Start runs again, from the next time on."""
    found = _find(service, principal, owner, name)
    authorization.resume_schedule(principal, found.schedule)
    return _changed(service, principal, found, replace(found.schedule, suspended=False), "resumed")


def drop_schedule(
    service: Service, principal: Principal, owner: str, name: str
) -> models.ScheduleView:
    """Remove a schedule; its jobs stay. Answers with what it was."""
    found = _find(service, principal, owner, name)
    authorization.drop_schedule(principal, found.schedule)
    _note(service, principal, found.schedule, "removed")
    service.store.schedules.drop(found.schedule.schedule_id)
    return _view(service, principal, found)


def _changed(
    service: Service, principal: Principal, found: Scheduled, schedule: Schedule, change: str
) -> models.ScheduleView:
    if schedule == found.schedule:
        return _view(service, principal, found)
    made = replace(schedule, since_ms=service.now_ms())
    return _stored(service, principal, made, found, change)


def _stored(
    service: Service, principal: Principal, made: Schedule, known: Scheduled | None, change: str
) -> models.ScheduleView:
    standing = Standing() if known is None else known.standing
    scheduled = Scheduled(schedule=made, standing=standing)
    _note(service, principal, made, change)
    service.store.schedules.put(made, next_ms=next_look_ms(scheduled))
    return _view(service, principal, scheduled)


def _note(service: Service, principal: Principal, schedule: Schedule, change: str) -> None:
    """On record first, as all that people change is; and bounded as all that they ask for."""
    action = NoteSchedule(
        kind=f"schedule-{change}",
        text=f"schedule {schedule.name} of {schedule.owner} was {change}",
        team=schedule.team,
        data={"owner": schedule.owner, "name": schedule.name, "schedule": schedule.cron},
    )
    service.ask(principal, action)


def _find(service: Service, principal: Principal, owner: str, name: str) -> Scheduled:
    authorization.schedules(principal)
    for found in service.store.schedules.all(UserName(owner)):
        if found.schedule.name == name:
            authorization.schedule(principal, found.schedule)
            return found
    raise NotFound(authorization.no_schedule(owner, name))


# --- a run that is due -----------------------------------------------------------------------


def submit_run(service: Service, schedule: Schedule, due_ms: Millis) -> models.JobView:
    """Submit the job of one time as its owner; a repeated call answers with the same job.

    Raises
    ------
    Unavailable
        While it is not known who its owner is today, or nothing can be stored.
    SchedulerError
        When the job is refused.
    """
    owner = owner_of(service, schedule.owner, by_operator=schedule.by_operator)
    request = _stored_request(schedule)
    part_of = Parent(
        parent_id=ParentId(schedule.schedule_id), kind=ParentKind.SCHEDULE, name=schedule.name
    )
    return repeating.submit_scheduled(
        service, owner, request, key=_key(schedule, due_ms), part_of=part_of
    )


def run_of(service: Service, schedule: Schedule, due_ms: Millis) -> Workload | None:
    """The job that :func:`submit_run` made of this time; None where it made none."""
    return repeating.scheduled_job(service, schedule.owner, key=_key(schedule, due_ms))


def _stored_request(schedule: Schedule) -> models.JobRequest:
    try:
        return models.JobRequest.model_validate_json(schedule.request)
    except ValidationError:
        message = (
            f"What was stored of {schedule.name} is not understood by this release of the scheduler:"
            " write the schedule anew."
        )
        raise Misconfigured(message) from None


def _key(schedule: Schedule, due_ms: Millis) -> str:
    return f"schedule-{schedule.schedule_id}-{due_ms}"


def owner_of(service: Service, user: UserName, *, by_operator: bool) -> Principal:
    """The owner with the teams of today and the right to submit; the operator is an admin besides."""
    if by_operator:
        kind, groups, scope = PrincipalKind.LOCAL, frozenset[str](), "custom:gpucommons:admin"
    else:
        if not service.directory.knows(user):
            message = f"JupyterHub knows no user {user} any more: their schedules start nothing."
            raise Forbidden(message)
        kind, groups = PrincipalKind.USER, service.directory.groups_of(user)
        scope = f"custom:gpucommons:submit!user={user}"
    identity = Identity(name=user, kind=kind, groups=groups, rights=read_rights([scope]))
    return resolve(identity, service.loop.cluster.teams)


# --- views -----------------------------------------------------------------------------------


def _view(
    service: Service, principal: Principal, scheduled: Scheduled, *, runs: int = RUNS_KEPT
) -> models.ScheduleView:
    found, standing = scheduled.schedule, scheduled.standing
    now_ms = service.now_ms()
    coming = () if found.suspended else times.after(found.cron, found.time_zone, now_ms)
    try:
        request = _stored_request(found)
        kind, what = str(request.kind), _what(request)
    except Misconfigured:
        kind, what = "", "what was stored is not understood"
    return models.ScheduleView(
        name=found.name,
        owner=found.owner,
        team=found.team,
        schedule=found.cron,
        time_zone=found.time_zone,
        concurrency_policy=found.concurrency.value,
        starting_deadline_s=found.starting_deadline_s,
        suspend=found.suspended,
        what=what,
        kind=kind,
        next_ms=list(islice(coming, 5)),
        hindrance="" if found.suspended or standing.starting_ms is None else standing.hindrance,
        runs=[_run(one) for one in reversed(standing.runs[-runs:])],
        steerable=authorization.steers(principal, found.team, found.owner),
    )


def _what(request: models.JobRequest) -> str:
    """``2 × ½ GPU: python train.py``."""
    role = request.roles[0]
    each = format_gpus(role.milli_gpu) if role.milli_gpu else "CPU only"
    size = each if role.count == 1 else f"{role.count} × {each}"
    return f"{size}: {' '.join(role.command)}"[:200]


def _run(one: Run) -> models.ScheduleRunView:
    return models.ScheduleRunView(
        outcome=one.outcome.value,
        due_ms=one.due_ms,
        until_ms=one.until_ms,
        count=one.count,
        text=one.text,
        job_id=one.job,
        job_name=one.job_name,
    )
