"""One message to every open tab. A tab that cannot keep up is dropped: it would fill our memory.

There are at most so many tabs; the oldest of whoever has most makes room for a new one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpucommons.gpu.connections.peer_limits import Crowds

#: Messages that may wait for one tab: some minutes of samples.
QUEUE_SIZE = 256
#: More than anybody looks at; each costs a mailbox, and copies of every message.
MAX_TABS = 64
TOO_SLOW = "This tab did not keep up; it connects again."
MADE_ROOM = f"More than {MAX_TABS} tabs of this server are open; the oldest made room."

Message = Mapping[str, Any]


class Tab:
    """One connection's mailbox."""

    def __init__(self, size: int = QUEUE_SIZE) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue(maxsize=size)
        #: Set once it is to be closed: too much waits, or another needs its place.
        self.over = asyncio.Event()
        #: What is said of that.
        self.why = ""

    def end(self, why: str) -> None:
        """Have it closed."""
        self.why = self.why or why
        self.over.set()

    def put(self, message: Message) -> None:
        """Leave a message."""
        self.put_text(json.dumps(message))

    def put_text(self, text: str) -> None:
        """Leave a message that is text already (the same for all tabs)."""
        try:
            self._queue.put_nowait(text)
        except asyncio.QueueFull:
            self.end(TOO_SLOW)

    async def next(self) -> str:
        """The next message."""
        text = await self._queue.get()
        self._queue.task_done()
        return text

    async def emptied(self) -> None:
        """Wait until all that was left here is taken: for who could leave more than has room."""
        await self._queue.join()


class Fanout:
    """All open tabs."""

    def __init__(self) -> None:
        self._tabs: Crowds[Tab] = Crowds(MAX_TABS)
        self._occupied = asyncio.Event()

    def add(self, tab: Tab, whose: str = "") -> None:
        """A tab was opened, by this user."""
        goes = self._tabs.add(tab, whose, now_s=0)  # no tab is too old, only one too many
        if goes is not None:
            goes.end(MADE_ROOM)
        self._occupied.set()

    def remove(self, tab: Tab) -> None:
        """A tab was closed."""
        self._tabs.remove(tab)
        if not len(self._tabs):
            self._occupied.clear()

    def __iter__(self) -> Iterator[Tab]:
        return iter(self._tabs)

    def __len__(self) -> int:
        return len(self._tabs)

    def send(self, message: Message) -> None:
        """Leave a message for every tab; encoded once."""
        if len(self._tabs):
            text = json.dumps(message)
            for tab in self:
                tab.put_text(text)

    async def wait_until_occupied(self) -> None:
        """Wait for the first tab: nobody asks the scheduler for what nobody looks at."""
        await self._occupied.wait()
