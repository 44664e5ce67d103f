"""What reaches a scheduler that stands by goes on to the one that leads, through a socket in their folder.

A Service sends it half of all requests as soon as it is ready. Both lie on one node: their folder is a
volume of that node. Whoever comes through these sockets is who it would be at the TCP port: the kernel's
word on the other end is that of the scheduler that stands by.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from gpucommons.gpu.connections import unix_sockets

#: A caller that asks nothing, or slowly, is let go.
_PATIENCE_S = 2.0
_MOST_HEAD_BYTES = 64 << 10
_PIECE_BYTES = 64 << 10

#: An answer of our own by the path of a request; None: it is the leader's to answer.
Own = Callable[[bytes], bytes | None]


def api_socket(state: Path) -> Path:
    """Where the one that leads takes forwarded calls of its API."""
    return state / "forwarded.sock"


def pages_socket(state: Path) -> Path:
    """Where it takes forwarded calls of its pages."""
    return state / "pages.sock"


class Forwarding:
    """Serves one connection after the other; for ``asyncio.start_server``."""

    def __init__(self, to: Path, *, own: Own, unanswered: bytes) -> None:
        """``unanswered``: said where nobody listens at ``to``."""
        self._to = to
        self._own = own
        self._unanswered = unanswered
        self._serving: set[asyncio.Task[None]] = set()

    def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer, or pass on until the one that answers closes."""
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def end(self) -> None:
        """Let go of who is still connected."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, ValueError, TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    head = await _head(reader)
                words = head.split(None, 2)
                answer = self._own(words[1] if len(words) > 1 else b"")
                if answer is None and not await self._passed_on(head, reader, writer):
                    answer = self._unanswered
                if answer is not None:
                    writer.write(answer)
                    async with asyncio.timeout(_PATIENCE_S):
                        await writer.drain()
        finally:
            writer.close()

    async def _passed_on(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        try:
            connection = await asyncio.to_thread(
                unix_sockets.connect, self._to, timeout_s=_PATIENCE_S
            )
            connection.setblocking(False)
            there, back = await asyncio.open_unix_connection(sock=connection)
        except OSError:
            return False
        try:
            back.write(head)
            asked = asyncio.create_task(_copy(reader, back))
            try:
                await _copy(there, writer)
            finally:
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
        finally:
            back.close()
        return True


async def _head(reader: asyncio.StreamReader) -> bytes:
    """A request up to its first empty line."""
    lines: list[bytes] = []
    length = 0
    while (line := await reader.readline()).strip() or not lines:
        lines.append(line)
        length += len(line)
        if not line or length > _MOST_HEAD_BYTES:
            break
    if line.strip() or not line:
        raise ValueError
    return b"".join([*lines, line])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Everything until the end, which is passed on too."""
    while piece := await reader.read(_PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
