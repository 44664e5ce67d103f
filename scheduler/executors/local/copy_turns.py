"""Whose files are copied at once: places are few, and a user can hold theirs by stopping the copy.

Each user has one place. When all are taken and somebody waits, whoever has had a place for a whole
turn gives it up and begins again later, together with all such in at most half of the places. So users
who hold their places on purpose, however many they are, keep nobody else waiting for longer than a
turn; a copy that takes longer than that goes on among the slow ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: So many users' files are copied at once.
PLACES = 8
#: A place is kept for so long while others wait.
TURN_S = 600.0


class CopyTurns:
    """Who copies, since when, and who has given a place up; times are seconds of one clock."""

    def __init__(self, *, places: int = PLACES, turn_s: float = TURN_S) -> None:
        self._places = places
        self._turn_s = turn_s
        self._since_s: dict[str, float] = {}
        self._cut: set[str] = set()
        #: Who gave a place up and has not had all copied since.
        self._slow: set[str] = set()
        #: Since when somebody waits.
        self._waiting_s: dict[str, float] = {}

    def begin(self, wanting: Iterable[str], now_s: float) -> Sequence[str]:
        """Who of these begins to copy now: the longest in line first, the slow ones last."""
        waiting = {one: self._waiting_s.get(one, now_s) for one in wanting}
        self._waiting_s = {one: at_s for one, at_s in waiting.items() if one not in self._since_s}
        found = []
        for one in sorted(self._waiting_s, key=lambda one: (one in self._slow, waiting[one])):
            if self._has_place(one):
                self._since_s[one] = now_s
                del self._waiting_s[one]
                found.append(one)
        return found

    def _has_place(self, one: str) -> bool:
        slow = len(self._slow & self._since_s.keys())
        may = one not in self._slow or slow < max(1, self._places // 2)
        return may and len(self._since_s) < self._places

    def give_up(self, now_s: float) -> Sequence[str]:
        """Who is to give a place up, to others who wait and never kept one for too long."""
        waiting = len(self._waiting_s.keys() - self._slow) - len(self._cut)
        over = sorted(
            (since_s, one)
            for one, since_s in self._since_s.items()
            if now_s - since_s >= self._turn_s and one not in self._cut
        )
        found = [one for _, one in over[: max(0, waiting)]]
        self._cut.update(found)
        self._slow.update(found)
        return found

    def ended(self, one: str) -> None:
        """The place is free again."""
        del self._since_s[one]
        if one in self._cut:
            self._cut.discard(one)
        else:
            self._slow.discard(one)
