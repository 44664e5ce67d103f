"""One job under a tab's eyes: its log as it is written, its curve and its full view."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from gpucommons.labextension.fanout import Tab
from gpucommons.labextension.shown_jobs import SendsCalls
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import NotFound, SchedulerError, Unavailable
from gpucommons.scheduler.models import JobView

R = TypeVar("R", bound=BaseModel)

#: How long the scheduler may hold the question for new lines.
LOG_WAIT_S = 20.0
#: Between two looks at a job that is alive.
LOOK_EVERY_S = 1.0
FINAL = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(kw_only=True)
class Follow:
    """Follows one job for one tab until it is over."""

    scheduler: SendsCalls
    tab: Tab
    #: As the page named it; every message carries it back.
    ref: str
    rank: int = 0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _job: JobView | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Send until the job is over or the tab looks away (cancelled)."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch_job())
                tasks.create_task(self._stream_logs())
        except* SchedulerError as group:
            error = group.exceptions[0]
            self.tab.put({"type": "error", "message": str(error)})

    # --- the job and its curve ---------------------------------------------------------------

    async def _watch_job(self) -> None:
        shown = None
        while True:
            job = await self._patiently(calls.job(self.ref))
            if shown is None or job != shown:
                self.tab.put({"type": "job", "job": job.model_dump(mode="json")})
                if shown is None or job.progress != shown.progress:
                    await self._show_curve()
                shown = self._job = job
                self._changed.set()
            if job.state in FINAL:
                return
            await self.sleep(LOOK_EVERY_S)

    async def _show_curve(self) -> None:
        curve = await self._patiently(calls.curve(self.ref))
        points = [point.model_dump(mode="json") for point in curve.points]
        self.tab.put({"type": "curve", "job": self.ref, "points": points})

    # --- its log -----------------------------------------------------------------------------

    async def _stream_logs(self) -> None:
        """Attempt after attempt, from the newest at the start."""
        number = 0
        while (attempt := await self._next_attempt(number)) is not None:
            number = attempt
            await self._stream_attempt(number)

    async def _next_attempt(self, after: int) -> int | None:
        """The newest attempt beyond ``after``; None when the job is over without one."""
        while True:
            if self._job is not None:
                newest = max((a.number for a in self._job.attempts if a.started_ms), default=0)
                if newest > after:
                    return newest
                if self._job.state in FINAL:
                    return None
            self._changed.clear()
            await self._changed.wait()

    async def _stream_attempt(self, number: int) -> None:
        offset = 0
        while True:
            call = calls.log(
                self.ref, attempt=number, rank=self.rank, offset=offset, wait_s=LOG_WAIT_S
            )
            try:
                view = await self._patiently(call)
            except NotFound:
                # Logs are kept for a while only; a worker may never have started.
                return
            offset = view.next_offset
            # A long log is read faster than a page far away takes it.
            await self.tab.emptied()
            if view.lines or view.end:
                self.tab.put(
                    {
                        "type": "log",
                        "job": self.ref,
                        "attempt": number,
                        "rank": self.rank,
                        "lines": view.lines,
                        "end": view.end,
                    }
                )
            if view.end:
                return

    async def _patiently(self, call: calls.Call[R]) -> R:
        """Send; a scheduler that restarts is waited for."""
        while True:
            try:
                return await self.scheduler.send(call)
            except Unavailable:
                await self.sleep(LOOK_EVERY_S)
