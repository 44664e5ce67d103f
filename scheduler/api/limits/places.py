"""Places for those who take long: so many per caller, so many in all, and nobody keeps others out.

Whoever waits holds a connection, and connections are for everybody. Where all places are taken, who
holds most of them gives one back to somebody who holds less.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gpucommons.scheduler.errors import TooManyRequests


@dataclass(eq=False)
class Place:
    """One that is taken."""

    whose: str
    #: Rung when there may be something to look at.
    bell: asyncio.Event = field(default_factory=asyncio.Event)
    #: Somebody else has it now: come to an end.
    is_given_back: bool = False


class Places:
    """All places of one kind; used from one event loop."""

    def __init__(self, in_all: Callable[[], int] = lambda: 1 << 20) -> None:
        self._in_all = in_all
        #: By holder, oldest first.
        self._taken: dict[str, dict[Place, None]] = {}
        self._count = 0

    def __iter__(self) -> Generator[Place]:
        """Everyone who has one."""
        for mine in self._taken.values():
            yield from mine

    @contextmanager
    def taken(self, whose: str, *, most: int, refusal: str) -> Generator[Place]:
        """One place, inside the block.

        Raises
        ------
        TooManyRequests
            When the caller has that many already, or others who have no more hold all of them.
        """
        held = len(self._taken.get(whose, ()))
        if held >= most:
            raise TooManyRequests(refusal)
        if self._count >= self._in_all():
            self._make_room(held)
        place = Place(whose)
        self._taken.setdefault(whose, {})[place] = None
        self._count += 1
        try:
            yield place
        finally:
            if not place.is_given_back:
                self._leave(place)

    def _make_room(self, held: int) -> None:
        most = max(self._taken.values(), key=len, default={})
        if len(most) <= held + 1:
            message = "As many requests wait for an answer as there may be: try again in a moment."
            raise TooManyRequests(message)
        oldest = next(iter(most))
        self._leave(oldest)
        oldest.is_given_back = True
        oldest.bell.set()

    def _leave(self, place: Place) -> None:
        mine = self._taken[place.whose]
        del mine[place]
        if not mine:
            del self._taken[place.whose]
        self._count -= 1
