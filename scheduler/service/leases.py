"""Use cases about notebooks' leases and tickets."""

from __future__ import annotations

from collections.abc import Iterable

from gpucommons.gpu.errors import AgentUnavailable, BadAgentRequest, GpuError
from gpucommons.scheduler import models
from gpucommons.scheduler.core.events.leases import OWN_ENDS, RELEASED
from gpucommons.scheduler.core.model.going_on import KeptKernels
from gpucommons.scheduler.core.model.intents import (
    Cancel,
    Keep,
    NoteKept,
    ResizeSlice,
    Started,
    Submit,
)
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Kind, Spec, State, UserName, Workload, WorkloadId
from gpucommons.scheduler.errors import (
    BadRequest,
    Conflict,
    InvalidTransition,
    Unavailable,
    UnknownWorkload,
)
from gpucommons.scheduler.intake import Requester, lease_spec
from gpucommons.scheduler.models.text.state_words import state_words
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.in_memory.slices import slice_of
from gpucommons.scheduler.service.lookup import find_lease, unseen_submits, workload_of
from gpucommons.scheduler.service.service import Pending, Service, decision
from gpucommons.scheduler.service.views.kept import kept_view
from gpucommons.scheduler.service.views.leases import lease_view
from gpucommons.scheduler.service.views.on_idle import with_keeps
from gpucommons.scheduler.store.base import WorkloadFilter

_NOTEBOOKS = frozenset({Kind.NOTEBOOK})
_PAGE = 200


def view(service: Service, principal: Principal, workload_id: WorkloadId) -> models.LeaseView:
    """A lease as it is now."""
    return _view(service, principal, workload_of(service, workload_id))


def _view(service: Service, principal: Principal, workload: Workload) -> models.LeaseView:
    likely = service.forecasts.of(workload)
    limits = service.settings.idle
    made = lease_view(
        workload, principal, service.loop.cluster, limits, likely, why_not=service.why_not
    )
    activity, lease_id = service.activity, workload.workload_id
    made = with_keeps(made, activity.keeps_of(lease_id), parks=activity.parks(lease_id))
    return service.slices.with_cards(made, workload)


# --- getting a slice -------------------------------------------------------------------------


def acquire(
    service: Service, principal: Principal, request: models.LeaseRequest, *, key: str | None
) -> Pending[models.LeaseView]:
    """Redeem this server's grant, or take a free slice in this cycle, or be refused."""
    authorization.notebooks.acquire(principal)
    spec = _spec(service, principal, request)
    action = Submit(workload_id=WorkloadId(next(service.new_ids)), spec=spec, redeem=True)
    intent = service.ask(principal, action, key=key, request=request)

    def answer(workload_id: WorkloadId | None) -> models.LeaseView:
        held = workload_of(service, workload_id or action.workload_id)
        service.slices.open(held)
        return _view(service, principal, held)

    return decision(service, intent, lambda verdict: answer(verdict.workload_id))


def wait_in_line(
    service: Service, principal: Principal, request: models.LeaseRequest, *, key: str | None
) -> Pending[models.LeaseView]:
    """Take a ticket; who waits for the same already gets the ticket they have."""
    authorization.notebooks.wait_in_line(principal, request.user or principal.name)
    spec = _spec(service, principal, request)
    action = Submit(workload_id=WorkloadId(next(service.new_ids)), spec=spec)
    intent = service.ask(principal, action, key=key, request=request)
    return decision(
        service,
        intent,
        lambda verdict: view(service, principal, verdict.workload_id or action.workload_id),
    )


def _spec(service: Service, principal: Principal, request: models.LeaseRequest) -> Spec:
    if request.user is None and not authorization.sight.is_person(principal):
        message = "user is missing: the hub says for whom it asks."
        raise BadRequest(message)
    user = UserName(request.user) if request.user is not None else principal.name
    requester = Requester(by=principal.name, user=user, teams=service.teams_of(principal, user))
    return lease_spec(request, requester, service.loop.cluster, service.why_not)


# --- looking ---------------------------------------------------------------------------------


