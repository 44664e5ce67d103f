"""Whether the thread that decides still turns, and whether it gets anything done: two questions.

One that hangs is helped by a new process. One whose cycles fail is not, as a rule: a database that is
away is away for the next one, too. But nothing is decided either way, and whoever looks must see that.
"""

from __future__ import annotations

from collections.abc import Callable


class Pulse:
    """Kept by one thread, read by any."""

    def __init__(self, steady_s: Callable[[], float]) -> None:
        self._steady_s = steady_s
        self._turned_s: float | None = None
        self._did_well_s: float | None = None
        #: Turns that failed, since this process began.
        self.failed = 0

    def begin(self) -> None:
        """The thread begins."""
        self._turned_s = self._did_well_s = self._steady_s()

    def turned(self, *, well: bool) -> float:
        """A turn has ended; returns when."""
        self._turned_s = now_s = self._steady_s()
        if well:
            self._did_well_s = now_s
        else:
            self.failed += 1
        return now_s

    def rested(self) -> None:
        """The next turn begins."""
        self._turned_s = self._steady_s()

    @property
    def silent_s(self) -> float:
        """Since when the thread has come to no end of a turn, be it one that failed or followed.

        It turns every few seconds, whatever happens. One that does not hangs, and only a new process
        helps.
        """
        return self._since_s(self._turned_s)

    @property
    def useless_s(self) -> float:
        """Since when no turn went well: nothing was decided, nor followed."""
        return self._since_s(self._did_well_s)

    def _since_s(self, moment_s: float | None) -> float:
        return 0.0 if moment_s is None else self._steady_s() - moment_s
