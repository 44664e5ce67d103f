"""``gpucommons report``: GPU hours by team, user and project, as a table, JSON, CSV or Parquet."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import show, table
from gpucommons.scheduler.client import report_calls
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.report_parquet import report_parquet
from gpucommons.scheduler.models.text.report_rows import (
    SAMPLE_NOTE,
    report_csv,
    report_table,
    simulated_note,
)

HEADER = ("TEAM", "OWNER", "PROJECT", "HELD", "USED", "IDLE", "BORROWED", "LENT", "LOST", "PARKED")
_DIGITS = 4


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """The grammar of this command."""
    command = commands.add_parser(
        "report", parents=[shared], help="GPU hours by team, user and project"
    )
    span = command.add_mutually_exclusive_group()
    span.add_argument("--days", type=days, default=30, help="the last so many (default 30)")
    span.add_argument("--month", type=month, metavar="YYYY-MM", help="a month, in UTC")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="for a spreadsheet")
    form.add_argument(
        "--parquet",
        type=Path,
        metavar="FILE",
        help="write its rows to a file that is not there yet (extra `reports`)",
    )
    command.add_argument("--sample", action="store_true", help="the demo's sample data instead")
    command.set_defaults(run=report)


def report(arguments: argparse.Namespace) -> int:
    """Usage by team and user in the last days, or in a month."""
    start, end = arguments.month or _last(arguments.days, datetime.now(tz=UTC))
    with connect(arguments) as scheduler:
        call = report_calls.report(
            from_ms=_millis(start), to_ms=_millis(end), sample=arguments.sample
        )
        answer = scheduler.send(call)
    if arguments.parquet is not None:
        text = _written(arguments.parquet, answer)
    else:
        text = report_csv(answer).rstrip() if arguments.csv else as_table(answer)
    show(answer, text, output=arguments.output)
    return 0


def _written(path: Path, answer: models.Report) -> str:
    """What was done, in a sentence."""
    content = report_parquet(answer)
    try:
        with path.open("xb") as file:
            file.write(content)
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror}.") from None
    return f"{path} holds {len(answer.rows)} rows by user, and what teams lent."


def month(text: str) -> tuple[datetime, datetime]:
    """Read ``2026-11`` as the span from its first to the next month's first day, in UTC."""
    try:
        start = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        message = f"{text!r} is not a month: write it as 2026-11."
        raise argparse.ArgumentTypeError(message) from None
    # Every month has a 28th; four days later the next one has begun.
    return start, (start.replace(day=28) + timedelta(days=4)).replace(day=1)


def days(text: str) -> int:
    """Read a number of days that a calendar has."""
    if not (
        text.isascii() and text.isdecimal() and int(text[:_DIGITS]) > 0 and len(text) <= _DIGITS
    ):
        message = f"{text!r} is not a number of days from 1 to {'9' * _DIGITS}."
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _last(count: int, now: datetime) -> tuple[datetime, datetime]:
    return now - timedelta(days=count), now


def _millis(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def as_table(answer: models.Report) -> str:
    """Columns with their sum, and the unit below."""
    shown = report_table(answer, unknown="unknown")
    rows = [*shown.rows, shown.total] if shown.rows else []
    header = (*HEADER, *(name.upper() for name in shown.columns[len(HEADER) :]))
    notes = (shown.note, simulated_note(answer.simulated_pools), _sample_note(answer))
    return "\n".join(filter(None, (table(header, rows), "GPU hours", *notes)))


def _sample_note(answer: models.Report) -> str:
    return SAMPLE_NOTE if answer.is_sample else ""
