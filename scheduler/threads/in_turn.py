"""Work of several people in a few threads: who asks for much keeps nobody else waiting."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

T = TypeVar("T")


class InTurn:
    """One piece of each owner's work at a time; between owners in the order in which they came."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._lines: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = {}

    def submit(self, owner: str, work: Callable[[], T]) -> Future[T]:
        """Have it done behind what the owner asked for before; returns at once."""
        future: Future[T] = Future()
        with self._lock:
            line = self._lines.setdefault(owner, deque())
            line.append((future, work))
            is_first = len(line) == 1
        if is_first:
            self._pool.submit(self._next, owner)
        return future

    def _next(self, owner: str) -> None:
        future, work = self._lines[owner][0]
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(error)
        with self._lock:
            line = self._lines[owner]
            line.popleft()
            if not line:
                del self._lines[owner]
                return
        # Behind whoever waits by now.
        self._pool.submit(self._next, owner)
