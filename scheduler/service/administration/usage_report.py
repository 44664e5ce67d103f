"""The report of a span: what teams, users and projects held and used, what it costs, who lent what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization, costs
from gpucommons.scheduler.service.administration import over_time
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.history import lent_fields, report_rows
from gpucommons.scheduler.store.quota_minutes.base import in_whole_rows
from gpucommons.scheduler.store.reports.base import Steps, UsageSum, written_ms

#: The longest report, in days.
_LONGEST_REPORT_DAYS = 400
_DAY_MS = 24 * 3_600_000


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
    lent by then, and all columns are to be of one span. It ends where the ledger is written, as all
    that looks back does. ``drawn``: with days and weeks.
    """
    authorization.history.report(principal)
    _check_span(from_ms, to_ms)
    service = service.told_of(sample=sample)
    from_ms, to_ms = in_whole_rows(from_ms=from_ms, to_ms=to_ms, now_ms=service.now_ms())
    teams = authorization.history.report_teams(principal)
    past = over_time.daily(service, from_ms, to_ms, teams) if drawn else None
    until_ms = max(from_ms, min(to_ms, written_ms(service.now_ms())))
    priced = priced_sums(service, Millis(from_ms), Millis(until_ms), teams, past=past)
    currency = costs.currency_of(_priced(service).values())
    rows = report_rows(priced, currency)
    span, sums = Steps(from_ms=Millis(from_ms), to_ms=Millis(until_ms)), [one for one, _ in priced]
    borrowed_h = sum(row.borrowed_milli_gpu_h for row in rows)
    return models.Report(
        from_ms=from_ms,
        to_ms=to_ms,
        rows=rows,
        currency=currency,
        all_teams=teams is None,
        simulated_pools=over_time.simulated(service, {one.pool for one, _ in priced if one.held}),
        is_sample=sample,
        has_sample=service.sample is not None,
        days=[] if past is None else over_time.days(past, from_ms, to_ms),
        weeks=[] if past is None else over_time.weeks(service, past),
        **_lent(service, span, sums, borrowed_h, teams, past=past),
    )


def _check_span(from_ms: int, to_ms: int) -> None:
    if not 0 <= from_ms < to_ms or to_ms - from_ms > _LONGEST_REPORT_DAYS * _DAY_MS:
        message = (
            f"from_ms {from_ms} and to_ms {to_ms} are no span: to_ms must be later, by at most"
            f" {_LONGEST_REPORT_DAYS} days."
        )
        raise BadRequest(message)


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
    pools = _priced(service)
    return [
        (one, costs.of_sum(pools, one, start_ms))
        for start_ms, end_ms in costs.spans(pools.values(), from_ms, to_ms)
        for one in _held(
            service, Steps(from_ms=Millis(start_ms), to_ms=Millis(end_ms)), teams, past
        )
    ]


def _priced(service: Service) -> Mapping[PoolName, Pool]:
    return service.loop.cluster.pools if service.priced is None else service.priced


def _held(
    service: Service,
    span: Steps,
    teams: frozenset[TeamName] | None,
    past: over_time.Past | None,
) -> Sequence[UsageSum]:
    known = None if past is None else over_time.sums_of(past, span.from_ms, span.to_ms)
    return service.store.reports.usage(span, teams=teams) if known is None else known


def _lent(  # noqa: PLR0913 - a span, what was held in it, and of whom
    service: Service,
    span: Steps,
    sums: Sequence[UsageSum],
    borrowed_h: int,
    teams: frozenset[TeamName] | None,
    *,
    past: over_time.Past | None,
) -> dict[str, Any]:
    """Who lent what, and how much there was to hold."""
    rows = service.store.quota_minutes.sums(
        from_ms=span.from_ms, to_ms=span.to_ms, step_ms=span.to_ms or 1
    )
    first_ms = min((row.minute_ms for row in rows), default=None)
    until_ms = span.to_ms if first_ms is None else first_ms
    before = _held(service, Steps(from_ms=span.from_ms, to_ms=until_ms), teams, past)
    return lent_fields(rows, sums, before, teams, borrowed_h) | {"lent_from_ms": first_ms}
