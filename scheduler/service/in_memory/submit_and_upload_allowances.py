"""How much one user may bring within a while: what is kept for long must not grow at anyone's will.

Submits are counted by the store, for all replicas together. Uploads and other orders are counted in
memory, by each replica: a restart forgets them, and nobody but the operator can restart a scheduler.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.errors import TooManyRequests
from gpucommons.scheduler.store.base import Submits

#: Defaults of one user.
SUBMITS_PER_HOUR = 1000
UPLOAD_GIB_PER_DAY = 8
#: Every other order of theirs leaves something in history, too: a ticket, a pause, a resume.
ORDERS_PER_HOUR = 2 * SUBMITS_PER_HOUR
#: However small they are.
_UPLOADS_PER_DAY = 5000
#: A job of usual length takes about one KiB.
_MEAN_SPEC_BYTES = 8 << 10


@dataclass(kw_only=True)
class Allowance:
    """So many things and so many bytes per user, in any stretch of time of this length."""

    within_ms: int
    most: int
    most_bytes: int
    #: What a refusal says, given the user.
    refusal: Callable[[str], str]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _taken: dict[str, deque[tuple[Millis, int]]] = field(default_factory=lambda: defaultdict(deque))
    _swept_ms: int = 0

    def take(self, user: str, size_bytes: int, *, now_ms: Millis) -> None:
        """One more of this size.

        Raises
        ------
        TooManyRequests
            When that would be too much; nothing is counted then.
        """
        with self._lock:
            self._look(user, size_bytes, now_ms).append((now_ms, size_bytes))

    def check(self, user: str, size_bytes: int, *, now_ms: Millis) -> None:
        """Whether one of this size could be taken now; nothing is counted.

        Raises
        ------
        TooManyRequests
            When it could not.
        """
        with self._lock:
            self._look(user, size_bytes, now_ms)

    def _look(self, user: str, size_bytes: int, now_ms: Millis) -> deque[tuple[Millis, int]]:
        self._sweep(now_ms)
        mine = self._taken[user]
        self._forget(mine, now_ms)
        if len(mine) >= self.most or _bytes(mine) + size_bytes > self.most_bytes:
            raise TooManyRequests(self.refusal(user))
        return mine

    def _forget(self, taken: deque[tuple[Millis, int]], now_ms: Millis) -> None:
        while taken and taken[0][0] <= now_ms - self.within_ms:
            taken.popleft()

    def _sweep(self, now_ms: Millis) -> None:
        """Users who bring nothing more are forgotten, too."""
        if now_ms < self._swept_ms + self.within_ms:
            return
        self._swept_ms = now_ms
        for user in list(self._taken):
            self._forget(self._taken[user], now_ms)
            if not self._taken[user]:
                del self._taken[user]


def _bytes(taken: deque[tuple[Millis, int]]) -> int:
    return sum(size for _, size in taken)


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmitLimit:
    """Jobs of one user within any hour: their specs are kept as long as history is."""

    per_hour: int = SUBMITS_PER_HOUR

    def check(self, user: str, before: Submits, size_bytes: int) -> None:
        """Whether one more job of this size may be asked for.

        Raises
        ------
        TooManyRequests
            When that would be too much.
        """
        most_bytes = self.per_hour * _MEAN_SPEC_BYTES
        if before.count < self.per_hour and before.size_bytes + size_bytes <= most_bytes:
            return
        message = (
            f"{user} has submitted as many jobs within one hour as this scheduler takes"
            f" ({self.per_hour:,}, of {_MEAN_SPEC_BYTES >> 10} KiB each on average). Wait a little, make"
            " the jobs' commands and variables shorter, or ask your admin (--submits-per-hour)."
        )
        raise TooManyRequests(message)


def uploads(gib_per_day: int) -> Allowance:
    """Jobs' files: they stay as long as the jobs, and a day without one."""
    return Allowance(
        within_ms=86_400_000,
        most=_UPLOADS_PER_DAY,
        most_bytes=gib_per_day << 30,
        refusal=lambda user: (
            f"{user} has uploaded as many new files within one day as this scheduler takes"
            f" ({gib_per_day} GiB). Leave out data files and read them from their own place, go on"
            " tomorrow, or ask your admin (--upload-gib-per-day)."
        ),
    )


def orders() -> Allowance:
    """Everything that one person asks for beside jobs: enough to cancel all of those one by one."""
    return Allowance(
        within_ms=3_600_000,
        most=ORDERS_PER_HOUR,
        most_bytes=0,
        refusal=lambda user: (
            f"{user} has given as many orders within one hour as this scheduler takes"
            f" ({ORDERS_PER_HOUR:,}: tickets, pauses, resumes, cancels). Nothing was done: wait a"
            " little, and see whether a program of yours asks in a loop."
        ),
    )
