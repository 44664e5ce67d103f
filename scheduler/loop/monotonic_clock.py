"""The time of decisions: never before what is stored, and never standing still.

A machine whose clock was ahead when something was committed, and is set right then, is behind its own
store. Were the time to wait there, every deadline would wait with it, and whoever asks now would have
asked long ago. So it goes on at half the speed until the machine's clock has caught up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from gpucommons.scheduler.core.model.types import Millis

_LOG = logging.getLogger(__name__)

#: Seconds behind that nobody needs to hear of: clocks are corrected by a little all the time.
_SAID_FROM_MS = 2_000


class OnwardClock:
    """Call it with the time that is stored. Safe from any thread."""

    def __init__(self, wall: Callable[[], Millis], steady_s: Callable[[], float]) -> None:
        self._wall, self._steady_s = wall, steady_s
        #: The time at which it was seen to be behind, by the store and by a clock that nobody sets.
        self._behind: tuple[Millis, float] | None = None

    def __call__(self, stored_ms: Millis) -> Millis:
        """UTC milliseconds."""
        wall_ms, behind = self._wall(), self._behind
        if behind is None:
            if wall_ms >= stored_ms:
                return wall_ms
            behind = self._behind = (stored_ms, self._steady_s())
            self._say(stored_ms - wall_ms)
        from_ms, from_s = behind
        slow_ms = Millis(from_ms + int((self._steady_s() - from_s) * 1000) // 2)
        if wall_ms >= max(stored_ms, slow_ms):
            self._behind = None
            return wall_ms
        return max(stored_ms, slow_ms)

    def _say(self, behind_ms: int) -> None:
        if behind_ms >= _SAID_FROM_MS:
            _LOG.warning(
                "The clock of this machine is %d s behind the stored time: it was set back. Until it"
                " has caught up, time goes by at half the speed and deadlines come late; see to its"
                " synchronization (timedatectl).",
                behind_ms // 1000,
            )
