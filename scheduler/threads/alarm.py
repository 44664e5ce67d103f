"""Sleeping until a moment that others may bring nearer."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable


class Alarm:
    """One sleeper, any number of threads that may want it awake earlier."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._changed = threading.Condition()
        self._due_s = math.inf

    def within(self, seconds: float) -> None:
        """Ring at the latest so many seconds from now."""
        with self._changed:
            due_s = self._monotonic_s() + max(0.0, seconds)
            if due_s < self._due_s:
                self._due_s = due_s
                self._changed.notify()

    def wait(self) -> None:
        """Sleep until it rings. What is asked for from now on counts for the next time."""
        with self._changed:
            while (left_s := self._due_s - self._monotonic_s()) > 0:
                self._changed.wait(None if left_s == math.inf else left_s)
            self._due_s = math.inf
