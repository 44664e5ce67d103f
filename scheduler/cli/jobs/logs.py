"""``gpucommons logs``: what a job prints, once or until it ends, through all its attempts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import printable, say, show
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.models.jobs.attempts import newest_life
from gpucommons.scheduler.models.text.state_words import state_words

FINAL = frozenset({"succeeded", "failed", "cancelled"})
#: How long one request for new log lines may wait.
FOLLOW_S = 20.0


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``logs``."""
    command = commands.add_parser("logs", parents=[shared], help="print a job's log")
    command.add_argument("job", help="name or id")
    command.add_argument("--rank", type=int, default=0)
    command.add_argument("--attempt", type=int)
    command.add_argument("-f", "--follow", action="store_true")
    command.set_defaults(run=logs)


def logs(arguments: argparse.Namespace) -> int:
    """Print a job's log."""
    with connect(arguments) as scheduler:
        if arguments.follow:
            return follow(scheduler, arguments.job, rank=arguments.rank)
        numbers = [arguments.attempt]
        if arguments.attempt is None:
            attempts = scheduler.send(calls.job(arguments.job)).attempts
            numbers = newest_life(attempts) or numbers
            _say_which(numbers, attempts)
        found = [
            (one, log_so_far(scheduler, arguments.job, rank=arguments.rank, attempt=one))
            for one in numbers
        ]
    if arguments.output == "json":
        show([line for _, own in found for line in own], "", output=arguments.output)
        return 0
    for one, lines in found:
        if len(numbers) > 1 and lines:
            _say_attempt(one)
        _print(lines)
    return 0


def _say_which(numbers: Sequence[int | None], attempts: Sequence[models.AttemptView]) -> None:
    """What came before is asked for by number: an end without its beginning looks like a whole log."""
    first, last = numbers[0], numbers[-1]
    if first is None or first == 1:
        return
    which = f"attempt {first}" if first == last else f"attempts {first} to {last}"
    ran = [one.number for one in attempts if one.started_ms and one.number < first]
    before = f"; --attempt {max(ran)} shows the one before" if ran else ", the first that ran"
    say(f"{which} of {len(attempts)}{before}")


def _say_attempt(number: int | None) -> None:
    """Beside the log, so that what is read by a program stays the job's own words."""
    sys.stdout.flush()
    sys.stderr.write(f"--- attempt {number} ---\n")
    sys.stderr.flush()


def log_so_far(
    scheduler: SchedulerClient, ref: str, *, rank: int = 0, attempt: int | None = None
) -> list[str]:
    """The lines that one attempt has written, the newest where none is named."""
    lines: list[str] = []
    offset = 0
    while True:
        chunk = scheduler.send(calls.log(ref, attempt=attempt, rank=rank, offset=offset))
        lines.extend(chunk.lines)
        if chunk.next_offset == offset:
            return lines
        # The newest attempt may become another one between two requests.
        attempt, offset = chunk.attempt, chunk.next_offset


def follow(scheduler: SchedulerClient, ref: str, *, rank: int) -> int:
    """Print a job's log through all its attempts until it ends; exit like the job."""
    # The first one has no header, as most jobs have no other.
    attempt, offset, headed = 1, 0, 1
    while True:
        # The cursor first: what happens while we look must end the wait below at once.
        seen = scheduler.send(calls.events(job=ref, newest=1)).last
        job = scheduler.send(calls.job(ref))
        if len(job.attempts) >= attempt:
            chunk = scheduler.send(
                calls.log(ref, attempt=attempt, rank=rank, offset=offset, wait_s=FOLLOW_S)
            )
            if chunk.lines and attempt != headed:
                headed = attempt
                _say_attempt(attempt)
            offset = chunk.next_offset
            _print(chunk.lines)
            if not chunk.end:
                continue
            attempt, offset = attempt + 1, 0
            if len(job.attempts) >= attempt:
                continue
        if job.state in FINAL:
            sys.stderr.write(f"{job.name} {state_words(job.state)}\n")
            return 0 if job.state == "succeeded" else 1
        scheduler.send(calls.events(after=seen, job=ref, wait_s=FOLLOW_S))


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        sys.stdout.write(printable(line) + "\n")
    sys.stdout.flush()
