"""Use cases about jobs: submit, look, steer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpucommons.scheduler import models
from gpucommons.scheduler.core.lifecycle import WAITING_STATES, is_final
from gpucommons.scheduler.core.state import Action, Cancel, Pause, Resume, Submit
from gpucommons.scheduler.core.types import (
    Kind,
    Spec,
    State,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import InvalidTransition, Misconfigured
from gpucommons.scheduler.intake import Found, job_spec
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import (
    find_job,
    unseen_submits,
    workload_of,
)
from gpucommons.scheduler.service.principal import Principal
from gpucommons.scheduler.service.service import Pending, Service, decision
from gpucommons.scheduler.service.views.jobs import job_view, request_of
from gpucommons.scheduler.store.base import WorkloadFilter

#: How long steering waits for the cycle that handles it before it answers with what is known.
_STEER_TIMEOUT_S = 2.0
_NUMBER = re.compile(r"-[0-9]+$")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFilter:
    """What a list of jobs is restricted to."""

    team: str | None = None
    owner: str | None = None
    state: State | None = None
    live: bool | None = None
    limit: int = 100


def _view(service: Service, principal: Principal, workload: Workload) -> models.JobView:
    likely = service.forecasts.of(workload)
    return job_view(workload, principal, service.loop.cluster, likely)


def submit(
    service: Service, principal: Principal, request: models.JobRequest, *, key: str | None
) -> models.JobView:
    """Store a job; it is durable when this returns."""
    authorization.submit(principal)
    return _submitted(
        service,
        principal,
        lambda: checked_spec(service, principal, request),
        request=request,
        key=key,
    )


def _submitted(
    service: Service,
    principal: Principal,
    spec_of: Callable[[], Spec],
    *,
    request: object,
    key: str | None,
) -> models.JobView:
    """Store what ``spec_of`` checks, unless this key has stored it already.

    A repeated request is not checked again: its job may since have filled the user's cap.
    """
    intent = service.asked(principal, Submit, key=key, request=request)
    if intent is None:
        spec = spec_of()
        spec = replace(spec, name=service.store.next_name(spec.team, spec.name))
        action = Submit(workload_id=WorkloadId(next(service.new_ids)), spec=spec)
        intent = service.ask(principal, action, key=key, request=request)
    first = intent.action
    assert isinstance(first, Submit)  # noqa: S101 - the fingerprint names the kind of action
    found = workload_of(service, first.workload_id)
    return _view(service, principal, found)


def checked_spec(service: Service, principal: Principal, request: models.JobRequest) -> Spec:
    """The spec that a request becomes, checked against everything there is; nothing is stored."""
    snapshot = request.snapshot
    found = Found(
        after=_dependencies(service, principal, request.after),
        snapshot_is_here=snapshot is None or service.snapshots.has(snapshot),
        pending=_pending(service, principal.name),
    )
    if request.parent is not None:
        authorization.job(principal, workload_of(service, request.parent))
    return job_spec(request, principal, service.loop.cluster, found)


def _dependencies(
    service: Service, principal: Principal, refs: Sequence[str]
) -> tuple[WorkloadId, ...]:
    """The jobs to wait for; those that have succeeded already need no waiting."""
    found = [_dependency(service, principal, ref) for ref in refs]
    waited = [w.workload_id for w in found if w.state is not State.SUCCEEDED]
    return tuple(dict.fromkeys(waited))


def _dependency(service: Service, principal: Principal, ref: str) -> Workload:
    found = find_job(service, principal, ref)
    authorization.job(principal, found)
    if found.state in (State.FAILED, State.CANCELLED):
        message = f"after: {found.spec.name} is {found.state}, so this would never start."
        raise Misconfigured(message)
    return found


def _pending(service: Service, user: UserName) -> int:
    waiting = {
        workload.workload_id
        for workload in service.loop.cluster.workloads.values()
        if workload.state in WAITING_STATES and _is_job_of(workload, user)
    }
    unseen = {w.workload_id for w in unseen_submits(service) if _is_job_of(w, user)}
    return len(waiting | unseen)


def _is_job_of(workload: Workload, user: UserName) -> bool:
    return workload.spec.owner == user and workload.spec.kind is not Kind.NOTEBOOK


def again(service: Service, principal: Principal, ref: str, *, key: str | None) -> models.JobView:
    """Submit the same request again, as a new job of the caller."""
    found = find_job(service, principal, ref)
    authorization.again(principal, found)
    stored = request_of(found.spec)
    base = _NUMBER.sub("", stored.name) or stored.name
    request = stored.model_copy(update={"name": base, "after": [], "not_before_ms": 0})
    return _submitted(
        service,
        principal,
        lambda: checked_spec(service, principal, request),
        request=("again", found.workload_id),
        key=key,
    )


def jobs(
    service: Service, principal: Principal, where: JobFilter, *, cursor: str | None
) -> models.JobList:
    """A page of jobs, newest first. Without a team: the caller's own teams'; admins see all."""
    authorization.jobs(principal)
    cluster = service.loop.cluster
    restricted = _restrict(where, principal)
    if restricted is None:
        return models.JobList(jobs=[])
    page = service.store.workloads(restricted, limit=where.limit, cursor=cursor)
    shown = [cluster.workloads.get(w.workload_id, w) for w in page.items]
    if cursor is None:
        ids = {workload.workload_id for workload in shown}
        unseen = [w for w in reversed(unseen_submits(service)) if _matches(w, restricted)]
        shown = [w for w in unseen if w.workload_id not in ids] + shown
    return models.JobList(
        jobs=[_view(service, principal, workload) for workload in shown], cursor=page.cursor
    )


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
    )


def _matches(workload: Workload, where: WorkloadFilter) -> bool:
    spec = workload.spec
    return (
        spec.kind in where.kinds
        and (not where.states or workload.state in where.states)
        and (not where.teams or spec.team in where.teams)
        and where.owner in (None, spec.owner)
        and where.live is not False
    )


def job(service: Service, principal: Principal, ref: str) -> models.JobView:
    """One job."""
    found = find_job(service, principal, ref)
    authorization.job(principal, found)
    return _view(service, principal, found)


def cancel(service: Service, principal: Principal, ref: str) -> Pending[models.JobView]:
    """Cancel a job."""
    found = find_job(service, principal, ref)
    authorization.cancel(principal, found)
    text = f"cancelled by {principal.name}"
    return _steer(service, principal, found, Cancel(workload_id=found.workload_id, text=text))


def pause(service: Service, principal: Principal, ref: str) -> Pending[models.JobView]:
    """Stop a job with a checkpoint and keep it paused."""
    found = find_job(service, principal, ref)
    authorization.pause(principal, found)
    return _steer(service, principal, found, Pause(workload_id=found.workload_id))


def resume(service: Service, principal: Principal, ref: str) -> Pending[models.JobView]:
    """Put a paused job back in line."""
    found = find_job(service, principal, ref)
    authorization.resume(principal, found)
    return _steer(service, principal, found, Resume(workload_id=found.workload_id))


def _steer(
    service: Service, principal: Principal, found: Workload, action: Action
) -> Pending[models.JobView]:
    if is_final(found):
        message = f"{found.spec.name} is {found.state}: nothing more can be done with it."
        raise InvalidTransition(message)

    def view() -> models.JobView:
        now = workload_of(service, found.workload_id)
        return _view(service, principal, now)

    intent = service.ask(principal, action)
    return decision(service, intent, lambda _: view(), timeout_s=_STEER_TIMEOUT_S, meanwhile=view)
