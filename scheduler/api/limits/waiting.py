"""Waiting for a cycle without holding a thread: requests sleep in the event loop until woken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from gpucommons.scheduler.api.limits.connections import max_waiting
from gpucommons.scheduler.api.limits.places import Place, Places
from gpucommons.scheduler.service.service import Pending

R = TypeVar("R", bound=BaseModel)
#: Runs a piece of work in a thread.
Run = Callable[[Callable[[], Any]], Awaitable[Any]]

#: Of one caller. A browser tab waits for nine things at most; connections are for everybody.
MAX_WAITING = 128


class Waiting:
    """All requests that wait for something of one event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places = Places(in_all=max_waiting)

    def changed(self) -> None:
        """Something was committed. May be called from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for place in self._places:
            place.bell.set()

    def place(self, whose: str, *, most: int) -> AbstractContextManager[Place]:
        """A place for one who waits, inside the block; refused where there are too many."""
        message = f"{most} of your requests wait for an answer already: try again later."
        return self._places.taken(whose, most=most, refusal=message)

    async def settle(
        self, pending: Pending[R], *, whose: str, dearly: Run = run_in_threadpool
    ) -> R:
        """The answer, as soon as there is one, or what is given when time is up.

        Of one that says when it is ready, the answer is worked out as dear work.

        Raises
        ------
        TooManyRequests
            When the caller waits for too many answers already.
        """
        with self.place(whose, most=MAX_WAITING) as place:
            run = run_in_threadpool if pending.ready is None else dearly
            return await self._settle(pending, place, run)

    async def _settle(self, pending: Pending[R], place: Place, run: Run) -> R:
        self._loop = asyncio.get_running_loop()
        deadline = self._loop.time() + pending.timeout_s
        while True:
            # Before the look, so that no change falls between look and sleep.
            place.bell.clear()
            if pending.ready is None or await run_in_threadpool(pending.ready):
                found: R | None = await run(pending.probe)
                if found is not None:
                    return found
            left = deadline - self._loop.time()
            if left <= 0 or place.is_given_back:
                given: R = await run(pending.give_up)
                return given
            await _sleep(place.bell, left if pending.poll_s is None else min(left, pending.poll_s))


async def _sleep(bell: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await bell.wait()
    except TimeoutError:
        return
