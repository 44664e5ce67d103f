"""Jobs of a trace file: who submitted what when, and how long it ran.

Three sets of columns are known, one of them with teams or without; which one a file has is seen
from its header. Gaps between
submissions and run lengths are capped, so that one holiday or one forgotten job does not decide
the result. Jobs without a GPU or without a run are left out and counted.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from gpucommons.scheduler.errors import BadRequest

LONGEST_GAP_MS = 6 * 3_600_000
LONGEST_RUN_MS = 72 * 3_600_000
#: What is larger is no time and no job, but a slip in the file.
_MOST_GPUS = 100_000
_MOST = 1e12
#: Teams made of users where a trace names none.
MADE_TEAMS = 8

Row = Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceJob:
    """One job as it was submitted; times count from the first submission."""

    name: str
    team: str
    user: str
    gpus: int
    submit_ms: int
    run_ms: int

    @property
    def work(self) -> int:
        """GPU·ms."""
        return self.gpus * self.run_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """The jobs of a file, in order of submission."""

    name: str
    jobs: tuple[TraceJob, ...]
    #: Jobs without a GPU or a run.
    left_out: int

    @property
    def span_ms(self) -> int:
        """From the first submission to the last."""
        return self.jobs[-1].submit_ms

    @property
    def work(self) -> int:
        """GPU·ms of all jobs."""
        return sum(job.work for job in self.jobs)

    def work_of_teams(self) -> dict[str, int]:
        """GPU·ms by team, by name."""
        found: dict[str, int] = {}
        for job in self.jobs:
            found[job.team] = found.get(job.team, 0) + job.work
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class _Raw:
    """One line, before gaps are capped."""

    name: str
    team: str | None
    user: str
    gpus: int
    #: Since the line before, or since some beginning.
    gap_ms: int | None
    at_ms: int
    run_ms: int


class _BadCell(Exception):
    """What is wrong with a line."""


def read_trace(path: Path, *, most: int | None = None) -> Trace:
    """Read a trace; at most so many of its lines.

    Raises
    ------
    BadRequest
        No such file, unknown columns, or a line that is wrong, with its number.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            raw = _raw(path, rows, _reader_for(path, rows.fieldnames or ()), most)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}. Name a CSV file of jobs."
        raise BadRequest(message) from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is no text in UTF-8. Name a CSV file of jobs.") from error
    except csv.Error as error:
        raise BadRequest(f"{path} is no CSV file: {error}. Name a CSV file of jobs.") from error
    kept = [one for one in raw if one.gpus > 0 and one.run_ms > 0]
    if not kept:
        raise BadRequest(f"{path} has no job with a GPU and a run length: nothing to replay.")
    times = _times(raw)
    jobs = [(times[i], one) for i, one in enumerate(raw) if one.gpus > 0 and one.run_ms > 0]
    jobs.sort(key=lambda one: one[0])
    first = jobs[0][0]
    teams = _made_teams([one for _, one in jobs])
    return Trace(
        name=path.stem,
        jobs=tuple(
            TraceJob(
                name=one.name,
                team=one.team or teams[one.user],
                user=one.user,
                gpus=one.gpus,
                submit_ms=at_ms - first,
                run_ms=min(one.run_ms, LONGEST_RUN_MS),
            )
            for at_ms, one in jobs
        ),
        left_out=len(raw) - len(kept),
    )


def _raw(
    path: Path, rows: csv.DictReader[str], reader: Callable[[Row], _Raw], most: int | None
) -> list[_Raw]:
    found = []
    for row in islice(rows, most):
        try:
            found.append(reader(row))
        except _BadCell as error:
            raise BadRequest(f"{path}, line {rows.line_num}: {error}") from error
    return found


def _reader_for(path: Path, columns: object) -> Callable[[Row], _Raw]:
    there = set(columns) if isinstance(columns, (list, tuple)) else set()
    for needed, reader in _READERS:
        if needed <= there:
            return reader
    known = "; ".join(", ".join(sorted(needed)) for needed, _ in _READERS)
    message = (
        f"{path}, line 1: its columns ({', '.join(sorted(map(str, there))) or 'none'}) are none"
        f" that are known. Known are files with at least: {known}."
    )
    raise BadRequest(message)


