"""Use cases about idleness: what notebooks report, what the culler reads and says, reclaim."""

from __future__ import annotations

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler import models
from gpucommons.scheduler.core.events.leases import HIBERNATED
from gpucommons.scheduler.core.model.intents import Cancel, ChooseOnIdle, ReportIdle
from gpucommons.scheduler.core.model.types import Millis, State, Workload
from gpucommons.scheduler.errors import BadRequest, InvalidTransition, NotIdle
from gpucommons.scheduler.intake.leases import check_on_idle
from gpucommons.scheduler.models.text.state_words import state_words
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.in_memory.activity import why_busy
from gpucommons.scheduler.service.in_memory.slices import slice_ids
from gpucommons.scheduler.service.leases import live_leases, view
from gpucommons.scheduler.service.lookup import find_lease
from gpucommons.scheduler.service.service import Pending, Service, decision
from gpucommons.scheduler.service.views.leases import lease_view
from gpucommons.scheduler.service.views.on_idle import with_keeps


def report_activity(
    service: Service, principal: Principal, lease_id: str, report: models.ActivityReport
) -> models.LeaseView:
    """What a notebook server does right now."""
    found = find_lease(service, lease_id)
    authorization.notebooks.report_activity(principal, found)
    service.activity.report(
        found.workload_id,
        report.kernels,
        service.now_ms(),
        keeps=report.keeps or "",
        # Its driver may be able to where the cluster would give its device to nobody else meanwhile.
        parks=report.parks and not service.slices.why_not_parked(found),
    )
    return _lease_view(service, principal, found)


def _lease_view(service: Service, principal: Principal, lease: Workload) -> models.LeaseView:
    made = lease_view(
        lease,
        principal,
        service.loop.cluster,
        service.settings.idle,
        why_not=service.why_not,
    )
    activity, lease_id = service.activity, lease.workload_id
    return with_keeps(made, activity.keeps_of(lease_id), parks=activity.parks(lease_id))


def activities(service: Service, principal: Principal) -> models.ActivityList:
    """Every lease that holds a device, with its activity; leads see those of their teams."""
    authorization.notebooks.activities(principal)
    return models.ActivityList(
        now_ms=service.now_ms(),
        activities=[
            _activity(service, principal, found)
            for found in live_leases(service)
            if found.current is not None and authorization.notebooks.sees_activity(principal, found)
        ],
    )


def activity(service: Service, principal: Principal, lease_id: str) -> models.ActivityView:
    """One lease's activity, its slice read anew: the look before acting."""
    found = find_lease(service, lease_id)
    authorization.notebooks.activity(principal, found)
    service.activity.read(service.slices.usage())
    return _activity(service, principal, found)


def _activity(service: Service, principal: Principal, lease: Workload) -> models.ActivityView:
    report = service.activity.report_of(lease.workload_id)
    gpu = service.activity.gpu_of(_slice_id(lease))
    return models.ActivityView(
        lease=_lease_view(service, principal, lease),
        reported_ms=None if report is None else report.at_ms,
        kernels=[] if report is None else list(report.kernels),
        gpu_active_ms=gpu.active_ms,
        usage_ms=gpu.usage_ms,
        compute_percent_p95=gpu.compute_percent_p95,
    )


def _slice_id(lease: Workload) -> SliceId | None:
    attempt = lease.current
    ids = () if attempt is None else slice_ids(attempt)
    return ids[0] if ids else None


def report_idle(
    service: Service, principal: Principal, lease_id: str, report: models.IdleReport
) -> Pending[models.LeaseView]:
    """The culler's view of a lease."""
    authorization.notebooks.report_idle(principal)
    found = find_lease(service, lease_id)
    if report.returns_ms is not None and report.idle_since_ms is None:
        message = "returns_ms without idle_since_ms: only an idle notebook is returned."
        raise BadRequest(message)
    action = ReportIdle(
        workload_id=found.workload_id,
        idle_since_ms=_moment(report.idle_since_ms),
        returns_ms=_moment(report.returns_ms),
    )
    intent = service.ask(principal, action)
    return decision(service, intent, lambda _: view(service, principal, found.workload_id))


