"""The two transports: what was refused is raised, what cannot be read is said."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import httpx
import pytest

from gpucommons.gpu.connections import unix_sockets
from gpucommons.scheduler import models
from gpucommons.scheduler.client import AsyncSchedulerClient, SchedulerClient, calls
from gpucommons.scheduler.errors import (
    NoFreeSlice,
    SchedulerError,
    Unavailable,
    error_classes,
)


def answering(response: httpx.Response) -> httpx.MockTransport:
    return httpx.MockTransport(lambda _: response)


def a_client(response: httpx.Response) -> SchedulerClient:
    return SchedulerClient("http://api", token="t", transport=answering(response))


def test_the_token_goes_into_the_header_and_the_key_too() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(404, json={"error": "NotFound", "message": "no"})

    client = SchedulerClient("http://api", token="t", transport=httpx.MockTransport(answer))
    request = models.LeaseRequest(milli_gpu=500)
    with pytest.raises(SchedulerError):
        client.send(calls.wait_in_line(request, key="k"))
    assert seen[0].headers["Authorization"] == "token t"
    assert seen[0].headers["Idempotency-Key"] == "k"
    assert seen[0].content == b'{"milli_gpu":500}'


def test_names_with_a_slash_stay_one_segment() -> None:
    assert calls.cancel("vision/digits-7").path == "/v1/jobs/vision%2Fdigits-7/cancel"


@pytest.mark.parametrize("code", sorted(error_classes()))
def test_every_error_arrives_as_itself(code: str) -> None:
    status = error_classes()[code].status
    response = httpx.Response(status, json={"error": code, "message": "a sentence"})
    with pytest.raises(error_classes()[code], match="a sentence") as refused:
        a_client(response).send(calls.whoami())
    assert refused.value.code == code


def test_an_error_of_a_newer_server_is_still_an_error() -> None:
    response = httpx.Response(409, json={"error": "FromTheFuture", "message": "no"})
    with pytest.raises(SchedulerError, match="no"):
        a_client(response).send(calls.whoami())


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json={"unexpected": 1}),
        httpx.Response(502, text="Bad gateway"),
        httpx.Response(302, headers={"Location": "http://elsewhere/"}),
    ],
)
def test_what_is_no_answer_of_ours_is_unavailable(response: httpx.Response) -> None:
    with pytest.raises(Unavailable):
        a_client(response).send(calls.whoami())


async def test_the_asyncio_client_does_the_same() -> None:
    refusal = httpx.Response(409, json={"error": "NoFreeSlice", "message": "full"})
    async with AsyncSchedulerClient("http://api", transport=answering(refusal)) as client:
        with pytest.raises(NoFreeSlice, match="full"):
            await client.send(calls.whoami())


# httpcore leaves the socket whose connect failed to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_nobody_at_the_socket_is_said_with_what_to_do() -> None:
    with SchedulerClient("unix:/nowhere.sock") as client:  # noqa: SIM117 - one thing raises
        with pytest.raises(Unavailable, match="gpucommons up"):
            client.send(calls.whoami())
    gc.collect()
    async with AsyncSchedulerClient("unix:/nowhere.sock") as client:
        with pytest.raises(Unavailable, match="gpucommons up"):
            await client.send(calls.whoami())


def test_a_newer_server_may_add_fields() -> None:
    body = {"name": "ann", "teams": [], "admin": False, "mood": "fine"}
    assert a_client(httpx.Response(200, json=body)).send(calls.whoami()).name == "ann"


async def test_a_socket_deep_in_a_home_is_reached(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30) / ("deeper" * 20)
    folder.mkdir(parents=True)
    body = b'{"name": "ann", "teams": [], "admin": false}'
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    listener = unix_sockets.listen(folder / "api.sock")
    async with await asyncio.start_unix_server(answer, sock=listener):
        url = f"unix:{folder / 'api.sock'}"
        async with AsyncSchedulerClient(url) as client:
            assert (await client.send(calls.whoami())).name == "ann"
        with SchedulerClient(url) as blocking:
            found = await asyncio.to_thread(blocking.send, calls.whoami())
        assert found.name == "ann"


async def test_one_client_asks_for_many_people_each_with_their_own_token() -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Authorization"))
        return httpx.Response(404, json={"error": "NotFound", "message": "no"})

    transport = httpx.MockTransport(answer)
    async with AsyncSchedulerClient("http://api", transport=transport) as client:
        for token in ("ann", "bob", None):
            with pytest.raises(SchedulerError):
                await client.send(calls.whoami(), token=token)
    assert seen == ["token ann", "token bob", None]
