"""Asks all agents for what they measured, while decisions go on.

Of hundreds of nodes some are always slow or gone, and each of those takes seconds. The loop asks once a
minute, goes on deciding, and is woken when the answers are there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpucommons.gpu.slices.usage import UsageMinute
from gpucommons.scheduler.core.model.types import Millis

#: Rows without usage are right, only poorer: they wait no longer for it.
PATIENCE_S = 50.0


@dataclass(kw_only=True)
class _Round:
    """One question to all agents."""

    after_ms: Millis
    began_s: float
    found: Sequence[UsageMinute] = ()
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)


class Gathering:
    """Asked by one thread; one round at a time, in a thread of its own."""

    def __init__(
        self,
        usage: Callable[[Millis], Sequence[UsageMinute]],
        *,
        wake: Callable[[], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._usage, self._wake, self._now_s = usage, wake, now_s
        self._round: _Round | None = None

    def after(self, after_ms: Millis) -> Sequence[UsageMinute] | None:
        """Minutes that start later; None while the agents are being asked.

        Raises
        ------
        Exception
            What asking them raised.
        """
        asked = self._round
        if asked is None or (asked.done.is_set() and asked.after_ms != after_ms):
            asked = self._round = _Round(after_ms=after_ms, began_s=self._now_s())
            threading.Thread(target=self._ask, args=(asked,), name="usage", daemon=True).start()
        if not asked.done.is_set():
            # One that hangs is not asked a second time beside it.
            return () if self._now_s() - asked.began_s >= PATIENCE_S else None
        self._round = None
        if asked.error is not None:
            raise asked.error
        return asked.found

    def _ask(self, asked: _Round) -> None:
        try:
            asked.found = self._usage(asked.after_ms)
        except Exception as error:  # noqa: BLE001 - raised where it is asked for
            asked.error = error
        asked.done.set()
        self._wake()
