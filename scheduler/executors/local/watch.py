"""Notices quickly that something changed in attempts' folders, so that nobody has to ask all the time.

A supervisor may be a child of a scheduler that is dead, so there is nothing to wait for but its files.
Looking at them costs microseconds; the thread lives only while there are attempts to look at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder
from gpucommons.scheduler.threads.repeating import Troubles

#: A change is seen after so long at most.
EVERY_S = 0.05

Trace = tuple[bool, bool, bool, bool, int]


class Watch:
    """Calls ``on_change`` from its own thread."""

    def __init__(
        self, folder_of: Callable[[AttemptId], AttemptFolder], on_change: Callable[[], None]
    ) -> None:
        self._folder_of = folder_of
        self._on_change = on_change
        self._traces: dict[AttemptId, Trace | None] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def look_at(self, attempt_id: AttemptId) -> None:
        """Begin to look at an attempt."""
        with self._lock:
            self._traces.setdefault(attempt_id, None)
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="attempts", daemon=True)
                self._thread.start()

    def leave(self, attempt_id: AttemptId) -> None:
        """Stop looking at it."""
        with self._lock:
            self._traces.pop(attempt_id, None)

    def _run(self) -> None:
        troubles = Troubles("a look at the attempts' folders")
        while not self._closed.wait(EVERY_S):
            with self._lock:
                if not self._traces:
                    self._thread = None
                    return
                before = dict(self._traces)
            try:
                self._look(before)
                troubles.over()
            except Exception as error:  # noqa: BLE001 - a folder that cannot be read must not end it
                troubles.note(error)

    def _look(self, before: Mapping[AttemptId, Trace | None]) -> None:
        after = {attempt_id: self._trace(attempt_id) for attempt_id in before}
        with self._lock:
            for attempt_id in self._traces.keys() & after.keys():
                self._traces[attempt_id] = after[attempt_id]
        if after != before:
            self._on_change()

    def _trace(self, attempt_id: AttemptId) -> Trace:
        folder = self._folder_of(attempt_id)
        return (
            folder.started.exists(),
            folder.signalled.exists(),
            folder.exit.exists(),
            folder.supervised(),
            _written_ns(folder.memory),
        )

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(5)


def _written_ns(path: Path) -> int:
    """When it was written; 0 where it is not there."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
