"""Real connections that are slow, silent or too many, and what they cost the others."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from fastapi import FastAPI, Response

from gpucommons.gpu.connections.listening import listen_tcp
from gpucommons.scheduler.api import server as server_module
from gpucommons.scheduler.api.limits import waiting
from gpucommons.scheduler.api.server import PeerProtocol, make_server

ANN = {"Authorization": "token ann-token"}
HALF_A_HEAD = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"
HALF_A_BODY = (
    b"POST /v1/jobs HTTP/1.1\r\nHost: here\r\nAuthorization: token ann-token\r\n"
    b'Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"name": "dig'
)


GET_BIG = b"GET /big HTTP/1.1\r\nHost: here\r\n\r\n"
BIG_BYTES = 6_000_000


@contextlib.asynccontextmanager
async def serving_app(app: FastAPI) -> AsyncIterator[int]:
    listening = listen_tcp(0)
    server = make_server(app)
    server.config.timeout_graceful_shutdown = 0
    running = asyncio.create_task(server.serve(sockets=[listening]))
    yield int(listening.getsockname()[1])
    server.should_exit = True
    await running
    listening.close()


@pytest.fixture
async def port(app: FastAPI) -> AsyncIterator[int]:
    async with serving_app(app) as found:
        yield found


async def closed_by_server(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            await reader.read()
        return True


async def test_a_body_that_does_not_arrive_is_cut_off(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "REQUEST_S", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HALF_A_BODY)

    assert await closed_by_server(reader)

    writer.close()


async def test_a_request_that_drips_is_cut_off_after_another_one(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "REQUEST_S", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HALF_A_HEAD + b"\r\n" + HALF_A_HEAD)
    assert (await reader.readline()).endswith(b"200 OK\r\n")

    assert await closed_by_server(reader)

    writer.close()


async def test_silent_connections_make_room_for_others(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "max_connections", lambda: 4)
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.get("/healthz")).json() == {"ok": True}
    finally:
        for one in silent:
            one.close()


async def test_bodies_that_do_not_arrive_make_room_for_others(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "max_connections", lambda: 4)
    slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
    for _, writer in slow:
        writer.write(HALF_A_BODY)
        await writer.drain()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(20):
            assert (await client.get("/healthz")).json() == {"ok": True}
    assert await closed_by_server(slow[0][0])
    for _, writer in slow:
        writer.close()


async def test_a_newcomer_comes_again_where_everyone_else_is_served(
    port: int, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "max_connections", lambda: 1)
    wait = b"GET /v1/events?after=9007199254740992&wait_s=1 HTTP/1.1\r\nHost: here\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(wait + b"Authorization: token ann-token\r\n\r\n")
    async with asyncio.timeout(60):
        while not list(app.state.dependencies.waiting._places):  # noqa: ASYNC110 - rings nowhere
            await asyncio.sleep(0.01)
    newcomer, other = await asyncio.open_connection("127.0.0.1", port)
    other.write(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n")
    assert await closed_by_server(newcomer)
    assert (await reader.readline()).endswith(b"200 OK\r\n")
    writer.close()
    other.close()


def unread(port: int, sent: bytes) -> socket.socket:
    """Somebody who asks and does not read."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    one.connect(("127.0.0.1", port))
    one.sendall(sent)
    return one


@pytest.fixture
def served(app: FastAPI) -> list[int]:
    """One entry for every big answer that was made."""
    made: list[int] = []

    @app.get("/big")
    async def big() -> Response:
        made.append(1)
        return Response(b"x" * BIG_BYTES)

    return made


