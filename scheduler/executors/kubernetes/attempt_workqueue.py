"""Looks at an attempt soon after something of it changed: once for all that changed meanwhile.

A look costs as much as the attempt has workers, and each of thousands of workers changes several times
while they start: looking at every change would take the square of their number.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from gpucommons.scheduler.core.model.types import AttemptId

_LOG = logging.getLogger(__name__)

#: For each second of looking so many of rest, in which changes gather and others have their turn.
_REST = 3.0
_LONGEST_REST_S = 0.5


class AttemptWorkqueue:
    """A thread that looks at what is named to it."""

    def __init__(self, look: Callable[[AttemptId], None]) -> None:
        self._look = look
        self._changed = threading.Condition()
        #: In the order in which they were first named.
        self._due: dict[AttemptId, None] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def soon(self, attempt_id: AttemptId) -> None:
        """Have it looked at."""
        with self._changed:
            if self._closed.is_set():
                return
            first = not self._due
            self._due[attempt_id] = None
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="attempt workqueue", daemon=True
                )
                self._thread.start()
            if first:
                # Else it knows: it takes all that is due by then.
                self._changed.notify()

    def close(self) -> None:
        """End the thread; what is due is left to whoever adopts."""
        with self._changed:
            self._closed.set()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2)

    def _run(self) -> None:
        while not self._closed.is_set():
            due = self._take()
            began_s = time.monotonic()
            for attempt_id in due:
                if self._closed.is_set():
                    return
                self.now(attempt_id)
            took_s = time.monotonic() - began_s
            self._closed.wait(min(_LONGEST_REST_S, took_s * _REST))

    def _take(self) -> tuple[AttemptId, ...]:
        with self._changed:
            while not self._due and not self._closed.is_set():
                self._changed.wait()
            due = tuple(self._due)
            self._due.clear()
            return due

    def now(self, attempt_id: AttemptId) -> None:
        """Look at it in this thread."""
        try:
            self._look(attempt_id)
        except Exception:  # noqa: BLE001 - one attempt must not end the looks at all others
            _LOG.exception("attempt %s could not be looked at", attempt_id)
