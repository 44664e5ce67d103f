"""When the memory of a tree that runs is looked at, and whether what was seen is worth telling."""

from __future__ import annotations

#: When it had time to load what it works with, and then so often: few seconds apart while it grows,
#: more when it runs on.
_FROM_S, _FIRST_S, _LAST_S = 15.0, 4.0, 16.0
#: A change by less than this part is not worth telling.
_FINE = 16


class MemoryLooks:
    """Those at one tree, by a steady clock."""

    def __init__(self, now_s: float) -> None:
        self._due_s, self._again_s = now_s + _FROM_S, _FIRST_S
        self._told_mib = 0

    def wait_s(self, now_s: float) -> float:
        """How long until the next one; 0 = it is due."""
        return max(0.0, self._due_s - now_s)

    def looked(self, now_s: float) -> None:
        """It was looked at: the next one comes later."""
        self._due_s = now_s + self._again_s
        self._again_s = min(2 * self._again_s, _LAST_S)

    def is_news(self, mib: int) -> bool:
        """Whether that differs from what was told last."""
        return abs(mib - self._told_mib) * _FINE > self._told_mib

    def told(self, mib: int) -> None:
        """That was told."""
        self._told_mib = mib
