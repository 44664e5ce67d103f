"""Who calls a scheduler that stands by costs it no more than any other endpoint of ours."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from gpucommons.gpu.connections.listening import listen_tcp
from gpucommons.scheduler.wiring import forwarding
from gpucommons.scheduler.wiring.forwarding import Forwarding, LeaderAddress, publish, published

_ASKS = b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n"
_LATER = b"HTTP/1.1 503 later\r\n\r\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: names of unix sockets are limited."""
    made = Path(tempfile.mkdtemp(prefix="gc"))
    yield made
    shutil.rmtree(made)


class Leader:
    """The one that leads: answers with so many bytes, or once it may, and counts who is connected."""

    def __init__(self) -> None:
        self.answer = b"HTTP/1.1 200 OK\r\n\r\nanswered"
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.patience_s = 10.0
        self.asked = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        try:
            await reader.readuntil(b"\r\n\r\n")
            await self.may_answer.wait()
            writer.write(self.answer)
            await asyncio.wait_for(writer.drain(), self.patience_s)
            writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.transport.abort()


@pytest.fixture
async def leader(folder: Path) -> AsyncIterator[Leader]:
    made = Leader()
    server = await asyncio.start_unix_server(made, folder / "leader.sock")
    yield made
    made.may_answer.set()
    server.close()


class Standing:
    """A scheduler that stands by, which forwards so many at most, and who calls it."""

    def __init__(self, folder: Path, *, most: int) -> None:
        listener = listen_tcp(0)
        self.port = listener.getsockname()[1]
        self.api = Forwarding(
            listener,
            LeaderAddress(here=folder / "leader.sock"),
            own=lambda path: b"HTTP/1.1 200 OK\r\n\r\n" if path == b"/readyz" else None,
            unanswered=_LATER,
            most=most,
        )

    async def answer(self, asks: bytes = _ASKS) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(asks)
        try:
            return await asyncio.wait_for(reader.read(), 10)
        finally:
            writer.close()

    async def stuck(self, asks: bytes = _ASKS) -> socket.socket:
        """A caller that reads nothing."""
        caller = socket.socket()
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(caller, ("127.0.0.1", self.port))
        await loop.sock_sendall(caller, asks)
        return caller


@pytest.fixture
async def standing(folder: Path) -> AsyncIterator[Standing]:
    made = Standing(folder, most=4)
    yield made
    await made.api.end()


async def _until(look: Callable[[], bool]) -> None:
    for _ in range(1000):
        if look():
            return
        await asyncio.sleep(0.01)
    raise AssertionError


async def test_who_asks_and_reads_is_answered_by_the_leader(
    standing: Standing, leader: Leader
) -> None:
    leader.answer += b"x" * 3_000_000
    answers = await asyncio.gather(*(standing.answer() for _ in range(3)))
    assert answers == [leader.answer] * 3
    assert (await standing.answer(b"GET /readyz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")
    assert leader.asked == 3


async def test_a_caller_that_reads_nothing_is_let_go_when_the_leader_has_let_it_go(
    standing: Standing, leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "READ_S", 0.2)
    leader.patience_s = 0.2
    leader.answer *= 300_000
    callers = [await standing.stuck(_ASKS * 200) for _ in range(3)]
    await _until(lambda: leader.asked == 3)
    await _until(lambda: len(standing.api) == 0)
    for one in callers:
        one.close()


async def test_of_more_callers_than_are_forwarded_the_oldest_makes_room(
    standing: Standing, leader: Leader
) -> None:
    leader.may_answer.clear()
    oldest = asyncio.create_task(standing.answer())
    await _until(lambda: leader.asked == 1)
    others = [asyncio.create_task(standing.answer()) for _ in range(4)]
    await _until(lambda: leader.asked == 5)
    assert len(standing.api) == 4
    assert await oldest == b""
    leader.may_answer.set()
    assert await asyncio.gather(*others) == [leader.answer] * 4


async def test_connections_that_ask_nothing_hold_up_nobody_who_asks(
    standing: Standing, leader: Leader
) -> None:
    silent = [await standing.stuck(b"GET / HT") for _ in range(40)]
    assert len(standing.api) == 0
    assert await standing.answer() == leader.answer
    for one in silent:
        one.close()


async def test_where_nobody_leads_callers_are_told_to_come_again(standing: Standing) -> None:
    assert await standing.answer() == _LATER


async def test_after_a_hand_over_requests_under_way_are_answered_and_no_others(
    standing: Standing, leader: Leader
) -> None:
    leader.may_answer.clear()
    under_way = asyncio.create_task(standing.answer())
    await _until(lambda: leader.asked == 1)

    standing.api.take_no_more()

    with pytest.raises(ConnectionRefusedError):
        await standing.answer()
    leader.may_answer.set()
    assert await under_way == leader.answer
    await _until(lambda: len(standing.api) == 0)


async def test_a_while_after_a_hand_over_nothing_is_forwarded_any_more(
    standing: Standing, leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader.may_answer.clear()
    waits = asyncio.create_task(standing.answer())
    await _until(lambda: leader.asked == 1)
    monkeypatch.setattr(forwarding, "READ_S", 0.1)

    standing.api.take_no_more()

    assert await waits == b""
    await _until(lambda: len(standing.api) == 0)


def test_where_a_leader_is_reached_is_read_as_it_was_written(folder: Path) -> None:
    assert published(folder, "api") is None
    publish(folder, "http://[fd00::1]:8000", pages_port=8001)
    assert published(folder, "api") == ("fd00::1", 8000)
    assert published(folder, "pages") == ("fd00::1", 8001)
    publish(folder, "", pages_port=8001)
    assert published(folder, "api") is None


@pytest.mark.parametrize("what", ["api", "pages"])
def test_the_leaders_address_is_none_where_it_is_our_own(folder: Path, what: str) -> None:
    publish(folder, "http://[fd00::1]:8000", pages_port=8001)
    assert published(folder, what, own_url="http://[fd00::1]:8000") is None
    for other in ("http://[fd00::2]:8000", "http://[fd00::1]:8002", ""):
        found = published(folder, what, own_url=other)
        assert found is not None
        assert found[0] == "fd00::1"


@pytest.mark.parametrize(
    "said", ["", "[]", '{"host": "10.0.0.1"}', '{"host": 1, "api": "x"}', "\0"]
)
def test_an_address_that_cannot_be_read_is_none(folder: Path, said: str) -> None:
    (folder / "leader.json").write_text(said)
    assert published(folder, "api") is None
