"""Waits for a job in the triggerer, which needs no worker, and prints its log into the task's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent
from pydantic import BaseModel

from gpucommons.scheduler import models
from gpucommons.scheduler.adapters.airflow.hook import GpuCommonsHook
from gpucommons.scheduler.cli.jobs.logs import FINAL, FOLLOW_S
from gpucommons.scheduler.client import AsyncSchedulerClient, calls
from gpucommons.scheduler.client.call import Call
from gpucommons.scheduler.errors import Conflict, SchedulerError, Unavailable
from gpucommons.scheduler.models.text.state_words import state_words

R = TypeVar("R", bound=BaseModel)

#: Between two questions to a scheduler that does not answer: first and longest.
_PAUSE_S, _MOST_S = 1.0, 60.0
#: How often it is looked whether results have come to their folder; they are not waited for longer.
_LOOKS = 60


class JobTrigger(BaseTrigger):
    """Fires once: with ``job_id`` when the job is over, else with a ``problem`` in a sentence.

    A triggerer that is restarted follows the same job anew, from the start of its log.
    """

    def __init__(self, *, conn_id: str, job_id: str, until_s: float | None = None) -> None:
        super().__init__()
        self.conn_id, self.job_id, self.until_s = conn_id, job_id, until_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """See Airflow: kept in its database, so there is no token in it."""
        kept = {"conn_id": self.conn_id, "job_id": self.job_id, "until_s": self.until_s}
        return f"{type(self).__module__}.{type(self).__qualname__}", kept

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the job to its end."""
        left_s = None if self.until_s is None else self.until_s - time.time()
        try:
            async with asyncio.timeout(left_s) as limit:
                async with await GpuCommonsHook(self.conn_id).open_async() as scheduler:
                    await self._follow(scheduler)
        except TimeoutError:
            if not limit.expired():
                raise  # another's, which does not end the job
            await self.on_kill()
            yield TriggerEvent(
                {"problem": "The task's execution_timeout is over: its job is cancelled."}
            )
        except SchedulerError as error:
            yield TriggerEvent({"problem": f"{error} The job was left as it is."})
        else:
            yield TriggerEvent({"job_id": self.job_id})

    async def on_kill(self) -> None:
        """Cancel the job: somebody cleared or marked the task that waits for it."""
        async with await GpuCommonsHook(self.conn_id).open_async() as scheduler:
            try:
                job = await self._ask(scheduler, calls.cancel(self.job_id))
            except Conflict:
                return  # it is over
        self.log.info("%s is cancelled with its task.", job.name)

    async def _follow(self, scheduler: AsyncSchedulerClient) -> None:
        attempt, offset, said = 1, 0, ""
        while True:
            # The cursor first: what happens while we look must end the wait below at once.
            seen = (await self._ask(scheduler, calls.events(job=self.job_id, newest=1))).last
            job = await self._ask(scheduler, calls.job(self.job_id))
            if (now := _standing(job)) != said:
                said = now
                self.log.info("%s", said)
            if len(job.attempts) >= attempt:
                page = await self._ask(
                    scheduler,
                    calls.log(self.job_id, attempt=attempt, offset=offset, wait_s=FOLLOW_S),
                )
                for line in page.lines:
                    self.log.info("%s", line)
                offset = page.next_offset
                if page.end:
                    attempt, offset = attempt + 1, 0
                if not page.end or len(job.attempts) >= attempt:
                    continue
            if job.state in FINAL:
                return await self._await_results(scheduler, job)
            await self._ask(scheduler, calls.events(after=seen, job=self.job_id, wait_s=FOLLOW_S))

    async def _await_results(self, scheduler: AsyncSchedulerClient, job: models.JobView) -> None:
        for _ in range(_LOOKS):
            if job.results is None or job.results.state != "copying":
                return
            await asyncio.sleep(_PAUSE_S)
            job = await self._ask(scheduler, calls.job(self.job_id))

    async def _ask(self, scheduler: AsyncSchedulerClient, call: Call[R]) -> R:
        """Ask until there is an answer: jobs go on while the scheduler is away."""
        pause_s = _PAUSE_S
        while True:
            try:
                return await scheduler.send(call)
            except Unavailable as error:
                if pause_s == _PAUSE_S:
                    self.log.warning("%s It is asked again until it answers.", error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_S)


def _standing(job: models.JobView) -> str:
    """Where it stands, and why it waits."""
    number = f", attempt {len(job.attempts)}" if len(job.attempts) > 1 else ""
    why = f": {job.reason.text}" if job.reason is not None else ""
    return f"{job.name} {state_words(job.state)}{number}{why}"
