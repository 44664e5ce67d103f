"""Events, curves and reports on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.core.types import HoldClass, TeamName
from gpucommons.scheduler.service.principal import Principal
from gpucommons.scheduler.store.base import LedgerRow, LogPoint, StoredEvent

_HOUR_MS = 3_600_000
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


def curve_view(points: Iterable[LogPoint]) -> models.Curve:
    """A metric curve."""
    return models.Curve(
        points=[
            models.CurvePoint(
                attempt=point.attempt_number,
                step=point.step,
                at_ms=point.at_ms,
                metrics=dict(point.metrics),
            )
            for point in points
        ]
    )


def report_rows(ledger: Iterable[LedgerRow]) -> list[models.ReportRow]:
    """Sums by team and user."""
    found: dict[tuple[str, str], list[LedgerRow]] = {}
    for row in ledger:
        found.setdefault((row.team, row.owner), []).append(row)
    return [_report_row(team, owner, rows) for (team, owner), rows in sorted(found.items())]


def _report_row(team: str, owner: str, rows: list[LedgerRow]) -> models.ReportRow:
    return models.ReportRow(
        team=team,
        owner=owner,
        held_milli_gpu_h=_hours(row.held_milli_gpu_ms for row in rows),
        used_milli_gpu_h=_used(rows),
        idle_milli_gpu_h=_hours(row.held_milli_gpu_ms for row in rows if row.idle),
        borrowed_milli_gpu_h=_hours(
            row.held_milli_gpu_ms for row in rows if row.hold_class is HoldClass.OVER_QUOTA
        ),
        lost_milli_gpu_h=_hours(row.lost_milli_gpu_ms for row in rows),
    )


def _used(rows: list[LedgerRow]) -> int | None:
    """Missing telemetry is not zero: without any reading nothing is said."""
    known = [row for row in rows if row.compute_percent_mean is not None]
    if not known:
        return None
    return _hours(row.held_milli_gpu_ms * (row.compute_percent_mean or 0) // 100 for row in known)


def _hours(milli_gpu_ms: Iterable[int]) -> int:
    return round(sum(milli_gpu_ms) / _HOUR_MS)