def _moment(at_ms: int | None) -> Millis | None:
    return None if at_ms is None else Millis(at_ms)


def choose_on_idle(
    service: Service, principal: Principal, lease_id: str, request: models.OnIdleRequest
) -> Pending[models.LeaseView]:
    """What is to become of a notebook that was idle for too long, as far as its pool allows it."""
    found = find_lease(service, lease_id)
    authorization.notebooks.choose_on_idle(principal, found)
    if request.on_idle:
        check_on_idle(request.on_idle, service.loop.cluster.pools[found.spec.pools[0]])
    action = ChooseOnIdle(workload_id=found.workload_id, on_idle=request.on_idle)
    intent = service.ask(principal, action)
    return decision(service, intent, lambda _: view(service, principal, found.workload_id))


def hibernate(
    service: Service, principal: Principal, lease_id: str, request: models.HibernateRequest
) -> Pending[models.LeaseView]:
    """*Hibernate*: its server saves its kernels and stops; its GPU is free."""
    found = find_lease(service, lease_id)
    authorization.notebooks.hibernate(principal, found)
    _check_runs(found, "only a running one is hibernated")
    check_on_idle("hibernate", service.loop.cluster.pools[found.spec.pools[0]])
    if service.activity.keeps_of(found.workload_id) != "kernels":
        message = (
            "This notebook's server cannot save its kernels, or has not said yet that it can:"
            " the command gpucommons doctor in its terminal says what is missing."
        )
        raise InvalidTransition(message)
    by_another = authorization.notebooks.may_word_end(principal)
    text = request.text if by_another else f"hibernated by {principal.name}"
    action = Cancel(workload_id=found.workload_id, why=HIBERNATED, text=text)
    intent = service.ask(principal, action)
    return decision(service, intent, lambda _: view(service, principal, found.workload_id))


def reclaim(
    service: Service, principal: Principal, lease_id: str, request: models.ReclaimRequest
) -> Pending[models.LeaseView]:
    """Take a notebook's GPU back: an idle one after a warning, a busy one only by force."""
    found = find_lease(service, lease_id)
    authorization.notebooks.reclaim(principal, found)
    _check_runs(found, "only a running notebook's GPU can be reclaimed")
    action = _by_force(principal, found, request) if request.force else _warning(service, found)
    intent = service.ask(principal, action)
    return decision(service, intent, lambda _: view(service, principal, found.workload_id))


def _check_runs(lease: Workload, otherwise: str) -> None:
    if lease.state not in (State.ACTIVE, State.WARNED):
        message = f"This notebook is {state_words(lease.state)}: {otherwise}."
        raise InvalidTransition(message)


def _by_force(principal: Principal, lease: Workload, request: models.ReclaimRequest) -> Cancel:
    if not request.reason.strip():
        message = "Write a reason: it is shown to the notebook's user and kept in the audit log."
        raise BadRequest(message)
    text = f"reclaimed by {principal.name}: {request.reason.strip()}"
    return Cancel(workload_id=lease.workload_id, why="reclaimed", text=text)


def _warning(service: Service, lease: Workload) -> ReportIdle:
    now_ms = service.now_ms()
    service.activity.read(service.slices.usage())
    gpu = service.activity.gpu_of(_slice_id(lease))
    busy = why_busy(service.activity.report_of(lease.workload_id), gpu, now_ms)
    if busy is not None:
        message = f"Not reclaimed: {busy}. Take it by force, with a reason, or ask its user."
        raise NotIdle(message)
    known = lease.idleness
    since = known.idle_since_ms if known is not None else None
    return_ms = Millis(now_ms + service.settings.idle.notice_ms)
    standing = known.returns_ms if known is not None else None
    return ReportIdle(
        workload_id=lease.workload_id,
        idle_since_ms=since if since is not None else Millis(gpu.active_ms or now_ms),
        returns_ms=return_ms if standing is None else min(standing, return_ms),
        reclaimed=True,
    )
