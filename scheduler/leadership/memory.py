"""A lease in memory, for candidates of one process: tests and simulation."""

from __future__ import annotations

import threading

from gpucommons.scheduler.errors import Conflict, Unavailable
from gpucommons.scheduler.leadership.election import Lease


class MemoryLease:
    """See :class:`gpucommons.scheduler.leadership.election.LeaseLock`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: tuple[Lease, int] | None = None
        #: Nobody can reach it.
        self.away = False

    def get(self) -> tuple[Lease, str] | None:
        """The lease."""
        with self._lock:
            self._answer()
            return None if self._kept is None else (self._kept[0], str(self._kept[1]))

    def create(self, lease: Lease) -> str:
        """Make it."""
        with self._lock:
            self._answer()
            if self._kept is not None:
                raise Conflict
            self._kept = (lease, 1)
            return "1"

    def update(self, lease: Lease, version: str) -> str:
        """Replace it."""
        with self._lock:
            self._answer()
            if self._kept is None or str(self._kept[1]) != version:
                raise Conflict
            self._kept = (lease, self._kept[1] + 1)
            return str(self._kept[1])

    def _answer(self) -> None:
        if self.away:
            raise Unavailable("the lease is away")
