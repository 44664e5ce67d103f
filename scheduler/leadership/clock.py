"""One time for all replicas: the database's, carried on by a clock of ours that never jumps.

What a leader commits is stamped, and its successor goes on from that stamp. Were each to use the
clock of its own machine, an hour between two of them would hold every deadline up for an hour, or
pass them all at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.leadership.election import steady_s
from gpucommons.scheduler.threads.repeating import repeat

_LOG = logging.getLogger(__name__)

#: Between two looks at the database's clock.
MEASURE_S = 30.0


class SharedClock:
    """Call it for the time. :meth:`start` keeps it right."""

    def __init__(
        self, measured: Callable[[], Millis], *, steady: Callable[[], float] = steady_s
    ) -> None:
        self._measured, self._steady = measured, steady
        self._ahead_ms = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.measure()

    def __call__(self) -> Millis:
        """UTC milliseconds."""
        return Millis(round(self._steady() * 1000) + self._ahead_ms)

    def measure(self) -> None:
        """Look at the database's clock; the way there and back is split evenly."""
        before_s = self._steady()
        found_ms = self._measured()
        middle_s = (before_s + self._steady()) / 2
        self._ahead_ms = found_ms - round(middle_s * 1000)

    def start(self) -> None:
        """Look again from time to time."""
        self._thread = threading.Thread(target=self._run, name="shared-clock", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._stopping.wait(MEASURE_S)
        repeat(
            self._measure_again,
            what="a look at the database's clock",
            pause_s=MEASURE_S,
            stopping=self._stopping,
        )

    def _measure_again(self) -> None:
        try:
            self.measure()
        except SchedulerError as error:
            _LOG.info("the time goes on without the database: %s", error)

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
