"""Tells the loop that something changed, but not for each of a thousand pods."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

_LOG = logging.getLogger(__name__)

#: Changes within so long are one.
EVERY_S = 0.1


class LoopWakeup:
    """Calls back soon after it was touched, and on a beat."""

    def __init__(
        self,
        on_change: Callable[[], None],
        on_beat: Callable[[], None],
        *,
        every_s: Callable[[], float] = lambda: EVERY_S,
        beat_s: float = 1.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_change = on_change
        self._on_beat = on_beat
        self._every_s = every_s
        self._beat_s = beat_s
        self._now_s = now_s
        self._touched = threading.Event()
        self._beat_due = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cluster wakeup", daemon=True)
        self._thread.start()

    def touch(self) -> None:
        """Something changed."""
        self._touched.set()

    def beat(self) -> None:
        """Somebody waits for what the beat does."""
        self._beat_due.set()
        self._touched.set()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._touched.set()
        if self._thread is not threading.current_thread():
            self._thread.join(2)

    def _run(self) -> None:
        beat_s = self._now_s() + self._beat_s
        while not self._closed.is_set():
            changed = self._touched.wait(max(0.0, beat_s - self._now_s()))
            if self._closed.is_set():
                return
            self._touched.clear()
            if self._beat_due.is_set() or self._now_s() >= beat_s:
                self._beat_due.clear()
                beat_s = self._now_s() + self._beat_s
                self._call(self._on_beat)
            if changed:
                self._call(self._on_change)
                self._closed.wait(self._every_s())

    @staticmethod
    def _call(what: Callable[[], None]) -> None:
        try:
            what()
        except Exception:  # noqa: BLE001 - one failure must not end all beats that follow
            _LOG.exception("a beat of the cluster failed")
