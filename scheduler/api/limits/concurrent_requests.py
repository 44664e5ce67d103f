"""How many requests of one caller run at once: they take turns at the scheduler's threads, so that one caller's questions cost the others little.

All threads share one interpreter. What decides how long somebody else waits is therefore how much
work runs at a time, and of how many callers: it is counted before the work, not after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from gpucommons.scheduler.errors import TooManyRequests

T = TypeVar("T")

#: Of one person, in the threads that all share (40).
OF_ONE = 10
#: Dear work, of everybody.
DEAR_TOGETHER = 2
#: Shorter than a client's own patience, so that it reads why.
PATIENCE_S = 6.0
#: After dear work its caller pauses for as long as it took, but not longer than this.
LONGEST_REST_S = 1.0


@dataclass(kw_only=True, slots=True)
class _Caller:
    """Who has asked for a turn and not given it back."""

    free: asyncio.Semaphore
    asking: int = 0


class Turns:
    """So many at a time of one caller, and so many in all. Safe for one asyncio loop.

    Who has a turn of their own waits for the others in order, with one request each: it matters
    little how many requests somebody sends.
    """

    def __init__(self, *, of_one: int, together: int | None = None, rests: bool = False) -> None:
        self._of_one = of_one
        self._free = None if together is None else asyncio.Semaphore(together)
        self._rests = rests
        self._callers: dict[str, _Caller] = {}

    @asynccontextmanager
    async def turn(self, whose: str) -> AsyncGenerator[None]:
        """Wait for a turn and hold it.

        Raises
        ------
        TooManyRequests
            When that takes too long.
        """
        caller = self._callers.setdefault(whose, _Caller(free=asyncio.Semaphore(self._of_one)))
        caller.asking += 1
        try:
            await self._take(caller)
        except BaseException:
            self._leave(whose, caller)
            raise
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            if self._free is not None:
                self._free.release()
            rest_s = min(loop.time() - began, LONGEST_REST_S) if self._rests else 0
            if rest_s:
                loop.call_later(rest_s, self._give_back, whose, caller)
            else:
                self._give_back(whose, caller)

    async def _take(self, caller: _Caller) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await caller.free.acquire()
                if self._free is None:
                    return
                try:
                    await self._free.acquire()
                except BaseException:
                    caller.free.release()
                    raise
        except TimeoutError:
            message = (
                "Too many questions wait for an answer already: this one had no turn within"
                f" {PATIENCE_S:.0f} s. Ask fewer at a time, and try again in a moment."
            )
            raise TooManyRequests(message) from None

    def _give_back(self, whose: str, caller: _Caller) -> None:
        caller.free.release()
        self._leave(whose, caller)

    def _leave(self, whose: str, caller: _Caller) -> None:
        caller.asking -= 1
        if not caller.asking:
            del self._callers[whose]


class DearWork:
    """Work that keeps the interpreter busy: one piece of each caller, in threads of its own."""

    def __init__(self) -> None:
        self._turns = Turns(of_one=1, together=DEAR_TOGETHER, rests=True)
        # Nobody waits here, who has a turn: it only keeps the work out of the common threads.
        self._threads = CapacityLimiter(DEAR_TOGETHER)

    async def run(self, work: Callable[[], T], *, whose: str) -> T:
        """Do it when it is this caller's turn.

        Raises
        ------
        TooManyRequests
            When that takes too long.
        """
        async with self._turns.turn(whose):
            return await to_thread.run_sync(work, limiter=self._threads)
