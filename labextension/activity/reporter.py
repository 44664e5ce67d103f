"""Tells the scheduler every few seconds what this server does: the culler's eyes.

No report is not idleness, so a report that fails costs nothing but a log line.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from gpucommons.labextension.live.shown_jobs import SendsCalls
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.models import ActivityReport, Keeps, LeaseView
from gpucommons.scheduler.threads.repeating import repeat_task

log = logging.getLogger("gpucommons.labextension")

REPORT_EVERY_S = 15.0
#: A kernel that becomes busy is no longer shown as idle after so long.
LOOK_EVERY_S = 1.0


class Collects(Protocol):
    """Where reports come from."""

    async def collect(self) -> ActivityReport:
        """What happens right now."""
        ...

    def busy_ms(self) -> int | None:
        """The time, where a kernel says that it is busy now."""
        ...


@dataclass(kw_only=True)
class Reporter:
    """Reports for one lease until cancelled."""

    scheduler: SendsCalls
    collector: Collects
    lease_id: str
    #: Gets the lease as the scheduler sees it after each report (the idle timer moves with it).
    take_lease: Callable[[LeaseView], None]
    #: Gets the time of what was last at work here, before the scheduler and the culler know of it.
    take_activity: Callable[[int], None]
    #: What a stop of this server keeps of its kernels.
    keeps: Callable[[], Keeps]
    #: Whether its GPU memory can be moved to the host.
    parks: Callable[[], bool] = lambda: False
    #: The server's own record of activity, which plain cullers and ``shutdown_no_activity`` read.
    last_activity_times: dict[str, Any]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _failing: bool = False
    #: By the newest report something is at work here.
    _told_busy: bool = False

    async def run(self) -> None:
        """Report, wait, report."""
        await repeat_task(self.report, what="a report of activity", pause=self._pause)

    async def _pause(self) -> None:
        for _ in range(round(REPORT_EVERY_S / LOOK_EVERY_S)):
            await self.sleep(LOOK_EVERY_S)
            busy_ms = self.collector.busy_ms()
            if busy_ms is None or self._failing:
                continue
            self.take_activity(busy_ms)
            if not self._told_busy:
                # Until the culler hears of it, it may take the kernel for idle and stop its cell.
                return

    async def report(self) -> None:
        """One report."""
        report = await self.collector.collect()
        # An older scheduler knows nothing of parking: it is told of it only where there is something to tell.
        told = {"keeps": self.keeps()} | ({"parks": True} if self.parks() else {})
        report = report.model_copy(update=told)
        self._told_busy = any(entry.busy for entry in report.kernels)
        if self._told_busy:
            self.last_activity_times["gpucommons"] = datetime.now(UTC)
        try:
            lease = await self.scheduler.send(calls.report_activity(self.lease_id, report))
        except SchedulerError as error:
            if not self._failing:
                log.warning("activity is not reported, tried again: %s", error)
            self._failing = True
            # Who is not heard may be warned of that: it must not be hidden by what only we know.
            self.take_activity(0)
        else:
            self._failing = False
            last_ms = (entry.last_active_ms or 0 for entry in report.kernels)
            self.take_activity(max(last_ms, default=0))
            self.take_lease(lease)
