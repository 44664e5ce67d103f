"""Use cases about jobs: submit, look, steer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpucommons.scheduler import models
from gpucommons.scheduler.core.events.job_size import check_resizable, size_of
from gpucommons.scheduler.core.going_on.ways import saved_by
from gpucommons.scheduler.core.model.intents import Action, Cancel, Pause, ResizeJob, Resume, Submit
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import (
    Checkpoint,
    Kind,
    Spec,
    State,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.data_loading import LoaderChoice
from gpucommons.scheduler.errors import InvalidTransition, Misconfigured, UnknownWorkload
from gpucommons.scheduler.intake import Found, job_spec, resized_spec
from gpucommons.scheduler.models.jobs.jobs import OBJECT_LABEL
from gpucommons.scheduler.models.text.state_words import ended_words, state_words
from gpucommons.scheduler.parents import Parent, ParentId
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.jobs import snapshots
from gpucommons.scheduler.service.jobs.environments import (
    Reader,
    launcher_of,
    of_workers,
    script_reader,
    settled,
    with_warnings,
)
from gpucommons.scheduler.service.jobs.results import results_view
from gpucommons.scheduler.service.jobs.submit_limits import (
    beside,
    check_hour,
    within_the_caps,
)
from gpucommons.scheduler.service.lookup import (
    check_team,
    find_job,
    find_jobs,
    unseen_submits,
    workload_of,
)
from gpucommons.scheduler.service.service import Pending, Service, decision
from gpucommons.scheduler.service.views.jobs import job_view, queued
from gpucommons.scheduler.service.views.shortened_requests import page_of
from gpucommons.scheduler.store import rules
from gpucommons.scheduler.store.base import Page, WorkloadFilter

#: How long steering waits for the cycle that handles it before it answers with what is known.
_STEER_TIMEOUT_S = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFilter:
    """What a list of jobs is restricted to."""

    team: str | None = None
    owner: str | None = None
    state: State | None = None
    live: bool | None = None
    part_of: str | None = None
    limit: int = 100


def view_of(service: Service, principal: Principal, workload: Workload) -> models.JobView:
    """A job as the caller may see it."""
    likely = service.forecasts.of(workload)
    now_ms = service.now_ms()
    workload = service.last_points.told(workload, service.store, now_ms)
    view = job_view(
        workload, principal, service.loop.cluster, likely, now_ms=now_ms, why_not=service.why_not
    )
    if view.request is None:
        return view
    hindrance = snapshots.again_hindrance(service, principal, workload)
    refused = service.refused_reports.told_of(workload)
    return view.model_copy(update={"again_hindrance": hindrance, "reports_refused": refused})


def submit(
    service: Service, principal: Principal, request: models.JobRequest, *, key: str | None
) -> models.JobView:
    """Store a job; it is durable when this returns."""
    authorization.jobs.submit(principal, request.user)
    check_labels(principal, request)
    read = script_reader(service, request)
    view = submitted(
        service,
        principal,
        lambda: checked_in_time(service, principal, request, read),
        request=request,
        key=key,
    )
    return with_warnings(service, principal, request, view, read)


def check_labels(principal: Principal, request: models.JobRequest) -> None:
    """Refuse what says that a job was made of a cluster's object, of anybody but the operator.

    Raises
    ------
    Misconfigured
        With what to leave out.
    """
    if authorization.sight.is_person(principal) and OBJECT_LABEL in request.labels:
        message = f"labels: {OBJECT_LABEL} is set by the operator alone. Leave it out."
        raise Misconfigured(message)


def checked_in_time(
    service: Service, principal: Principal, request: models.JobRequest, read: Reader
) -> Spec:
    """Who has submitted too much within the hour has no files read either."""
    check_hour(service, UserName(request.user or principal.name), size_bytes=0)
    return checked_spec(service, principal, request, read)


def submitted(  # noqa: PLR0913 - one submit, in parts
    service: Service,
    principal: Principal,
    spec_of: Callable[[], Spec],
    *,
    request: object,
    key: str | None,
    loader: LoaderChoice | None = None,
) -> models.JobView:
    """Store what ``spec_of`` checks, unless this key has stored it already.

    A repeated request is not checked again: its job may since have filled the user's cap.
    """
    intent = service.asked(principal, Submit, key=key, request=request)
    new = None
    if intent is None:
        spec = spec_of()
        new = WorkloadId(next(service.new_ids))
        saved = _saved(service, spec.resume_from)
        action = Submit(workload_id=new, spec=spec, checkpoint=saved, loader=loader)
        admit = within_the_caps(service, spec)
        intent = service.ask(principal, action, key=key, request=request, admit=admit)
    first = intent.action
    assert isinstance(first, Submit)  # noqa: S101 - the fingerprint names the kind of action
    workload_id = first.workload_id
    # What was stored just now need not be read back: it waits, or a cycle has seen it.
    stored = service.loop.cluster.workloads.get(workload_id) or queued(intent)
    found = stored if workload_id == new else workload_of(service, workload_id)
    return view_of(service, principal, found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeated:
    """A request that was checked before, in whole or in part."""

    #: Its files and environment are those of a job that the caller may run again.
    is_known: bool = True
    #: For controllers of parents alone: all that is part of one counts as one that waits.
    part_of: Parent | None = None


def checked_spec(
    service: Service,
    principal: Principal,
    request: models.JobRequest,
    read: Reader,
    *,
    repeated: Repeated | None = None,
) -> Spec:
    """The spec that a request becomes, checked against everything there is; nothing is stored.

    Its files are looked at, unless it repeats what was checked before.
    """
    part_of = None if repeated is None else repeated.part_of
    is_known = repeated is not None and repeated.is_known
    resumed = _resumed(service, principal, request)
    found = Found(
        environment=lambda: settled(service, principal, request, read, is_stored=is_known),
        launcher=lambda: launcher_of(request, read),
        **_dependencies(service, principal, request),
        near=_neighbours(service, principal, request.near),
        resume_from=resumed,
        plan=None if request.plan is None else service.store.plans.offered(request.plan),
        has_snapshot=lambda team: (
            is_known or snapshots.are_usable(service, principal, request, team)
        ),
        pending=_waiting(service, principal, request, resumed) if part_of is None else 0,
        why_not=service.why_not,
    )
    if request.parent is not None:
        authorization.jobs.job(principal, workload_of(service, request.parent))
    spec = job_spec(request, principal, service.loop.cluster, found)
    for name in spec.secrets.values():
        if (why := service.why_no_secret(spec.owner, name)) is not None:
            raise Misconfigured(why)
    return replace(spec, part_of=part_of)


def _waiting(
    service: Service, principal: Principal, request: models.JobRequest, resumed: Workload | None
) -> int:
    """How many wait beside it; what is part of a parent is looked at where it is stored, and only there."""
    pending = service.store.pending_jobs(UserName(request.user or principal.name))
    return beside(pending, None if resumed is None else resumed.workload_id)


def _dependencies(
    service: Service, principal: Principal, request: models.JobRequest
) -> dict[str, tuple[WorkloadId, ...]]:
    """The jobs to wait for; those that ended already as it asks need no waiting."""
    found: dict[str, tuple[WorkloadId, ...]] = {}
    for field in ("after", "after_any", "after_failed"):
        refs = dict.fromkeys(getattr(request, field))
        jobs = [_dependency(service, principal, ref, field) for ref in refs]
        found[field] = tuple(dict.fromkeys(w.workload_id for w in jobs if not is_final(w)))
    found["after"] = tuple(dict.fromkeys(one for each in found.values() for one in each))
    return found


def _neighbours(
    service: Service, principal: Principal, refs: Sequence[str]
) -> tuple[WorkloadId, ...]:
    """The jobs near which it would rather run; those that are over are nowhere."""
    found = find_jobs(service, principal, refs)
    return tuple(dict.fromkeys(w.workload_id for w in found if not is_final(w)))


def _resumed(service: Service, principal: Principal, request: models.JobRequest) -> Workload | None:
    """The job whose saved progress it goes on from."""
    if request.resume_from is None:
        return None
    found = find_job(service, principal, request.resume_from)
    authorization.jobs.resume_from(principal, found, request.user)
    return found


def _saved(service: Service, workload_id: WorkloadId | None) -> Checkpoint | None:
    return None if workload_id is None else saved_by(workload_of(service, workload_id))


def _dependency(service: Service, principal: Principal, ref: str, field: str) -> Workload:
    found = find_job(service, principal, ref)
    authorization.jobs.job(principal, found)
    has_succeeded = found.state is State.SUCCEEDED
    if is_final(found) and field != "after_any" and has_succeeded is (field == "after_failed"):
        message = (
            f"{field}: {found.spec.name} is {state_words(found.state)}, so this would never start."
        )
        raise Misconfigured(message)
    return found


def jobs(
    service: Service, principal: Principal, where: JobFilter, *, cursor: str | None
) -> models.JobList:
    """A page of jobs, newest first. Without a team: the caller's own teams'; admins see all."""
    authorization.jobs.jobs(principal)
    restricted = _restrict(where, principal)
    if restricted is None:
        return models.JobList(jobs=[])
    # In this order: one that a cycle takes up between the two looks is then found by the second.
    unseen = () if cursor is not None else unseen_submits(service)
    page = _page(service, restricted, limit=where.limit, cursor=cursor)
    shown = [service.loop.cluster.workloads.get(w.workload_id, w) for w in page.items]
    ids = {workload.workload_id for workload in shown}
    waiting = (w for w in reversed(unseen) if rules.matches(w, restricted))
    shown = [w for w in waiting if w.workload_id not in ids] + shown
    if where.team is not None and not shown:
        check_team(service, where.team)
    return models.JobList(
        jobs=page_of(view_of(service, principal, workload) for workload in shown),
        cursor=page.cursor,
    )


def _page(
    service: Service, where: WorkloadFilter, *, limit: int, cursor: str | None
) -> Page[Workload]:
    if not where.live:
        return service.store.workloads(where, limit=limit, cursor=cursor)
    # What lives is in memory: every open panel asks for it all the time.
    service.loop.catch_up()
    live = service.loop.cluster.workloads.values()
    return rules.page(live, where, limit=limit, cursor=cursor)


def _restrict(where: JobFilter, principal: Principal) -> WorkloadFilter | None:
    """The stored jobs that the caller may list; None = none at all.

    Of another team only what is live, and never by owner: that would tell names.
    """
    teams = frozenset({TeamName(where.team)}) if where.team is not None else principal.sees
    owner, live = where.owner, where.live
    if where.team is None and principal.admin:
        teams = frozenset()
    elif not teams:
        if owner not in (None, principal.name):
            return None
        owner = principal.name
    elif not (principal.admin or teams <= principal.sees):
        if owner is not None or live is False:
            return None
        live = True
    return WorkloadFilter(
        kinds=frozenset({Kind.TRAINING, Kind.RETRAIN}),
        states=frozenset() if where.state is None else frozenset({where.state}),
        teams=teams,
        owner=None if owner is None else UserName(owner),
        live=live,
        part_of=None if where.part_of is None else ParentId(where.part_of),
    )


def job(service: Service, principal: Principal, ref: str) -> models.JobView:
    """One job."""
    found = find_job(service, principal, ref)
    authorization.jobs.job(principal, found)
    view, results = view_of(service, principal, found), results_view(service, principal, found)
    warned = [*view.warnings, *of_workers(service, view)]
    return view.model_copy(update={"results": results, "warnings": warned})


def cancel(service: Service, principal: Principal, ref: str) -> Pending[models.JobView]:
    """Cancel a job."""
    found = find_job(service, principal, ref)
    authorization.jobs.cancel(principal, found)
    return steered(service, principal, found, Cancel(workload_id=found.workload_id))


def pause(service: Service, principal: Principal, ref: str) -> Pending[models.JobView]:
    """Stop a job with a checkpoint and keep it paused."""
    found = find_job(service, principal, ref)
    authorization.jobs.pause(principal, found)
    return steered(service, principal, found, Pause(workload_id=found.workload_id))


def resume(service: Service, principal: Principal, ref: str) -> Pending[models.JobView]:
    """Put a paused job back in line."""
    found = find_job(service, principal, ref)
    authorization.jobs.resume(principal, found)
    return steered(service, principal, found, Resume(workload_id=found.workload_id))


def resize(
    service: Service, principal: Principal, ref: str, size: models.JobSize
) -> Pending[models.JobView]:
    """Another size for a job that waits: the same job goes on with it, from its last checkpoint."""
    found = find_job(service, principal, ref)
    authorization.jobs.resize_job(principal, found)
    check_resizable(found)
    spec = resized_spec(found, size, service.loop.cluster, service.why_not)
    action = ResizeJob(workload_id=found.workload_id, size=size_of(spec))
    return steered(service, principal, found, action)


def steered(
    service: Service, principal: Principal, found: Workload, action: Action
) -> Pending[models.JobView]:
    """Ask the loop for it; answered with the job once a cycle has done it."""
    _refuse_if_over(found, action)

    def view() -> models.JobView:
        return view_of(service, principal, workload_of(service, found.workload_id))

    def probe() -> models.JobView | None:
        try:
            return answered.probe()
        except UnknownWorkload:
            # It ended before a cycle read what was asked, and what has ended leaves the cluster.
            _refuse_if_over(workload_of(service, found.workload_id), action)
            raise

    intent = service.ask(principal, action)
    answered = decision(
        service, intent, lambda _: view(), timeout_s=_STEER_TIMEOUT_S, meanwhile=view
    )
    return replace(answered, probe=probe)


#: What it would have been, where it is over before.
_WOULD_BE = {Cancel: "cancelled", Pause: "paused", Resume: "resumed", ResizeJob: "resized"}


def _refuse_if_over(job: Workload, action: Action) -> None:
    if not is_final(job):
        return
    would_be = _WOULD_BE.get(type(action))
    is_so_already = isinstance(action, Cancel) and job.state is State.CANCELLED
    cannot = "" if would_be is None or is_so_already else f"; it cannot be {would_be}"
    message = f"{job.spec.name} {ended_words(job.state)}{cannot}. It can be run again."
    raise InvalidTransition(message)
