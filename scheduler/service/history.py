"""Use cases about what exists and what happened: who am I, pools, nodes, teams, events, reports."""

from __future__ import annotations

from dataclasses import dataclass

from gpucommons.scheduler import models
from gpucommons.scheduler.core.types import Millis, WorkloadId
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.principal import Principal
from gpucommons.scheduler.service.service import Pending, Service
from gpucommons.scheduler.service.views.cluster import node_views, pool_views, team_views
from gpucommons.scheduler.service.views.history import event_view, report_rows

#: Events in one answer.
_PAGE = 500
#: The longest report, in days.
_LONGEST_REPORT_DAYS = 400
_DAY_MS = 24 * 3_600_000
#: Among so many of the newest events the visible ones are looked for.
_SEARCHED = 5000


@dataclass(frozen=True, kw_only=True, slots=True)
class EventFilter:
    """Which events to give."""

    after: int = 0
    #: A job's id or name.
    job: str | None = None
    kinds: frozenset[str] = frozenset()
    #: Only the last so many.
    newest: int | None = None
    wait_s: float = 0


def whoami(service: Service, principal: Principal) -> models.WhoAmI:
    """The caller, as the scheduler sees it."""
    authorization.whoami(principal)
    return models.WhoAmI(
        name=principal.name,
        teams=sorted(principal.teams),
        admin=principal.admin,
        leads=sorted(principal.leads),
        shared_account=service.settings.shared_account,
    )


def pools(service: Service, principal: Principal) -> models.PoolList:
    """All pools with live numbers."""
    authorization.pools(principal)
    return models.PoolList(pools=pool_views(service.loop.cluster), now_ms=service.now_ms())


def nodes(service: Service, principal: Principal) -> models.NodeList:
    """The capacity map."""
    authorization.nodes(principal)
    views = node_views(principal, service.loop.cluster)
    return models.NodeList(nodes=views, now_ms=service.now_ms())


def teams(service: Service, principal: Principal) -> models.TeamList:
    """All teams; details only of the caller's own."""
    authorization.teams(principal)
    return models.TeamList(teams=team_views(principal, service.loop.cluster))


def events(service: Service, principal: Principal, where: EventFilter) -> Pending[models.EventList]:
    """Events after a cursor that the caller may see, oldest first; waits for new ones."""
    authorization.events(principal)
    workload_id = None
    if where.job is not None:
        found = find_job(service, principal, where.job)
        authorization.job(principal, found)
        workload_id = found.workload_id

    def read() -> models.EventList:
        return _events(service, principal, where, workload_id)

    def probe() -> models.EventList | None:
        found = read()
        return found if found.events or where.wait_s <= 0 else None

    return Pending(probe=probe, timeout_s=where.wait_s, meanwhile=read)


def _events(
    service: Service, principal: Principal, where: EventFilter, job_id: WorkloadId | None
) -> models.EventList:
    """Read on until something is visible or the end is reached."""
    if where.newest is not None:
        return _newest_events(service, principal, where, job_id)
    after, shown = where.after, list[models.EventView]()
    while True:
        end = service.store.last_event_number()
        page = service.store.events(after=after, workload_id=job_id, kinds=where.kinds, limit=_PAGE)
        shown = [
            event_view(stored, principal)
            for stored in page
            if authorization.sees_event(principal, stored.event)
        ]
        full = len(page) == _PAGE
        after = page[-1].number if full else max([after, end, *(s.number for s in page[-1:])])
        if shown or not full:
            return models.EventList(events=shown, last=after)


def _newest_events(
    service: Service, principal: Principal, where: EventFilter, job_id: WorkloadId | None
) -> models.EventList:
    """The last events that the caller may see, among the newest that there are."""
    end = service.store.last_event_number()
    page = service.store.events(
        after=where.after, workload_id=job_id, kinds=where.kinds, limit=_SEARCHED, newest=True
    )
    seen = [stored for stored in page if authorization.sees_event(principal, stored.event)]
    shown = seen[-where.newest :] if where.newest else []
    return models.EventList(
        events=[event_view(stored, principal) for stored in shown],
        last=max([where.after, end, *(stored.number for stored in page[-1:])]),
    )


def report(service: Service, principal: Principal, *, from_ms: int, to_ms: int) -> models.Report:
    """Usage by team and user in a span; of the caller's own teams, or of all for admins."""
    authorization.report(principal)
    if not 0 <= from_ms < to_ms or to_ms - from_ms > _LONGEST_REPORT_DAYS * _DAY_MS:
        message = (
            f"from_ms {from_ms} and to_ms {to_ms} are no span: to_ms must be later, by at most"
            f" {_LONGEST_REPORT_DAYS} days."
        )
        raise BadRequest(message)
    rows = service.store.ledger(from_ms=Millis(from_ms), to_ms=Millis(to_ms))
    visible = [row for row in rows if principal.admin or row.team in principal.sees]
    return models.Report(from_ms=from_ms, to_ms=to_ms, rows=report_rows(visible))
