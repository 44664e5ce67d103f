"""``--stop-jobs``: cancel what runs, and wait until it has ended."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import InvalidTransition, SchedulerError
from gpucommons.scheduler.models import JobView

_WAIT_S = 120.0
_LOOK_EVERY_S = 0.2


def end_jobs(socket: Path) -> str:
    """Cancel every live job; returns a sentence about it."""
    try:
        with SchedulerClient(f"unix:{socket}") as scheduler:
            jobs = _live(scheduler)
            for job in jobs:
                with suppress(InvalidTransition):  # it has just ended by itself
                    scheduler.send(calls.cancel(job.id))
            left = _wait(scheduler)
    except SchedulerError as error:
        return f"Training jobs could not be ended: {error}"
    if left:
        names = ", ".join(job.name for job in left)
        return f"Still ending when time was up: {names}. They are taken up at the next start."
    return f"Ended {len(jobs)} training job{'' if len(jobs) == 1 else 's'}."


def _live(scheduler: SchedulerClient) -> list[JobView]:
    found: list[JobView] = []
    cursor: str | None = None
    while True:
        page = scheduler.send(calls.jobs(live=True, cursor=cursor))
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            return found


def _wait(scheduler: SchedulerClient) -> list[JobView]:
    deadline = time.monotonic() + _WAIT_S
    while (left := _live(scheduler)) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    return left