async def until(wanted: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not wanted():  # noqa: ASYNC110 - rings nowhere
            await asyncio.sleep(0.01)


async def cut_off(one: socket.socket) -> int:
    """Read to the end, which is not the answer's; how much came."""
    one.setblocking(False)
    loop = asyncio.get_running_loop()
    got = 0
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            while chunk := await loop.sock_recv(one, 1 << 16):
                got += len(chunk)
    one.close()
    return got


@pytest.mark.parametrize("head", [GET_BIG, GET_BIG * 3], ids=["one", "pipelined"])
async def test_an_answer_that_nobody_reads_is_not_kept(
    port: int, served: list[int], head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "READ_S", 0.1)
    aborted = asyncio.Event()
    monkeypatch.setattr(PeerProtocol, "connection_lost", _then(aborted))
    one = unread(port, head)
    await until(lambda: bool(served))

    async with asyncio.timeout(60):
        await aborted.wait()

    assert await cut_off(one) < BIG_BYTES


async def test_an_answer_is_not_waited_for_after_the_connection_was_closed(
    port: int, served: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "REQUEST_S", 0.2)
    aborted = asyncio.Event()
    monkeypatch.setattr(PeerProtocol, "connection_lost", _then(aborted))
    one = unread(port, b"GET /big HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    await until(lambda: bool(served))

    async with asyncio.timeout(60):
        await aborted.wait()

    assert await cut_off(one) < BIG_BYTES


@pytest.mark.parametrize("head", [GET_BIG, GET_BIG * 3], ids=["one", "pipelined"])
async def test_those_who_do_not_read_make_room_for_others(
    port: int, served: list[int], head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "max_connections", lambda: 4)
    stuck = [unread(port, head) for _ in range(4)]
    await until(lambda: len(served) >= 4)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        assert (await client.get("/healthz")).json() == {"ok": True}

    assert await cut_off(stuck[0]) < BIG_BYTES

    for one in stuck[1:]:
        one.close()


def _then(aborted: asyncio.Event) -> Callable[[PeerProtocol, Exception | None], None]:
    lost = PeerProtocol.connection_lost

    def connection_lost(self: PeerProtocol, exc: Exception | None) -> None:
        lost(self, exc)
        aborted.set()

    return connection_lost


async def test_one_user_may_not_take_all_places_of_those_who_wait(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_WAITING", 2)
    wait = {"after": 2**53, "wait_s": 0.5}

    async def ask(token: str) -> int:
        headers = {"Authorization": f"token {token}"}
        return (await http.get("/v1/events", params=wait, headers=headers)).status_code

    answers = await asyncio.gather(*(ask("ann-token") for _ in range(4)), ask("bob-token"))

    assert sorted(answers[:4]) == [200, 200, 429, 429]
    assert answers[4] == 200
    assert await ask("ann-token") == 200


@pytest.mark.parametrize("length", [b"Content-Length: 100000", b"transfer-encoding: chunked"])
async def test_a_body_of_nobody_is_not_waited_for(port: int, length: bytes) -> None:
    for target in (b"/v1/jobs", b"/v1/quote"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST " + target + b" HTTP/1.1\r\nHost: here\r\n" + length + b"\r\n\r\n1")
        async with asyncio.timeout(60):
            answer = await reader.readuntil(b"}")

        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b'"error":"NotAuthenticated"' in answer
        writer.close()


async def test_a_body_of_nobody_is_not_waited_for_on_a_connection_in_use_either(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HALF_A_HEAD + b"\r\n")
    assert (await reader.readline()).endswith(b"200 OK\r\n")
    writer.write(b"POST /v1/jobs HTTP/1.1\r\nHost: here\r\nContent-Length: 100000\r\n\r\n1")
    async with asyncio.timeout(60):
        answer = await reader.readuntil(b"NotAuthenticated")

    assert b"HTTP/1.1 401 " in answer
    writer.close()


async def test_connections_between_two_requests_are_few(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "max_idle", lambda: 2)
    async with serving_app(app) as port:
        quiet = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for reader, writer in quiet:
            writer.write(HALF_A_HEAD + b"\r\n")
            assert (await reader.readline()).endswith(b"200 OK\r\n")

        assert await closed_by_server(quiet[0][0])
        for _, writer in quiet:
            writer.close()
