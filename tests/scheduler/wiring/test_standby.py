"""A scheduler that stands by beside one that leads: ready, silent, and in charge once that has ended."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from free_ports import free_port

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.scheduler.api import server
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.store.opening import is_led
from gpucommons.scheduler.wiring import standby
from gpucommons.scheduler.wiring.forwarding import api_socket, publish
from gpucommons.scheduler.wiring.options import SchedulerSettings
from gpucommons.scheduler.wiring.serving import serve


@pytest.fixture
def state() -> Iterator[Path]:
    """A short path: names of unix sockets are limited."""
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    yield folder
    shutil.rmtree(folder)


class Beside:
    """One scheduler of a state folder, with a port of its own."""

    def __init__(self, state: Path, *, config: Path | None = None) -> None:
        port = free_port()
        settings = SchedulerSettings(
            state=state,
            api_port=port,
            stand_by=True,
            own_url=f"http://127.0.0.1:{port}",
            config=config,
        )
        self.stop = asyncio.Event()
        self.serving = asyncio.create_task(serve(settings, self.stop))
        self._url = f"http://127.0.0.1:{port}"
        self._socket = state / "api.sock"

    async def answer(self, path: str, *, headers: dict[str, str] | None = None) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, verify=trusted_at(self._url)) as client:
            return await client.get(f"{self._url}{path}", headers=headers)

    async def until(self, path: str, status: int) -> None:
        for _ in range(400):
            try:
                if (await self.answer(path)).status_code == status:
                    return
            except httpx.TransportError:
                pass
            assert not self.serving.done(), self.serving
            await asyncio.sleep(0.05)  # it imports and listens
        raise AssertionError(f"{path} did not become {status}")

    async def begin_upload(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A request that is served until the rest of it comes."""
        reader, writer = await asyncio.open_unix_connection(self._socket)
        head = f"PUT /v1/snapshots/{'0' * 64} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
        writer.write(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert b" 100 " in await reader.readline()
        return reader, writer

    async def end(self) -> int:
        self.stop.set()
        return await asyncio.wait_for(self.serving, 15)


async def _one_leads_and_one_stands_by(state: Path) -> tuple[Beside, Beside]:
    first = Beside(state)
    await first.until("/healthz", 200)
    second = Beside(state)
    await second.until("/readyz", 200)
    return first, second


async def test_the_next_one_is_ready_before_the_first_ends_and_decides_after_it(
    state: Path,
) -> None:
    first, second = await _one_leads_and_one_stands_by(state)

    assert (await second.answer("/livez")).json() == {"ok": True}
    assert (await first.answer("/healthz")).status_code == 200

    assert await first.end() == 0
    await second.until("/healthz", 200)
    assert is_led(f"sqlite:///{state / 'scheduler.db'}")
    assert await second.end() == 0


async def test_what_reaches_the_next_one_is_answered_by_the_first(state: Path) -> None:
    """A Service sends it half of all requests as soon as it is ready."""
    first, second = await _one_leads_and_one_stands_by(state)
    for _ in range(20):
        assert (await second.answer("/healthz")).status_code == 200
    body = b"x" * 300_000
    url = f"{second._url}/v1/snapshots/{'0' * 64}"
    async with httpx.AsyncClient(trust_env=False, verify=trusted_at(url)) as client:
        for _ in range(3):
            answered = await client.put(url, content=body)
            assert answered.status_code == 401, answered.text
    await second.end()
    await first.end()


async def test_who_comes_through_the_next_one_is_nobody_by_the_socket_alone(state: Path) -> None:
    """The one that stands by has the operator's account: its callers do not."""
    first = Beside(state)
    await first.until("/healthz", 200)
    transport = httpx.AsyncHTTPTransport(uds=str(state / "api.sock"))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as operator:
        assert (await operator.get("/v1/config")).status_code == 200
    second = Beside(state)
    await second.until("/readyz", 200)
    assert (await second.answer("/v1/config")).status_code == 401
    assert (await first.answer("/v1/config")).status_code == 401
    await second.end()
    await first.end()


async def test_from_another_node_the_first_is_reached_at_its_address(state: Path) -> None:
    """Its folder is there, and nobody listens at the socket in it."""
    first, second = await _one_leads_and_one_stands_by(state)
    api_socket(state).unlink()
    assert (await second.answer("/healthz")).status_code == 200
    assert (await second.answer("/v1/config")).status_code == 401
    await second.end()
    await first.end()


async def test_while_the_first_takes_no_more_callers_the_next_one_says_to_come_again(
    state: Path,
) -> None:
    first, second = await _one_leads_and_one_stands_by(state)
    api_socket(state).unlink()
    publish(state, "http://127.0.0.1:1", pages_port=1)
    refused = await second.answer("/healthz")
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["error"] == "Unavailable"
    assert "try again in a moment" in refused.json()["message"]
    await second.end()
    await first.end()


async def test_one_that_led_and_was_started_anew_says_to_come_again_until_its_successor_is_known(
    state: Path,
) -> None:
    """The address of the one that leads is still its own: it would forward to itself."""
    first, second = await _one_leads_and_one_stands_by(state)
    api_socket(state).unlink()
    publish(state, second._url, pages_port=1)
    refused = await second.answer("/healthz")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    publish(state, first._url, pages_port=1)
    assert (await second.answer("/healthz")).status_code == 200
    await second.end()
    await first.end()


async def test_a_connection_that_is_kept_open_does_not_hold_up_the_next_one(state: Path) -> None:
    first, second = await _one_leads_and_one_stands_by(state)
    async with httpx.AsyncClient(trust_env=False, verify=trusted_at(second._url)) as client:
        assert (await client.get(f"{second._url}/healthz")).status_code == 200
        assert await first.end() == 0
        await second.until("/healthz", 200)
        assert (await client.get(f"{second._url}/healthz")).status_code == 200
    await second.end()


async def test_the_next_one_decides_while_the_first_still_serves_its_last_caller(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_GRACEFUL_S", 60)
    first, second = await _one_leads_and_one_stands_by(state)
    reader, writer = await first.begin_upload()

    first.stop.set()
    await second.until("/healthz", 200)
    assert not first.serving.done()
    assert not reader.at_eof()
    writer.close()
    assert await first.end() == 0
    await second.until("/healthz", 200)
    await second.end()


async def test_one_that_is_out_of_descriptors_for_a_moment_stands_by_on(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await _one_leads_and_one_stands_by(state)
    looks = 0

    def out_of_descriptors(_database: str) -> bool:
        nonlocal looks
        looks += 1
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(standby, "is_led", out_of_descriptors)
    while looks < 3:
        assert not second.serving.done(), second.serving
        await asyncio.sleep(0.05)  # it looks again
    monkeypatch.undo()

    assert await first.end() == 0
    await second.until("/healthz", 200)
    await second.end()


async def test_one_that_is_told_to_end_while_it_stands_by_ends(state: Path) -> None:
    first, second = await _one_leads_and_one_stands_by(state)
    assert await second.end() == 0
    assert (await first.answer("/healthz")).status_code == 200
    await first.end()


async def test_one_whose_configuration_cannot_be_read_is_never_ready(
    state: Path, tmp_path: Path
) -> None:
    first = Beside(state)
    await first.until("/healthz", 200)
    broken = tmp_path / "config.yaml"
    broken.write_text("surprise: 1")
    second = Beside(state, config=broken)
    with pytest.raises(BadRequest, match=r"config\.yaml is no configuration"):
        await second.serving
    assert (await first.answer("/healthz")).status_code == 200
    await first.end()


async def test_one_of_an_older_version_than_the_tables_is_never_ready(state: Path) -> None:
    first = Beside(state)
    await first.until("/healthz", 200)
    with sqlite3.connect(state / "scheduler.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    second = Beside(state)
    with pytest.raises(BadRequest, match=r"A newer version .* \(9999; this one knows \d{4}\)"):
        await second.serving
    assert (await first.answer("/healthz")).status_code == 200
    await first.end()


async def test_probes_that_say_nonsense_do_no_harm(state: Path) -> None:
    first, second = await _one_leads_and_one_stands_by(state)
    port = int(second._url.rpartition(":")[2])
    for said in (b"\r\n\r\n", b"GET\r\n\r\n", b"\xff" * 100_000, b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        writer.write_eof()
        with contextlib.suppress(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 5)
        writer.close()
    await second.until("/readyz", 200)
    await second.end()
    await first.end()


def test_a_store_of_several_schedulers_is_never_stood_by_for() -> None:
    assert not is_led("memory:")
    assert not is_led("postgresql://nobody@127.0.0.1:1/none")
