"""Connections without a request, and what they cost those with one."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Callable, Hashable
from pathlib import Path

import pytest

from gpucommons.gpu.connections import unix_sockets
from gpucommons.gpu.connections.listening import listen_tcp
from gpucommons.gpu.connections.request_heads import HalfOpen, HeadsFirst, is_whole
from gpucommons.gpu.connections.text_page import serve_page

ASK = b"GET /text HTTP/1.1\r\nHost: here\r\n\r\n"
HALF = b"GET /text HTTP/1.1\r\nHost:"

Endpoint = Callable[..., int]


@pytest.fixture
async def served() -> asyncio.Queue[tuple[bytes, Hashable]]:
    return asyncio.Queue()


@pytest.fixture
async def endpoint(served: asyncio.Queue[tuple[bytes, Hashable]]) -> AsyncIterator[Endpoint]:
    with contextlib.ExitStack() as stack:

        def begin(listener: socket.socket | None = None, **bounds: float) -> int:
            listening = stack.enter_context(listener or listen_tcp(0))
            stack.callback(HeadsFirst(listening, take, bounds=HalfOpen(**bounds)).close)  # type: ignore[arg-type] # numbers
            return 0 if listener else int(listening.getsockname()[1])

        def take(connection: socket.socket, peer: Hashable) -> None:
            with connection:
                served.put_nowait((connection.recv(100), peer))

        yield begin


async def is_closed(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            return await reader.read() == b""
        return True


@pytest.mark.parametrize(
    ("sent", "whole"),
    [
        (b"GET / HTTP/1.1\r\n", False),
        (b"GET / HTTP/1.1\r\n\r\n", True),
        (b"GET / HTTP/1.1\nHost: here\n\n", True),
        (b"POST / HTTP/1.1\r\ncontent-LENGTH : 3\r\n\r\n12", False),
        (b"POST / HTTP/1.1\r\ncontent-LENGTH : 3\r\n\r\n123", True),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n123POST", True),
        # Not to be awaited: too large for the kernel's memory, of unknown length, or asked for.
        (b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n", True),
        # Nonsense is for the server behind to refuse.
        (b"POST / HTTP/1.1\r\nContent-Length: -3\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\nX: y\r\n\r\nContent-Length: 9\r\n", True),
    ],
)
def test_a_request_is_awaited_as_far_as_the_kernel_keeps_it(sent: bytes, whole: bool) -> None:
    assert is_whole(sent) == whole


@pytest.mark.parametrize("sent", [(ASK,), (HALF, ASK[len(HALF) :]), (b"G", ASK[1:-1], b"\n")])
async def test_a_server_gets_a_connection_with_its_whole_head_in_it(
    endpoint: Endpoint, served: asyncio.Queue[tuple[bytes, Hashable]], sent: tuple[bytes, ...]
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", endpoint())
    for part in sent:
        assert served.empty()
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0.01)

    assert await served.get() == (ASK, "127.0.0.1")
    writer.close()


@pytest.mark.parametrize("sent", [b"", b"G", HALF, b"\x16\x03\x01\x02", b"x" * (64 << 10)])
async def test_a_head_that_does_not_arrive_is_cut_off(
    endpoint: Endpoint, served: asyncio.Queue[tuple[bytes, Hashable]], sent: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint(head_s=0.1))
    writer.write(sent)

    assert await is_closed(reader)
    assert served.empty()
    writer.close()


async def test_the_oldest_without_a_head_makes_room_and_who_asks_is_served(
    endpoint: Endpoint, served: asyncio.Queue[tuple[bytes, Hashable]]
) -> None:
    port = endpoint(most=8, head_s=3600)
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
    assert await is_closed(silent[0][0])

    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(ASK)

    assert (await served.get())[0] == ASK
    for _, one in (*silent, (None, writer)):
        one.close()


async def test_at_a_unix_socket_accounts_are_told_apart(
    endpoint: Endpoint, served: asyncio.Queue[tuple[bytes, Hashable]], tmp_path: Path
) -> None:
    path = tmp_path / "api.sock"
    endpoint(unix_sockets.listen(path))
    _, writer = await asyncio.open_unix_connection(path)
    writer.write(ASK)

    assert await served.get() == (ASK, path.stat().st_uid)
    writer.close()


class FullTable(socket.socket):
    """A listener in a process without descriptors, for a while."""

    fails = 3

    def accept(self) -> tuple[socket.socket, object]:
        if FullTable.fails:
            FullTable.fails -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_a_process_without_descriptors_turns_away_and_goes_on(
    endpoint: Endpoint, served: asyncio.Queue[tuple[bytes, Hashable]]
) -> None:
    with listen_tcp(0) as plain:
        listener = FullTable(fileno=plain.detach())
    endpoint(listener)
    port = listener.getsockname()[1]
    async with asyncio.timeout(60):
        while served.empty():
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASK)
            await asyncio.sleep(0.05)
            writer.close()
    assert FullTable.fails == 0


async def test_a_page_answers_its_path_and_no_other() -> None:
    listener = listen_tcp(0)
    port = listener.getsockname()[1]
    with serve_page(listener, lambda: b"figures\n", path="/text", content_type="text/plain"):
        answers = []
        for asked in (
            ASK,
            ASK.replace(b"/text", b"/secret"),
            ASK.replace(b"GET", b"POST"),
            b"\n\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(asked)
            answers.append(await reader.read())
            writer.close()
    assert answers[0].startswith(b"HTTP/1.1 200 OK\r\n")
    assert answers[0].endswith(b"\r\n\r\nfigures\n")
    assert all(answer.startswith(b"HTTP/1.1 404 ") for answer in answers[1:])