def leases(
    service: Service, principal: Principal, *, state: State | None, cursor: str | None
) -> models.LeaseList:
    """Leases, newest first; those of other teams only while they live, and without names."""
    authorization.notebooks.leases(principal)
    where = WorkloadFilter(
        kinds=_NOTEBOOKS, states=frozenset() if state is None else frozenset({state})
    )
    page = service.store.workloads(where, limit=_PAGE, cursor=cursor)
    live = service.loop.cluster.workloads
    found = [live.get(workload.workload_id, workload) for workload in page.items]
    if cursor is None and state in (None, State.WAITING):
        known = {workload.workload_id for workload in found}
        found = [*reversed(_unseen(service, known)), *found]
    shown = [w for w in found if not is_final(w) or authorization.sight.sees_lease(principal, w)]
    return models.LeaseList(
        leases=[_view(service, principal, workload) for workload in shown], cursor=page.cursor
    )


def _unseen(service: Service, known: Iterable[WorkloadId]) -> list[Workload]:
    return [
        workload
        for workload in unseen_submits(service)
        if workload.spec.kind is Kind.NOTEBOOK and workload.workload_id not in known
    ]


def lease(service: Service, principal: Principal, lease_id: str) -> models.LeaseView:
    """One lease or ticket."""
    found = find_lease(service, lease_id)
    authorization.notebooks.lease(principal, found)
    return _view(service, principal, found)


def my_lease(service: Service, principal: Principal, server_name: str | None) -> models.LeaseView:
    """The live lease of the caller's notebook server.

    Which server that is, the token says, or the query, or there is only one.
    """
    authorization.notebooks.my_lease(principal)
    name = server_name if server_name is not None else principal.server_name
    mine = [w for w in live_leases(service) if w.spec.owner == principal.name]
    found = [w for w in mine if name is None or w.spec.server_name == name]
    if not found:
        message = f"{principal.name} holds no GPU and has no ticket for this server."
        raise UnknownWorkload(message)
    if len(found) > 1:
        servers = ", ".join(repr(w.spec.server_name) for w in found)
        message = f"You have leases for several servers ({servers}): name one (server_name)."
        raise BadRequest(message)
    return _view(service, principal, found[0])


def live_leases(service: Service) -> list[Workload]:
    """All leases that have not ended."""
    return [
        workload
        for workload in service.loop.cluster.workloads.values()
        if workload.spec.kind is Kind.NOTEBOOK and not is_final(workload)
    ]


def last_end(service: Service, user: str, server_name: str) -> models.LastEndView | None:
    """Why this server's last lease ended; None where it was its user's own doing."""
    where = WorkloadFilter(kinds=_NOTEBOOKS, owner=UserName(user), live=False)
    for workload in service.store.workloads(where, limit=_PAGE).items:
        if workload.spec.server_name == server_name:
            return _ended(workload)
    return None


def last_kept(service: Service, user: str, server_name: str) -> models.KeptKernelsView | None:
    """What the last server of this name that ran on a GPU keeps; None while it holds its lease."""
    where = WorkloadFilter(kinds=_NOTEBOOKS, owner=UserName(user))
    for workload in service.store.workloads(where, limit=_PAGE).items:
        ran = any(attempt.started_ms is not None for attempt in workload.attempts)
        if workload.spec.server_name == server_name and ran:
            return kept_view(workload.kept, service.now_ms()) if is_final(workload) else None
    return None


def _ended(lease: Workload) -> models.LastEndView | None:
    if lease.ended_ms is None or not lease.ended_text or lease.ended_text in OWN_ENDS:
        return None
    ran = any(attempt.started_ms is not None for attempt in lease.attempts)
    return models.LastEndView(at_ms=lease.ended_ms, ran=ran, why=lease.ended_text)


# --- the server's life -----------------------------------------------------------------------


def started(
    service: Service, principal: Principal, lease_id: str, report: models.StartedReport
) -> Pending[models.LeaseView]:
    """The server of a granted lease runs; its processes count to the slice."""
    authorization.notebooks.started(principal)
    found = find_lease(service, lease_id)
    if report.pid is not None:
        service.slices.bind(found, report.pid)
    intent = service.ask(principal, Started(workload_id=found.workload_id))
    return decision(service, intent, lambda _: view(service, principal, found.workload_id))


