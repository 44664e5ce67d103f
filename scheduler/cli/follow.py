"""``gpucommons logs``: what a job prints, once or until it ends, through all its attempts."""

from __future__ import annotations

import argparse
import sys

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import printable, show
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.models.words.state_words import state_words

FINAL = frozenset({"succeeded", "failed", "cancelled"})
#: How long one request for new log lines may wait.
FOLLOW_S = 20.0


def logs(arguments: argparse.Namespace) -> int:
    """Print a job's log."""
    with connect(arguments) as scheduler:
        if arguments.follow:
            return follow(scheduler, arguments.job, rank=arguments.rank)
        lines = _so_far(scheduler, arguments)
    show(lines, "\n".join(lines), output=arguments.output)
    return 0


def _so_far(scheduler: SchedulerClient, arguments: argparse.Namespace) -> list[str]:
    lines: list[str] = []
    attempt, offset = arguments.attempt, 0
    while True:
        chunk = scheduler.send(
            calls.log(arguments.job, attempt=attempt, rank=arguments.rank, offset=offset)
        )
        lines.extend(chunk.lines)
        if chunk.next_offset == offset:
            return lines
        # The newest attempt may become another one between two requests.
        attempt, offset = chunk.attempt, chunk.next_offset


def follow(scheduler: SchedulerClient, ref: str, *, rank: int) -> int:
    """Print a job's log through all its attempts until it ends; exit like the job."""
    attempt, offset = 1, 0
    while True:
        # The cursor first: what happens while we look must end the wait below at once.
        seen = scheduler.send(calls.events(job=ref, newest=1)).last
        job = scheduler.send(calls.job(ref))
        if len(job.attempts) >= attempt:
            chunk = scheduler.send(
                calls.log(ref, attempt=attempt, rank=rank, offset=offset, wait_s=FOLLOW_S)
            )
            offset = chunk.next_offset
            _print(chunk)
            if not chunk.end:
                continue
            attempt, offset = attempt + 1, 0
            if len(job.attempts) >= attempt:
                continue
        if job.state in FINAL:
            sys.stderr.write(f"{job.name} {state_words(job.state)}\n")
            return 0 if job.state == "succeeded" else 1
        scheduler.send(calls.events(after=seen, job=ref, wait_s=FOLLOW_S))


def _print(chunk: models.LogView) -> None:
    for line in chunk.lines:
        sys.stdout.write(printable(line) + "\n")
    sys.stdout.flush()
