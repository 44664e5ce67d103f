"""What the cluster refused to do for us, so that it is not asked at once again.

A right that is missing or a webhook that says no is mended by people: what was refused is asked anew
after a rest that grows, never as fast as refusals come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    CONFLICT,
    NOT_FOUND,
    ApiError,
)

#: First rest after a refusal; doubles with each further one.
FIRST_REST_S, LONGEST_REST_S = 2.0, 60.0
#: So many are remembered before those that may be asked again are dropped.
_KEPT = 1_000


def is_refusal(error: ApiError) -> bool:
    """Whether the cluster understood, and will not. That something is gone or was faster is news."""
    return not error.try_again and error.status not in (NOT_FOUND, CONFLICT)


@dataclass(kw_only=True, slots=True)
class _Rest:
    times: int
    until_s: float


class Refusals:
    """Rests of orders, by their keys. Not thread-safe: its user holds a lock."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._rests: dict[Hashable, _Rest] = {}

    def rests(self, key: Hashable) -> bool:
        """Whether it is too early to ask again."""
        rest = self._rests.get(key)
        return rest is not None and self._now_s() < rest.until_s

    def note(self, key: Hashable, error: ApiError | None) -> None:
        """What came of an order."""
        if error is None or not is_refusal(error):
            self.forget(key)
        else:
            self.add(key)

    def forget(self, key: Hashable) -> None:
        """It was granted: the next refusal is the first again."""
        self._rests.pop(key, None)

    def add(self, key: Hashable) -> None:
        """It was refused once more."""
        rest = self._rests.setdefault(key, _Rest(times=0, until_s=0.0))
        rest.until_s = self._now_s() + min(LONGEST_REST_S, FIRST_REST_S * 2**rest.times)
        rest.times = min(rest.times + 1, 10)
        if len(self._rests) > _KEPT:
            self._drop_old()

    def _drop_old(self) -> None:
        old_s = self._now_s() - LONGEST_REST_S
        self._rests = {key: rest for key, rest in self._rests.items() if rest.until_s > old_s}
