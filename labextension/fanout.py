"""One message to every open tab. A tab that cannot keep up is dropped: it would fill our memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

#: Messages that may wait for one tab: some minutes of samples.
QUEUE_SIZE = 256

Message = Mapping[str, Any]


class Tab:
    """One connection's mailbox."""

    def __init__(self, size: int = QUEUE_SIZE) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue(maxsize=size)
        #: Set once too much waits; nothing is put in after it.
        self.overrun = asyncio.Event()

    def put(self, message: Message) -> None:
        """Leave a message."""
        self.put_text(json.dumps(message))

    def put_text(self, text: str) -> None:
        """Leave a message that is text already (the same for all tabs)."""
        try:
            self._queue.put_nowait(text)
        except asyncio.QueueFull:
            self.overrun.set()

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
        self._tabs: set[Tab] = set()
        self._occupied = asyncio.Event()

    def add(self, tab: Tab) -> None:
        """A tab was opened."""
        self._tabs.add(tab)
        self._occupied.set()

    def remove(self, tab: Tab) -> None:
        """A tab was closed."""
        self._tabs.discard(tab)
        if not self._tabs:
            self._occupied.clear()

    def __iter__(self) -> Iterator[Tab]:
        return iter(tuple(self._tabs))

    def __len__(self) -> int:
        return len(self._tabs)

    def send(self, message: Message) -> None:
        """Leave a message for every tab; encoded once."""
        if self._tabs:
            text = json.dumps(message)
            for tab in self:
                tab.put_text(text)

    async def wait_until_occupied(self) -> None:
        """Wait for the first tab: nobody asks the scheduler for what nobody looks at."""
        await self._occupied.wait()
