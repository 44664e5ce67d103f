"""Waiting for a cycle without holding a thread: requests sleep in the event loop until woken."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from gpucommons.scheduler.service.service import Pending

R = TypeVar("R", bound=BaseModel)


class Waiting:
    """All requests that wait for something of one event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Something was committed. May be called from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def settle(self, pending: Pending[R]) -> R:
        """The answer, as soon as there is one, or what is given when time is up."""
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
