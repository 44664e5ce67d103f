"""The report's rows, their total and the spreadsheet: one text of each for page and command line."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.models.history import REPORT_COLUMNS, Report, ReportRow
from gpucommons.scheduler.money import from_micro

#: What a spreadsheet takes for a formula.
_RISKY = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportTable:
    """Rows of text, and their sum."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...]
    #: Of what had no price; "" where nothing was so.
    note: str = ""


def gpu_hours(milli_gpu_h: int) -> str:
    """GPU·hours in full, as the scheduler counts them: so a minute of a share is there, and rows add up."""
    return f"{milli_gpu_h / WHOLE_MILLI_GPU:.3f}"


def report_table(report: Report, *, unknown: str) -> ReportTable:
    """GPU·hours by team and user, most held first."""
    ordered = sorted(report.rows, key=lambda row: (row.team, -row.held_milli_gpu_h, row.owner))
    cost = (f"Cost, {report.currency}",) if report.currency else ()
    return ReportTable(
        columns=(*REPORT_COLUMNS, *cost),
        rows=tuple(
            (*_cells(row, unknown), *_cost((row,), report.currency, unknown)) for row in ordered
        ),
        total=(*_total(report.rows, unknown), *_cost(report.rows, report.currency, unknown)),
        note=_note(report.rows),
    )


def report_csv(report: Report) -> str:
    """The table for a spreadsheet: what is not known is empty, what could be a formula is quoted."""
    shown = report_table(report, unknown="")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for row in (shown.columns, *shown.rows, shown.total):
        writer.writerow([f"'{cell}" if cell.startswith(_RISKY) else cell for cell in row])
    return out.getvalue()


def _cost(rows: Sequence[ReportRow], currency: str, unknown: str) -> tuple[str, ...]:
    """One cell where there are prices, none else; unknown where nothing of it had one."""
    if not currency:
        return ()
    held = sum(row.held_milli_gpu_h for row in rows)
    if held and held == sum(row.unpriced_milli_gpu_h for row in rows):
        return (unknown,)
    return (f"{from_micro(sum(row.cost_micro or 0 for row in rows)):.2f}",)


def _note(rows: Sequence[ReportRow]) -> str:
    unpriced = sum(row.unpriced_milli_gpu_h for row in rows)
    return f"{gpu_hours(unpriced)} GPU hours had no price and are in no cost." if unpriced else ""


def _cells(row: ReportRow, unknown: str) -> tuple[str, ...]:
    return (
        row.team,
        row.owner or "someone",
        gpu_hours(row.held_milli_gpu_h),
        unknown if row.used_milli_gpu_h is None else gpu_hours(row.used_milli_gpu_h),
        gpu_hours(row.idle_milli_gpu_h),
        gpu_hours(row.borrowed_milli_gpu_h),
        gpu_hours(row.lost_milli_gpu_h),
    )


def _total(rows: Sequence[ReportRow], unknown: str) -> tuple[str, ...]:
    known = [row.used_milli_gpu_h for row in rows if row.used_milli_gpu_h is not None]
    return (
        "Total",
        "",
        gpu_hours(sum(row.held_milli_gpu_h for row in rows)),
        gpu_hours(sum(known)) if known else unknown,
        gpu_hours(sum(row.idle_milli_gpu_h for row in rows)),
        gpu_hours(sum(row.borrowed_milli_gpu_h for row in rows)),
        gpu_hours(sum(row.lost_milli_gpu_h for row in rows)),
    )