def end_lease(
    service: Service, principal: Principal, lease_id: str, report: models.EndReport
) -> Pending[models.LeaseView]:
    """The server is gone, is to go, or the owner leaves the line. Ended already: nothing happens."""
    found = find_lease(service, lease_id)
    authorization.notebooks.end_lease(principal, found, report.why)

    def now() -> models.LeaseView:
        return view(service, principal, found.workload_id)

    if is_final(found) and found.workload_id not in service.loop.cluster.workloads:
        return Pending(probe=now)
    text = (
        report.text
        if authorization.notebooks.may_word_end(principal)
        else _by_another(principal, found)
    )
    action = Cancel(workload_id=found.workload_id, why=report.why, text=text)
    intent = service.ask(principal, action)

    def answer() -> models.LeaseView:
        service.slices.end_if_empty(workload_of(service, found.workload_id))
        return now()

    return decision(service, intent, lambda _: answer())


def _by_another(principal: Principal, lease: Workload) -> str:
    """In words where it is not the owner's own doing, of which the owner would not be told."""
    return (
        "" if lease.spec.owner == principal.name else f"Taken out of the line by {principal.name}"
    )


def keep(
    service: Service, principal: Principal, lease_id: str, request: models.KeepRequest
) -> Pending[models.LeaseView]:
    """*Keep 30 min*."""
    found = find_lease(service, lease_id)
    authorization.notebooks.keep(principal, found)
    action = Keep(workload_id=found.workload_id, for_ms=request.minutes * 60_000)
    intent = service.ask(principal, action)
    return decision(service, intent, lambda _: view(service, principal, found.workload_id))


def resize(
    service: Service, principal: Principal, lease_id: str, request: models.ResizeRequest
) -> Pending[models.LeaseView]:
    """Another memory limit, while the slice is in use.

    Less is asked of the node agent first, which knows what is in use; more first of the scheduler,
    which knows what nobody else was promised. Should the agent be away then, it hears of it later.
    """
    found = find_lease(service, lease_id)
    authorization.notebooks.resize(principal, found)
    held = slice_of(found, service.loop.cluster)
    if held is None:
        message = f"This notebook is {state_words(found.state)}: it holds no GPU whose memory could be changed."
        raise InvalidTransition(message)
    if service.slices.is_anothers(found):
        message = (
            "Another system of the cluster made this slice, with its limit, when the notebook"
            " started: start the notebook again with another size instead."
        )
        raise InvalidTransition(message)
    if request.memory_mib < held.memory_mib:
        try:
            service.slices.resize(held.slice_id, request.memory_mib)
        except AgentUnavailable as error:
            raise Unavailable(str(error)) from error
        except BadAgentRequest as error:
            raise BadRequest(str(error)) from error
        except GpuError as error:
            raise Conflict(str(error)) from error
    action = ResizeSlice(workload_id=found.workload_id, memory_mib=request.memory_mib)
    intent = service.ask(principal, action)

    def answer() -> models.LeaseView:
        service.slices.open(workload_of(service, found.workload_id))
        return view(service, principal, found.workload_id)

    return decision(service, intent, lambda _: answer())


def report_kept_kernels(
    service: Service, principal: Principal, lease_id: str, report: models.KeptKernelsReport
) -> Pending[models.LeaseView]:
    """What its server keeps of its kernels; a later server of the same user may correct it."""
    found = find_lease(service, lease_id)
    authorization.notebooks.report_kept_kernels(principal, found)
    kept = None
    if report.until_ms is not None and (report.kernels or report.variables):
        kept = KeptKernels(**report.model_dump() | {"until_ms": report.until_ms})
    ended = found if is_final(found) else None
    action = NoteKept(workload_id=found.workload_id, kept=kept, ended=ended)
    intent = service.ask(principal, action)
    return decision(service, intent, lambda _: view(service, principal, found.workload_id))


def drop(service: Service, principal: Principal, lease_id: str) -> Pending[models.LeaseView]:
    """*Drop to CPU*: the server restarts without its device, and keeps of its kernels what it can."""
    found = find_lease(service, lease_id)
    authorization.notebooks.drop(principal, found)
    if found.state not in (State.ACTIVE, State.WARNED):
        message = (
            f"This notebook is {state_words(found.state)}: only a running notebook drops its GPU."
        )
        raise InvalidTransition(message)
    text = f"GPU returned by {principal.name}; restarts without it"
    action = Cancel(workload_id=found.workload_id, why=RELEASED, text=text)
    intent = service.ask(principal, action)
    return decision(service, intent, lambda _: view(service, principal, found.workload_id))
