"""Events, curves and reports on the wire."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.curves.shown_curve import without_repeats
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.costs import Cost, in_hours
from gpucommons.scheduler.store.base import LogPoint, StoredEvent
from gpucommons.scheduler.store.quota_minutes.base import WHOLE_POOL, QuotaMinute
from gpucommons.scheduler.store.reports.base import UsageSum

_HOUR_MS = 3_600_000
_PER_MILLE = 1000
#: A receipt names who got the devices; whoever does not see that team reads only the team's name.
_BENEFICIARY = ("beneficiary", "beneficiary_id")


def event_view(stored: StoredEvent, principal: Principal) -> models.EventView:
    """An event as this caller sees it."""
    event = stored.event
    return models.EventView(
        number=stored.number,
        at_ms=event.at_ms,
        kind=event.kind,
        by=event.by,
        text=event.text,
        workload_id=event.workload_id,
        attempt_id=event.attempt_id,
        team=event.team,
        data=_data(dict(event.data), principal),
    )


def _data(data: dict[str, Any], principal: Principal) -> dict[str, Any]:
    if principal.admin or not any(name in data for name in _BENEFICIARY):
        return data
    team = data.get("beneficiary_team")
    if team is not None and TeamName(str(team)) in principal.sees:
        return data
    hidden = {name: value for name, value in data.items() if name not in _BENEFICIARY}
    return hidden | {"beneficiary": team} if team is not None else hidden


def curve_view(points: Sequence[LogPoint], source: str, sources: Sequence[str]) -> models.Curve:
    """A metric curve."""
    return models.Curve(
        source=source,
        sources=list(sources),
        points=[
            models.CurvePoint(
                attempt=point.attempt_number,
                step=point.step,
                at_ms=point.at_ms,
                metrics=dict(point.metrics),
                unit=point.unit,
            )
            for point in without_repeats(points)
        ],
    )


def report_rows(sums: Iterable[tuple[UsageSum, Cost]], currency: str) -> list[models.ReportRow]:
    """Sums by team, user and project, over all pools, in milli-GPU hours; each with what it costs."""
    found: dict[tuple[str, str, str], list[tuple[UsageSum, Cost]]] = defaultdict(list)
    for one, cost in sums:
        found[one.team, one.owner, one.project].append((one, cost))
    return [_report_row(found[key], currency) for key in sorted(found)]


def _report_row(several: Sequence[tuple[UsageSum, Cost]], currency: str) -> models.ReportRow:
    parts = [one for one, _ in several]
    cost = sum((one for _, one in several), Cost())
    # Missing telemetry is not zero: without any reading nothing is said.
    used = [one.used for one in parts if one.used is not None]
    return models.ReportRow(
        team=parts[0].team,
        owner=parts[0].owner,
        project=parts[0].project,
        held_milli_gpu_h=in_hours(sum(one.held for one in parts)),
        used_milli_gpu_h=in_hours(sum(used)) if used else None,
        idle_milli_gpu_h=in_hours(sum(one.idle for one in parts)),
        borrowed_milli_gpu_h=in_hours(sum(one.borrowed for one in parts)),
        lost_milli_gpu_h=in_hours(sum(one.lost for one in parts)),
        parked_milli_gpu_h=in_hours(sum(one.parked for one in parts)),
        cost_micro=cost.micro if currency else None,
        unpriced_milli_gpu_h=in_hours(cost.unpriced) if currency else 0,
    )


def lent_fields(
    rows: Sequence[QuotaMinute],
    sums: Sequence[UsageSum],
    before: Sequence[UsageSum],
    teams: frozenset[TeamName] | None,
    borrowed_h: int,
) -> dict[str, Any]:
    """Sums of a report's span by team; ``before`` is what was held before the first minute of ``rows``.

    Where all teams are here, what they lent, GPUs in no quota and what is not known make up
    ``borrowed_h``: what the report's rows have as borrowed, to the thousandth.
    """
    borrowed_before = sum(one.borrowed for one in before)
    by_none = sum(one.borrowed for one in sums) - borrowed_before - sum(row.lent for row in rows)
    held_before = sum(one.held for one in before)
    known = bool(rows) and not held_before
    of_teams: dict[TeamName, list[QuotaMinute]] = defaultdict(list)
    for row in rows:
        if row.team != WHOLE_POOL and (teams is None or row.team in teams):
            of_teams[row.team].append(row)
    size = sum(row.size for row in rows if row.team == WHOLE_POOL)
    whole = teams is None
    lent = [sum(row.lent for row in of_teams[team]) for team in sorted(of_teams)]
    parts = [*lent, max(0, by_none) if rows and whole else 0, borrowed_before]
    *hours, none_h, unknown_h = _adding_up(parts, borrowed_h if whole else None)
    return {
        "lent": [
            models.LentRow(
                team=team,
                lent_milli_gpu_h=hour,
                quota_milli_gpu_h=in_hours(sum(row.size for row in of_teams[team])),
            )
            for team, hour in zip(sorted(of_teams), hours, strict=True)
        ],
        "lent_unknown_milli_gpu_h": unknown_h,
        "lent_by_none_milli_gpu_h": none_h,
        "capacity_milli_gpu_h": in_hours(size) if known else None,
    }


def _adding_up(parts: Sequence[int], total_h: int | None) -> list[int]:
    """Milli-GPU hours of milli-GPU milliseconds, which add up to a total whose rows are rounded already.

    The parts with the largest remainders are rounded up (Hamilton's method). Without a total, or where
    it is off by more than rounding explains, each is rounded by itself.
    """
    there = [place for place, part in enumerate(parts) if part]
    most_off = 1 if total_h is None else 1 + total_h // _PER_MILLE
    if total_h is None or not there or abs(total_h - in_hours(sum(parts))) > most_off:
        return [in_hours(part) for part in parts]
    down = [part // _HOUR_MS for part in parts]
    each, more = divmod(total_h - sum(down), len(there))
    largest = sorted(there, key=lambda place: (-(parts[place] % _HOUR_MS), place))[:more]
    return [
        max(0, hours + each + (place in largest)) if parts[place] else 0
        for place, hours in enumerate(down)
    ]
