"""How often a message that nobody took is sent again, and how long the pause before is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.core.queue import back_off
from gpucommons.scheduler.notifications.preferences import About, Fate, Notification

#: After the first try that failed; the second time twice as long, and so on.
FIRST_WAIT_MS, LONGEST_WAIT_MS = 30_000, 3_600_000
#: Over about half a day in all.
MOST_TRIES = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """To one user by one channel nothing is sent for a while: the last message was not taken."""

    #: Failures in a row.
    tries: int
    until_ms: Millis


def longer(pause: Pause | None, now_ms: Millis) -> Pause:
    """The pause after another failure; ``None`` = the last message before was taken."""
    tries = 1 if pause is None else pause.tries + 1
    wait_ms = back_off.doubling(FIRST_WAIT_MS, tries, longest_ms=LONGEST_WAIT_MS)
    return Pause(tries=tries, until_ms=Millis(now_ms + wait_ms))


def after_failure(message: Notification, pause: Pause, why: str, *, for_good: bool) -> Notification:
    """What becomes of a message that was not taken: sent again after the pause, or given up.

    ``for_good``: it was refused, so that another try would be, too. A test is tried once.
    """
    if for_good or message.tries >= MOST_TRIES or message.telling.about is About.TEST:
        return replace(message, fate=Fate.FAILED, next_ms=None, said=why)
    return replace(message, next_ms=pause.until_ms, said=why)
