"""The report's rows, their total and the spreadsheet: one text of each for page and command line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.languages.texts import gettext
from gpucommons.scheduler.models.reports import LENT, REPORT_COLUMNS, Report, ReportRow
from gpucommons.scheduler.models.text.number_words import decimal
from gpucommons.scheduler.money import from_micro

#: What a spreadsheet takes for the beginning of a formula, also behind blanks, as wide as Chinese and Japanese
#: write it, and where in its language a semicolon or a tab parts cells.
_FORMULA = re.compile(r"(?:^|(?<=[;\t\r\n]))(?=[\s\"]*[=+\-@＝＋－＠]|[\t\r\n])")
#: Wherever sample data is shown or written.
SAMPLE_NOTE = "Sample data of the demo: made up, and nowhere stored."
#: In the place of a user: what a whole team lent.
TEAM_ITSELF = "(team)"


def simulated_note(pools: Sequence[str]) -> str:
    """That use of these pools was not measured on a GPU; "" where it was of all."""
    if not pools:
        return ""
    return gettext(
        "Simulated: the GPUs of %(pools)s have no hardware; what was used of them is processor time.",
        pools=", ".join(pools),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportTable:
    """Rows of text, and their sum."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...]
    #: Of what had no price or is not known; "" where nothing was so.
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """Who, and what there is to say of them; without rows it lent and held nothing itself."""

    names: tuple[str, ...]
    rows: Sequence[ReportRow]
    #: None where lending is not this line's: it is a team's and no user's.
    lent_milli_gpu_h: int | None


def gpu_hours(milli_gpu_h: int) -> str:
    """GPU·hours in full, as the scheduler counts them: so a minute of a share is there, and rows add up."""
    return f"{milli_gpu_h / WHOLE_MILLI_GPU:.3f}"


def report_table(report: Report, *, unknown: str) -> ReportTable:
    """GPU·hours by team, user and project, most held first; what a team lent has a line of its own."""
    teams = [
        _Line(names=(one.team, TEAM_ITSELF, ""), rows=(), lent_milli_gpu_h=one.lent_milli_gpu_h)
        for one in report.lent
        if one.lent_milli_gpu_h
    ]
    users = [
        _Line(
            names=(row.team, row.owner or "someone", row.project),
            rows=(row,),
            lent_milli_gpu_h=None,
        )
        for row in sorted(report.rows, key=_most_held_first)
    ]
    lines = sorted((*users, *teams), key=lambda line: line.names[0])
    return _table(report, REPORT_COLUMNS[:3], lines, unknown)


def team_table(report: Report, *, unknown: str) -> ReportTable:
    """GPU·hours by team, in the order of their names."""
    lent = {one.team: one.lent_milli_gpu_h for one in report.lent}
    of: dict[str, list[ReportRow]] = {team: [] for team in lent}
    for row in report.rows:
        of.setdefault(row.team, []).append(row)
    lines = [
        _Line(names=(team,), rows=of[team], lent_milli_gpu_h=lent.get(team, 0))
        for team in sorted(of)
        if of[team] or lent.get(team)
    ]
    return _table(report, ("Team",), lines, unknown)


def user_table(report: Report, *, unknown: str) -> ReportTable:
    """GPU·hours by team and user, most held first, without what teams lent."""
    of: dict[tuple[str, ...], list[ReportRow]] = {}
    for row in report.rows:
        of.setdefault((row.team, row.owner or "someone"), []).append(row)
    return _without_lent(_table(report, ("Team", "User"), _by_name(of), unknown))


def project_table(report: Report, *, unknown: str, unlabelled: str = "no label") -> ReportTable:
    """GPU·hours by project, with the teams that worked for it; most held first."""
    of: dict[str, list[ReportRow]] = {}
    for row in report.rows:
        of.setdefault(row.project, []).append(row)
    named: dict[tuple[str, ...], list[ReportRow]] = {
        (project or unlabelled, ", ".join(sorted({row.team for row in rows}))): rows
        for project, rows in of.items()
    }
    lines = sorted(_by_name(named), key=lambda line: -_held(line.rows))
    return _without_lent(_table(report, ("Project", "Teams"), lines, unknown))


