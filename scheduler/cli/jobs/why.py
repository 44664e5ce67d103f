"""``gpucommons why``: why a job or a notebook waits, when it will likely start, and what would start it."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import by, going_on, show
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import NotFound
from gpucommons.scheduler.models.text.state_words import state_words

_FINAL = frozenset({"succeeded", "failed", "cancelled", "ended"})
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``why``."""
    about = "say why a job waits, when it will likely start, and what would start it now"
    command = commands.add_parser("why", parents=[shared], help=about)
    command.add_argument("job", help="name or id")
    command.set_defaults(run=why)


def why(arguments: argparse.Namespace) -> int:
    """Say why a job or a ticket waits, when it will likely start, and what would start it."""
    with connect(arguments) as scheduler:
        try:
            answer = scheduler.send(calls.why(arguments.job))
        except NotFound:
            if not _ID.fullmatch(arguments.job):
                raise
            answer = scheduler.send(calls.why_lease(arguments.job))
    show(
        answer,
        "\n".join(_why_lines(answer, now_ms=time.time_ns() // 1_000_000)),
        output=arguments.output,
    )
    return 0


def _why_lines(answer: models.Why, *, now_ms: int) -> Iterator[str]:
    name = answer.name or "The notebook"
    if answer.state in _FINAL:
        yield answer.text
        if answer.name:
            yield f"What it printed: gpucommons logs {answer.name}"
            yield f"What it wrote: gpucommons results {answer.name}"
        return
    if answer.reason is None:
        yield answer.text or f"{name} does not wait: it is {state_words(answer.state)}."
        yield from going_on(answer.way_to_go_on)
        return
    yield f"{name} waits: {answer.reason.text}"
    if answer.reason.blocker is not None:
        yield answer.reason.blocker.text
        if answer.reason.blocker.command:
            yield f"  {answer.reason.blocker.command}"
    place = f"Position {answer.position}. " if answer.position else ""
    likely = "" if answer.forecast is None else answer.forecast.text
    if place or likely:
        yield f"{place}{likely}".strip()
    if answer.reason.unblock and answer.reason.unblock not in [way.text for way in answer.ways]:
        yield answer.reason.unblock
    for way in answer.ways:
        yield way.text
    yield from going_on(answer.way_to_go_on)
    if answer.at_latest_ms is not None:
        latest = by(answer.at_latest_ms, now_ms)
        yield f"Starts by {latest}, even if nothing ends before its time limit."