def _times(raw: list[_Raw]) -> list[int]:
    """When each line was submitted, with no gap longer than the cap."""
    order = range(len(raw))
    if any(one.gap_ms is None for one in raw):
        order_by_time = sorted(order, key=lambda i: (raw[i].at_ms, i))
    else:
        order_by_time = list(order)
    times = [0] * len(raw)
    now, before = 0, None
    for i in order_by_time:
        one = raw[i]
        gap = one.gap_ms
        if gap is None:
            gap = 0 if before is None else one.at_ms - before
        now, before = now + min(gap, LONGEST_GAP_MS), one.at_ms
        times[i] = now
    return times


def _made_teams(jobs: list[_Raw]) -> dict[str, str]:
    """Users in teams of about equal GPU time: the largest user first, to the smallest team."""
    work: dict[str, int] = {}
    for job in jobs:
        if job.team is None:
            spent = job.gpus * min(job.run_ms, LONGEST_RUN_MS)
            work[job.user] = work.get(job.user, 0) + spent
    teams = {f"team-{number}": 0 for number in range(1, MADE_TEAMS + 1)}
    found = {}
    for user in sorted(work, key=lambda one: (-work[one], one)):
        team = min(teams, key=lambda one: (teams[one], one))
        teams[team] += work[user]
        found[user] = team
    return found


# --- columns ---------------------------------------------------------------------------------


def _cell(row: Row, column: str) -> str:
    found = row.get(column)
    if found is None or not found.strip():
        message = f"{column} is missing."
        raise _BadCell(message)
    return found.strip()


def _number(row: Row, column: str, most: float = _MOST) -> float:
    text = _cell(row, column)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        message = f"{column} is {text!r}, which is no number from 0 to {most:.0f}."
        raise _BadCell(message)
    return number


def _gpus(row: Row, column: str) -> int:
    number = _number(row, column, _MOST_GPUS)
    if number != int(number):
        message = f"{column} is {row[column]!r}: a job has whole GPUs here."
        raise _BadCell(message)
    return int(number)


def _date_ms(row: Row, column: str) -> int:
    text = _cell(row, column)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        message = f"{column} is {text!r}, which is no date such as 2017-10-04 06:14:48."
        raise _BadCell(message) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _gaps(row: Row) -> _Raw:
    """Seconds since the submission before, users, no teams (or a column ``vc``)."""
    return _Raw(
        row.get("u_id") or row.get("job_id") or "",
        row.get("vc") or None,
        _cell(row, "user"),
        _gpus(row, "gpu_num"),
        int(_number(row, "interval") * 1000),
        0,
        int(_number(row, "run_time") * 1000),
    )


def _minutes(row: Row) -> _Raw:
    """Minutes since some beginning; ``user`` is the team."""
    team = _cell(row, "user")
    at_ms = int(_number(row, "submit_time") * 60_000)
    run_ms = int(_number(row, "duration") * 60_000)
    return _Raw(_cell(row, "job_id"), team, team, _gpus(row, "num_gpu"), None, at_ms, run_ms)


def _dates(row: Row) -> _Raw:
    """Dates of submission, start and end; teams are virtual clusters. No start: no run."""
    ran = bool((row.get("start_time") or "").strip() and (row.get("end_time") or "").strip())
    run_ms = _date_ms(row, "end_time") - _date_ms(row, "start_time") if ran else 0
    if run_ms < 0:
        message = f"end_time {row['end_time']} lies before start_time {row['start_time']}."
        raise _BadCell(message)
    at_ms = _date_ms(row, "submit_time")
    team, user = _cell(row, "vc"), _cell(row, "user")
    return _Raw(_cell(row, "job_id"), team, user, _gpus(row, "gpus"), None, at_ms, run_ms)


_READERS: tuple[tuple[frozenset[str], Callable[[Row], _Raw]], ...] = (
    (frozenset({"user", "gpu_num", "interval", "run_time"}), _gaps),
    (frozenset({"job_id", "user", "num_gpu", "submit_time", "duration"}), _minutes),
    (
        frozenset({"job_id", "vc", "user", "submit_time", "start_time", "end_time", "gpus"}),
        _dates,
    ),
)