def _without_lent(shown: ReportTable) -> ReportTable:
    at = shown.columns.index(LENT)
    return ReportTable(
        columns=_without(shown.columns, at),
        rows=tuple(_without(row, at) for row in shown.rows),
        total=_without(shown.total, at),
    )


def report_csv(report: Report) -> str:
    """The table for a spreadsheet: what is not known is empty, what could be a formula is quoted."""
    shown = report_table(report, unknown="")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    notes = (SAMPLE_NOTE if report.is_sample else "", simulated_note(report.simulated_pools))
    for row in (shown.columns, *shown.rows, shown.total, *((note,) for note in notes if note)):
        writer.writerow(map(in_a_spreadsheet, row))
    return out.getvalue()


def in_a_spreadsheet(cell: str) -> str:
    """Quoted wherever it could be taken for a formula."""
    return _FORMULA.sub("'", cell)


def _most_held_first(row: ReportRow) -> tuple[str, int, str, str]:
    return row.team, -row.held_milli_gpu_h, row.owner, row.project


def _held(rows: Sequence[ReportRow]) -> int:
    return sum(row.held_milli_gpu_h for row in rows)


def _by_name(of: Mapping[tuple[str, ...], Sequence[ReportRow]]) -> list[_Line]:
    """By the first name, then most held first."""
    ordered = sorted(of, key=lambda names: (names[0], -_held(of[names]), names))
    return [_Line(names=names, rows=of[names], lent_milli_gpu_h=None) for names in ordered]


def _table(
    report: Report, names: tuple[str, ...], lines: Sequence[_Line], unknown: str
) -> ReportTable:
    cost = (f"Cost, {report.currency}",) if report.currency else ()
    total = _Line(
        names=("Total", *("" for _ in names[1:])),
        rows=[row for line in lines for row in line.rows],
        lent_milli_gpu_h=sum(line.lent_milli_gpu_h or 0 for line in lines),
    )
    return ReportTable(
        columns=(*names, *REPORT_COLUMNS[3:], *cost),
        rows=tuple(_cells(line, report.currency, unknown) for line in lines),
        total=_cells(total, report.currency, unknown),
        note=_note(report),
    )


def _cells(line: _Line, currency: str, unknown: str) -> tuple[str, ...]:
    rows = line.rows
    known = [row.used_milli_gpu_h for row in rows if row.used_milli_gpu_h is not None]
    lent = line.lent_milli_gpu_h
    return (
        *line.names,
        gpu_hours(sum(row.held_milli_gpu_h for row in rows)),
        gpu_hours(sum(known)) if known or not rows else unknown,
        gpu_hours(sum(row.idle_milli_gpu_h for row in rows)),
        gpu_hours(sum(row.borrowed_milli_gpu_h for row in rows)),
        "" if lent is None else gpu_hours(lent),
        gpu_hours(sum(row.lost_milli_gpu_h for row in rows)),
        gpu_hours(sum(row.parked_milli_gpu_h for row in rows)),
        *_cost(rows, currency, unknown),
    )


def _cost(rows: Sequence[ReportRow], currency: str, unknown: str) -> tuple[str, ...]:
    """One cell where there are prices, none else; unknown where nothing of it had one."""
    if not currency:
        return ()
    held = sum(row.held_milli_gpu_h for row in rows)
    if held and held == sum(row.unpriced_milli_gpu_h for row in rows):
        return (unknown,)
    return (f"{from_micro(sum(row.cost_micro or 0 for row in rows)):.2f}",)


def _note(report: Report) -> str:
    unpriced = sum(row.unpriced_milli_gpu_h for row in report.rows)
    said = []
    if unpriced:
        hours = decimal(gpu_hours(unpriced))
        said.append(gettext("%(hours)s GPU hours had no price and are in no cost.", hours=hours))
    if report.lent_unknown_milli_gpu_h:
        hours = decimal(gpu_hours(report.lent_unknown_milli_gpu_h))
        said.append(
            gettext("Who lent %(hours)s of the borrowed GPU hours is not known.", hours=hours)
        )
    return " ".join(said)


def _without(cells: tuple[str, ...], at: int) -> tuple[str, ...]:
    return (*cells[:at], *cells[at + 1 :])
