"""The culler's heartbeat: ask each source what is due, do it concurrently, sleep until the next.

A *source* knows where candidates come from (leases of the scheduler, or the hub's own list) and
yields what is due as *acts*; the loop only bounds how many run at once. Acts are drawn from the
source as others finish, so a long list never lies in memory as tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpucommons.idle_culler.hub import HubUnavailable
from gpucommons.idle_culler.metrics import Metrics
from gpucommons.scheduler.errors import NotAuthenticated, SchedulerError

#: One thing to do.
Act = Callable[[], Awaitable[None]]
#: Even with something due at once, cycles are so far apart.
MIN_PAUSE_S = 1.0

log = logging.getLogger("gpucommons.culler")


class Source(Protocol):
    """Where candidates come from."""

    def acts(self) -> AsyncGenerator[Act]:
        """What is due now, most urgent first."""
        ...

    @property
    def due_in_s(self) -> float | None:
        """In how many seconds something may be due; None = not before the next regular cycle."""
        ...


class Sleeps(Protocol):
    """Time as the loop needs it; tests pass their own."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class WallTime:
    """The real one."""

    def monotonic(self) -> float:
        """See :class:`Sleeps`."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See :class:`Sleeps`."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How often, and how much at once."""

    every_s: float = 60.0
    concurrency: int = 10


class Loop:
    """Runs cycles over its sources until cancelled; no failure of the others ends it."""

    def __init__(
        self, sources: Sequence[Source], *, pace: Pace, metrics: Metrics, clock: Sleeps
    ) -> None:
        self._sources = sources
        self._pace = pace
        self._metrics = metrics
        self._clock = clock
        #: By source: why its last cycle failed.
        self._trouble: dict[int, str | None] = {}

    async def run(self) -> None:
        """Cycle for ever."""
        while True:
            await self.cycle()
            await self._clock.sleep(self.pause_s())

    async def cycle(self) -> None:
        """One pass over every source."""
        begun = self._clock.monotonic()
        for source in self._sources:
            try:
                await run_bounded(source.acts(), self._pace.concurrency, self._failed)
            except (SchedulerError, HubUnavailable) as error:
                self._metrics.failed_cycles.inc()
                self._tell(source, _words(error))
            else:
                self._tell(source, None)
        self._metrics.cycles.inc()
        self._metrics.cycle_seconds.observe(self._clock.monotonic() - begun)

    def _tell(self, source: Source, trouble: str | None) -> None:
        """Say what changes: where hub and scheduler start later, each cycle fails in the same words."""
        before, self._trouble[id(source)] = self._trouble.get(id(source)), trouble
        if trouble is not None and trouble != before:
            log.warning("nothing decided until this is over: %s", trouble)
        elif trouble is None and before is not None:
            log.info("deciding again")

    def pause_s(self) -> float:
        """Until the regular next cycle, or until something is due before it."""
        due = [source.due_in_s for source in self._sources]
        return max(MIN_PAUSE_S, min([self._pace.every_s, *(s for s in due if s is not None)]))

    def _failed(self, error: Exception) -> None:
        self._metrics.failed_acts.inc()
        log.warning("not done, tried again in the next cycle: %s", _words(error))


def _words(error: Exception) -> str:
    """For the log of somebody who runs the culler and sends no headers."""
    if isinstance(error, NotAuthenticated):
        return (
            "the scheduler does not take the culler's token, because JupyterHub does not know it:"
            " restart the hub, which reads tokens when it starts."
        )
    return str(error)


async def run_bounded(
    acts: AsyncGenerator[Act], concurrency: int, failed: Callable[[Exception], None]
) -> None:
    """Run acts, at most ``concurrency`` at once; one that fails is reported and hinders no other."""
    free = asyncio.Semaphore(concurrency)

    async def run(act: Act) -> None:
        try:
            await act()
        except (SchedulerError, HubUnavailable) as error:
            failed(error)
        finally:
            free.release()

    failure: SchedulerError | HubUnavailable | None = None
    async with asyncio.TaskGroup() as tasks, contextlib.aclosing(acts) as drawn:
        while failure is None:
            await free.acquire()
            try:
                act = await anext(drawn)
            except StopAsyncIteration:
                break
            except (SchedulerError, HubUnavailable) as error:
                # Raised below: here it would cancel the acts under way.
                failure = error
            else:
                tasks.create_task(run(act))
    if failure is not None:
        raise failure
