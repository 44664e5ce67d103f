"""Use cases about what happened: events by cursor, the newest, and receipts among them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.administration import receipts
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.service import Pending, Service
from gpucommons.scheduler.service.views.history import event_view

#: Events in one answer.
_PAGE = 500
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
    authorization.history.events(principal)
    if where.job is None:
        return None
    found = find_job(service, principal, where.job)
    authorization.jobs.job(principal, found)
    return found.workload_id


def _events(
    service: Service, principal: Principal, where: EventFilter, job_id: WorkloadId | None
) -> models.EventList:
    """One page, looked for among a bounded number of events; ``last`` says how far it came."""
    sight, end = authorization.history.event_sight(principal), service.store.last_event_number()
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
    sight, end = authorization.history.event_sight(principal), service.store.last_event_number()
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
