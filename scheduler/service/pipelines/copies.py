"""What steps read of others' results, copied beside the looks at pipelines: gigabytes of one owner's keep
no other's steps waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor

from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.threads.in_turn import InTurn

#: Copied at a time, of as many owners.
_AT_ONCE = 4
#: Copies whose steps were never submitted, as they were cancelled meanwhile.
_MOST_KEPT = 1000


class Copies:
    """One leader's, asked by one thread. A leader that dies copies again: equal inputs are equal bytes."""

    def __init__(self, pool: Executor | None = None) -> None:
        self._in_turn = InTurn(pool or ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="inputs"))
        self._known: dict[str, Future[str]] = {}

    def snapshot(self, key: str, owner: UserName, copy: Callable[[], str]) -> str | None:
        """What ``copy`` returned, or raises what it raised; None while it is under way.

        What was copied once is not copied again before :meth:`forget`.
        """
        future = self._known.get(key)
        if future is None:
            future = self._known[key] = self._in_turn.submit(owner, copy)
            self._make_room()
        if not future.done():
            return None
        if future.exception() is not None:
            self.forget(key)
        return future.result()

    def forget(self, key: str) -> None:
        """It is needed no more, or has to be made anew."""
        self._known.pop(key, None)

    def _make_room(self) -> None:
        while len(self._known) > _MOST_KEPT:
            oldest = next((key for key, each in self._known.items() if each.done()), None)
            if oldest is None:
                return
            del self._known[oldest]
