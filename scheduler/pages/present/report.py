"""The monthly report: a table, and the same as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models import REPORT_COLUMNS, Report, ReportRow
from gpucommons.scheduler.pages.present import words

_RISKY = ("=", "+", "-", "@", "\t", "\r")
_DECEMBER = 12
#: Time is counted from then.
_FIRST_YEAR = 1970


@dataclass(frozen=True, kw_only=True, slots=True)
class Month:
    """A calendar month, UTC."""

    #: ``2026-11``.
    key: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportTable:
    """Rows of text; the last one sums."""

    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...]


def month_of(text: str, now_ms: int) -> Month:
    """Read ``2026-11``; nothing means the present month.

    Raises
    ------
    BadRequest
        Where it is no month, or one that no report can be of.
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    start = _read(text, now) if text else now
    start = start.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (
        start.replace(year=start.year + 1, month=1)
        if start.month == _DECEMBER
        else start.replace(month=start.month + 1)
    )
    return Month(
        key=start.strftime("%Y-%m"),
        from_ms=int(start.timestamp() * 1000),
        to_ms=int(following.timestamp() * 1000),
    )


def _read(text: str, now: datetime) -> datetime:
    try:
        start = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        start = None
    if start is None or not _FIRST_YEAR <= start.year <= now.year + 1:
        message = (
            f"{text[:20]!r} is not a month that can be reported: write it as {now:%Y-%m},"
            f" from {_FIRST_YEAR}-01 to {now.year + 1}-12."
        )
        raise BadRequest(message)
    return start


def table(report: Report, *, unknown: str = "no data") -> ReportTable:
    """GPU·hours by team and user, most held first."""
    ordered = sorted(report.rows, key=lambda row: (row.team, -row.held_milli_gpu_h, row.owner))
    return ReportTable(
        rows=tuple(_cells(row, unknown) for row in ordered), total=_total(report.rows, unknown)
    )


def as_csv(report: Report) -> str:
    """The table for a spreadsheet: a cell that could be read as a formula is quoted."""
    shown = table(report, unknown="")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for row in (REPORT_COLUMNS, *shown.rows, shown.total):
        writer.writerow([_harmless(cell) for cell in row])
    return out.getvalue()


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_RISKY) else cell


def _cells(row: ReportRow, unknown: str) -> tuple[str, ...]:
    return (
        row.team,
        words.person(row.owner),
        words.gpu_hours(row.held_milli_gpu_h),
        unknown if row.used_milli_gpu_h is None else words.gpu_hours(row.used_milli_gpu_h),
        words.gpu_hours(row.idle_milli_gpu_h),
        words.gpu_hours(row.borrowed_milli_gpu_h),
        words.gpu_hours(row.lost_milli_gpu_h),
    )


def _total(rows: Sequence[ReportRow], unknown: str) -> tuple[str, ...]:
    known = [row.used_milli_gpu_h for row in rows if row.used_milli_gpu_h is not None]
    return (
        "Total",
        "",
        words.gpu_hours(sum(row.held_milli_gpu_h for row in rows)),
        words.gpu_hours(sum(known)) if known else unknown,
        words.gpu_hours(sum(row.idle_milli_gpu_h for row in rows)),
        words.gpu_hours(sum(row.borrowed_milli_gpu_h for row in rows)),
        words.gpu_hours(sum(row.lost_milli_gpu_h for row in rows)),
    )
