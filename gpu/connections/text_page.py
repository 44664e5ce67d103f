"""One text on a port of its own, for Prometheus or a probe: with the bounds of all endpoints."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress

from gpucommons.gpu.connections.peer_limits import Crowds
from gpucommons.gpu.connections.request_heads import MAX_HEAD_BYTES, HalfOpen, HeadsFirst

#: Until the answer has been read.
_ANSWER_S = 10.0
_MOST_ANSWERED = 64


@contextmanager
def serve_page(
    listener: socket.socket, page: Callable[[], bytes], *, path: str, content_type: str
) -> Iterator[None]:
    """Answer ``GET path`` inside a running loop, until the end of the block."""
    answers: Crowds[asyncio.Task[None]] = Crowds(_MOST_ANSWERED)

    def begin(connection: socket.socket, peer: Hashable) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(_answer(connection, page, path=path, content_type=content_type))
        task.add_done_callback(answers.remove)
        goes = answers.add(task, peer, now_s=loop.time())
        if goes is not None:
            goes.cancel()

    listening = HeadsFirst(listener, begin, bounds=HalfOpen(most=_MOST_ANSWERED))
    try:
        yield
    finally:
        listening.close()
        listener.close()
        for task in answers:
            task.cancel()


async def _answer(
    connection: socket.socket, page: Callable[[], bytes], *, path: str, content_type: str
) -> None:
    with connection, suppress(OSError):
        head = connection.recv(MAX_HEAD_BYTES)
        asked = head.split(b"\n", 1)[0].split()[:2]
        found = asked[:1] == [b"GET"] and asked[1:] == [path.encode()]
        body = page() if found else f"Ask for GET {path}.\n".encode()
        lines = (
            "HTTP/1.1 200 OK" if found else "HTTP/1.1 404 Not Found",
            f"Content-Type: {content_type if found else 'text/plain; charset=utf-8'}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        answer = "".join(f"{line}\r\n" for line in (*lines, "")).encode() + body
        loop = asyncio.get_running_loop()
        await asyncio.wait_for(loop.sock_sendall(connection, answer), _ANSWER_S)
