"""What a background thread or task does again and again, whatever an answer looks like.

Each of them names the errors that it expects. One that it did not think of (a page of a load balancer
where JSON was meant, a bug) must end a try, not the thread: nobody would miss it until much later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable

from gpucommons.scheduler.errors import Unavailable

_LOG = logging.getLogger(__name__)


class Troubles:
    """Says a failure when it begins or changes, and not each time that it comes again."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._said = ""

    def note(self, error: Exception) -> None:
        """It failed. That somebody cannot be reached is expected: one line, however it shows."""
        away = isinstance(error, Unavailable)
        text = type(error).__name__ if away else repr(error)
        if text == self._said:
            return
        self._said = text
        if away:
            _LOG.warning("%s failed; it is tried again: %s", self._what, error)
        else:
            _LOG.error("%s failed; it is tried again", self._what, exc_info=error)

    def over(self) -> None:
        """It works."""
        if self._said:
            self._said = ""
            _LOG.info("%s works again", self._what)


def repeat(
    step: Callable[[], object], *, what: str, pause_s: float, stopping: threading.Event
) -> None:
    """Step and pause in turn until ``stopping`` is set, in the caller's thread."""
    troubles = Troubles(what)
    while not stopping.is_set():
        try:
            step()
            troubles.over()
        except Exception as error:  # noqa: BLE001 - see above
            troubles.note(error)
        stopping.wait(pause_s)


async def repeat_task(
    step: Callable[[], Awaitable[object]], *, what: str, pause: Callable[[], Awaitable[object]]
) -> None:
    """Step and pause in turn until cancelled."""
    troubles = Troubles(what)
    while True:
        try:
            await step()
            troubles.over()
        except Exception as error:  # noqa: BLE001 - see above
            troubles.note(error)
        await pause()
