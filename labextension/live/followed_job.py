"""One job under a tab's eyes: its log as it is written, its curve and its full view."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from pydantic import BaseModel

from gpucommons.labextension.live.fanout import Tab
from gpucommons.labextension.live.shown_jobs import SendsCalls
from gpucommons.labextension.mlflow_runs import Tracking
from gpucommons.scheduler.client import calls, plan_calls
from gpucommons.scheduler.errors import NotFound, SchedulerError, Unavailable
from gpucommons.scheduler.models import JobUse, JobView
from gpucommons.scheduler.models.jobs.attempts import newest_life

R = TypeVar("R", bound=BaseModel)

#: How long the scheduler may hold the question for new lines.
LOG_WAIT_S = 20.0
#: Between two looks at a job that is alive.
LOOK_EVERY_S = 1.0
#: Looks at the job between two at its curve, and at its use, of which there is more every minute.
CURVE_EVERY, USE_EVERY = 2, 15
LAST_LOOK_S = 2.0
#: As many workers' logs are read in one.
MOST_IN_ONE = 16
FINAL = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(kw_only=True)
class Follow:
    """Follows one job for one tab until it is over."""

    scheduler: SendsCalls
    tab: Tab
    #: As the page named it; every message carries it back.
    ref: str
    #: The worker whose log is read; None = all of them, as their lines come.
    rank: int | None = 0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    tracking: Tracking | None = None
    _job: JobView | None = None
    _shown: dict[str, BaseModel] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Send until the job is over or the tab looks away (cancelled)."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch_job())
                tasks.create_task(self._stream_logs())
        except* SchedulerError as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            self.tab.put({"type": "error", "message": str(error)})

    # --- the job and its curve ---------------------------------------------------------------

    async def _watch_job(self) -> None:
        shown = None
        for look in count():
            job = await self._patiently(calls.job(self.ref))
            told = shown is None or job.progress != shown.progress
            changed = shown is not None and _holds(job) != _holds(shown)
            if shown is None or job != shown:
                self.tab.put({"type": "job", "job": job.model_dump(mode="json")})
                shown = self._job = job
                self._changed.set()
            is_over = job.state in FINAL
            if is_over and look:
                # What it printed last is read a moment after it has ended.
                await self.sleep(LAST_LOOK_S)
            # A curve that is read of a log may grow though nothing says how far the job is.
            if told or is_over or look % CURVE_EVERY == 0:
                await self._show("curve", calls.curve(self.ref))
            if not is_over and (look % USE_EVERY == 0 or changed):
                await self._show_use(job)
            if is_over:
                await self._show_last_use(job)
                return
            await self.sleep(LOOK_EVERY_S)

    async def _show_last_use(self, job: JobView) -> None:
        """Until what its last minute was measured to use has come, or will not come any more."""
        while True:
            await self._show_use(job)
            use = self._shown.get("use")
            if not (isinstance(use, JobUse) and use.is_pending):
                return
            await self.sleep(USE_EVERY * LOOK_EVERY_S)

    async def _show_use(self, job: JobView) -> None:
        """What it used, and what came of its plan where it took one."""
        await self._show("use", calls.job_use(self.ref))
        if job.request is not None and job.request.plan is not None:
            await self._show("plan", plan_calls.job_plan(self.ref))
        if self.tracking is not None and (runs := await self.tracking.runs(job)) is not None:
            self._tell("tracked", runs)

    async def _show(self, kind: str, call: calls.Call[R]) -> None:
        try:
            found = await self._patiently(call)
        except NotFound:
            # A scheduler of an earlier release has none.
            return
        self._tell(kind, found)

    def _tell(self, kind: str, found: BaseModel) -> None:
        """Send what is news to the page."""
        if self._shown.get(kind) != found:
            self._shown[kind] = found
            self.tab.put({"type": kind, "job": self.ref, **found.model_dump(mode="json")})

    # --- its log -----------------------------------------------------------------------------

    async def _stream_logs(self) -> None:
        """Attempt after attempt, from the newest at the start, or the one from which that was woken."""
        number = 0
        while (attempt := await self._next_attempt(number)) is not None:
            number = attempt
            await self._stream_attempt(number)

    async def _next_attempt(self, after: int) -> int | None:
        """The next to show beyond ``after``; None when the job is over without one."""
        while True:
            if self._job is not None:
                found = next((n for n in newest_life(self._job.attempts) if n > after), None)
                if found is not None:
                    return found
                if self._job.state in FINAL:
                    return None
            self._changed.clear()
            await self._changed.wait()

    async def _stream_attempt(self, number: int) -> None:
        async with asyncio.TaskGroup() as tasks:
            for rank in self._ranks():
                tasks.create_task(self._stream_log(number, rank))

    def _ranks(self) -> range:
        if self.rank is not None:
            return range(self.rank, self.rank + 1)
        return range(1 if self._job is None else min(self._job.workers, MOST_IN_ONE))

    async def _stream_log(self, number: int, rank: int) -> None:
        offset = 0
        while True:
            call = calls.log(self.ref, attempt=number, rank=rank, offset=offset, wait_s=LOG_WAIT_S)
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
                        "rank": rank,
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


def _holds(job: JobView) -> tuple[object, ...]:
    """What is asked, which a person may change while it waits, and what its use is told of."""
    return job.milli_gpu, job.workers, job.state, len(job.attempts)
