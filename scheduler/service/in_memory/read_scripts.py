"""What was read of jobs' scripts, for what is asked for again and again, and refused each time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpucommons.scheduler.scripts.frameworks import Script
from gpucommons.scheduler.service.in_memory.newest import keep

#: More than people look at side by side.
_MOST = 256


class ReadScripts:
    """By the content of a job's files, which never changes. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Script] = {}

    def of(self, snapshot: str, name: str, read: Callable[[], Script]) -> Script:
        """The script of this name among these files, read where it is not known."""
        asked = (snapshot, name)
        with self._lock:
            known = self._known.get(asked)
        if known is None:
            known = read()
        with self._lock:
            keep(self._known, asked, known, most=_MOST)
        return known
