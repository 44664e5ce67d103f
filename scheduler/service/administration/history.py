"""Use cases about what exists and what happened: who am I, pools, nodes, teams, events, reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Millis, TeamName, WorkloadId
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization, costs
from gpucommons.scheduler.service.administration import over_time, receipts
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.service import Pending, Service
from gpucommons.scheduler.service.views.cluster import node_views, pool_views, team_views
from gpucommons.scheduler.service.views.history import event_view, lent_fields, report_rows
from gpucommons.scheduler.store.quota_minutes.base import in_whole_rows
from gpucommons.scheduler.store.reports.base import Steps, UsageSum

#: Events in one answer.
_PAGE = 500
#: The longest report, in days.
_LONGEST_REPORT_DAYS = 400
_DAY_MS = 24 * 3_600_000
#: Among so many events the visible ones are looked for in one request.
_SEARCHED = 50_000


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

    @property
    def of_receipts(self) -> bool:
        """The newest receipts: looked for among those of all teams, with what became of each, so dear."""
        return self.newest is not None and self.kinds == receipts.RECEIPTS


def whoami(service: Service, principal: Principal) -> models.WhoAmI:
    """The caller, as the scheduler sees it."""
    authorization.whoami(principal)
    return models.WhoAmI(
        environments=service.environments.kind,
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
    workload_id = _job_of(service, principal, where)

    def read() -> models.EventList:
        return _events(service, principal, where, workload_id)

    def probe() -> models.EventList | None:
        found = read()
        searched_all = found.last >= service.store.last_event_number()
        return found if found.events or where.wait_s <= 0 or not searched_all else None

    return Pending(probe=probe, timeout_s=where.wait_s, meanwhile=read)


def _job_of(service: Service, principal: Principal, where: EventFilter) -> WorkloadId | None:
    authorization.events(principal)
    if where.job is None:
        return None
    found = find_job(service, principal, where.job)
    authorization.job(principal, found)
    return found.workload_id


def _events(
    service: Service, principal: Principal, where: EventFilter, job_id: WorkloadId | None
) -> models.EventList:
    """One page, looked for among a bounded number of events; ``last`` says how far it came."""
    sight, end = authorization.event_sight(principal), service.store.last_event_number()
    if sight is not None and job_id is None and end - where.after > _SEARCHED:
        # Old ones are dropped: the search begins with the first that there still is.
        first = service.store.events(after=where.after, kinds=where.kinds, limit=1)
        sight = replace(sight, until=first[0].number + _SEARCHED if first else end)
    page = service.store.events(
        after=where.after, workload_id=job_id, kinds=where.kinds, sight=sight, limit=_PAGE
    )
    last = max([where.after, end, *(stored.number for stored in page[-1:])])
    if len(page) == _PAGE:
        last = page[-1].number
    elif sight is not None and sight.until is not None:
        last = min(last, sight.until)
    return models.EventList(events=[event_view(one, principal) for one in page], last=last)


def newest_events(service: Service, principal: Principal, where: EventFilter) -> models.EventList:
    """The last events that the caller may see, among the newest that there are; at once."""
    job_id = _job_of(service, principal, where)
    sight, end = authorization.event_sight(principal), service.store.last_event_number()
    everything = sight is None or job_id is not None
    after = where.after if everything else max(where.after, end - _SEARCHED)
    page = service.store.events(
        after=after,
        workload_id=job_id,
        kinds=where.kinds,
        sight=sight,
        limit=where.newest or 0,
        newest=True,
    )
    if where.of_receipts and not everything:
        page = receipts.with_those_for(service, principal, page, after=after)
        page = page[-(where.newest or 1) :]
    last = max([where.after, end, *(stored.number for stored in page[-1:])])
    if where.of_receipts:
        return models.EventList(events=receipts.shown(service, principal, page), last=last)
    return models.EventList(events=[event_view(one, principal) for one in page], last=last)


def report(  # noqa: PLR0913 - a span, and which of it, all named
    service: Service,
    principal: Principal,
    *,
    from_ms: int,
    to_ms: int,
    drawn: bool = False,
    sample: bool = False,
) -> models.Report:
    """Usage by team, user and project in a span; of the caller's own teams, or of all for admins.

    Of days that are long over it begins and ends with a quarter of an hour: so long is a row of what was
    lent by then, and all columns are to be of one span. ``drawn``: with days and weeks.
    """
    authorization.report(principal)
    if not 0 <= from_ms < to_ms or to_ms - from_ms > _LONGEST_REPORT_DAYS * _DAY_MS:
        message = (
            f"from_ms {from_ms} and to_ms {to_ms} are no span: to_ms must be later, by at most"
            f" {_LONGEST_REPORT_DAYS} days."
        )
        raise BadRequest(message)
    service = service.told_of(sample=sample)
    from_ms, to_ms = in_whole_rows(from_ms=from_ms, to_ms=to_ms, now_ms=service.now_ms())
    pools = service.loop.cluster.pools
    teams = authorization.report_teams(principal)
    past = over_time.daily(service, from_ms, to_ms, teams) if drawn else None
    priced = priced_sums(service, Millis(from_ms), Millis(to_ms), teams, past=past)
    currency = costs.currency_of(pools.values())
    return models.Report(
        from_ms=from_ms,
        to_ms=to_ms,
        rows=report_rows(priced, currency),
        currency=currency,
        all_teams=teams is None,
        is_sample=sample,
        has_sample=service.sample is not None,
        days=[] if past is None else over_time.days(past, from_ms, to_ms),
        weeks=[] if past is None else over_time.weeks(service, past),
        **_lent(service, Steps(from_ms=Millis(from_ms), to_ms=Millis(to_ms)), teams, past),
    )


def priced_sums(
    service: Service,
    from_ms: Millis,
    to_ms: Millis,
    teams: frozenset[TeamName] | None,
    *,
    past: over_time.Past | None = None,
) -> list[tuple[UsageSum, costs.Cost]]:
    """What was held in a span, each with what it costs: cut wherever a price changes. ``past``: what
    was read of it by day.
    """
    pools = service.loop.cluster.pools
    return [
        (one, costs.of_sum(pools, one, start_ms))
        for start_ms, end_ms in costs.spans(pools.values(), from_ms, to_ms)
        for one in _held(
            service, Steps(from_ms=Millis(start_ms), to_ms=Millis(end_ms)), teams, past
        )
    ]


def _held(
    service: Service,
    span: Steps,
    teams: frozenset[TeamName] | None,
    past: over_time.Past | None,
) -> Sequence[UsageSum]:
    known = None if past is None else over_time.sums_of(past, span.from_ms, span.to_ms)
    return service.store.reports.usage(span, teams=teams) if known is None else known


def _lent(
    service: Service,
    span: Steps,
    teams: frozenset[TeamName] | None,
    past: over_time.Past | None,
) -> dict[str, Any]:
    """Who lent what, and how much there was to hold."""
    rows = service.store.quota_minutes.sums(
        from_ms=span.from_ms, to_ms=span.to_ms, step_ms=span.to_ms
    )
    first_ms = min((row.minute_ms for row in rows), default=None)
    until_ms = span.to_ms if first_ms is None else first_ms
    before = _held(service, Steps(from_ms=span.from_ms, to_ms=until_ms), teams, past)
    return lent_fields(rows, before, teams) | {"lent_from_ms": first_ms}
