"""Waiting for a cycle without holding a thread: requests sleep in the event loop until woken."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from gpucommons.scheduler.errors import TooManyRequests
from gpucommons.scheduler.service.service import Pending

R = TypeVar("R", bound=BaseModel)

#: Of one caller. A browser tab waits for nine things at most; connections are for everybody.
MAX_WAITING = 128


class Waiting:
    """All requests that wait for something of one event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._waiting: Counter[str] = Counter()

    def changed(self) -> None:
        """Something was committed. May be called from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def settle(self, pending: Pending[R], *, whose: str) -> R:
        """The answer, as soon as there is one, or what is given when time is up.

        Raises
        ------
        TooManyRequests
            When the caller waits for too many answers already.
        """
        with self._counted(whose):
            return await self._settle(pending)

    @contextmanager
    def _counted(self, whose: str) -> Generator[None]:
        if self._waiting[whose] >= MAX_WAITING:
            message = f"{MAX_WAITING} of your requests wait for an answer already: try again later."
            raise TooManyRequests(message)
        self._waiting[whose] += 1
        try:
            yield
        finally:
            self._waiting[whose] -= 1
            if not self._waiting[whose]:
                del self._waiting[whose]

    async def _settle(self, pending: Pending[R]) -> R:
        self._loop = asyncio.get_running_loop()
        deadline = self._loop.time() + pending.timeout_s
        while True:
            # Taken before the look, so that no change falls between look and sleep.
            changed = self._changed
            found = await run_in_threadpool(pending.probe)
            if found is not None:
                return found
            left = deadline - self._loop.time()
            if left <= 0:
                return await run_in_threadpool(pending.give_up)
            await _sleep(changed, left if pending.poll_s is None else min(left, pending.poll_s))


async def _sleep(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        return
