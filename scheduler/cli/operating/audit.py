"""``gpucommons audit export``: everything that happened since a day, one event a line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.client import SchedulerClient, calls


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``audit``."""
    own = commands.add_parser("audit", help="what happened").add_subparsers(required=True)
    about = "every event since a day, a line of JSON each"
    command = own.add_parser("export", parents=[shared], help=about)
    command.add_argument("--since", type=day, default=0, metavar="YYYY-MM-DD", help="in UTC")
    command.set_defaults(run=export)


def day(text: str) -> int:
    """A day, in UTC, as milliseconds."""
    try:
        at = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        message = f"{text!r} is no day: write it as 2026-11-28. It begins at midnight in UTC."
        raise argparse.ArgumentTypeError(message) from None
    return int(at.timestamp()) * 1000


def export(arguments: argparse.Namespace) -> int:
    """Print events, oldest first, as lines of JSON."""
    with connect(arguments) as scheduler:
        for event in _events(scheduler):
            if event.at_ms >= arguments.since:
                sys.stdout.write(f"{event.model_dump_json()}\n")
    return 0


def _events(scheduler: SchedulerClient) -> Iterator[models.EventView]:
    after, last = 0, -1
    while after > last:
        last = after
        answer = scheduler.send(calls.events(after=after))
        yield from answer.events
        after = answer.last
