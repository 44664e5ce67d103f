"""Peers that send junk, too much, too fast, or never read: the agent goes on for everybody else."""

from __future__ import annotations

import json
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from selectors import DefaultSelector
from typing import Any

import pytest

from gpucommons.gpu.agent.control.channels import SCRAPE_S, MetricsChannel, SliceChannel
from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.connections.accepting import Acceptor
from gpucommons.gpu.connections.unix_sockets import connect, listen
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import AgentUnavailable, GpuError
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

SLICE = GpuSlice(
    slice_id=SliceId("a"),
    shares=(DeviceShare(device_id=DeviceId("sim-0"), milli_gpu=500),),
    memory_mib=19866,
)


@pytest.fixture
def agent(start_agent: Any) -> Iterator[AgentClient]:
    process, client = start_agent("--simulate", "1", "--ignore-real")
    yield client
    assert process.poll() is None
    assert client.devices().devices


@pytest.fixture
def control(one_agent: Path) -> Iterator[socket.socket]:
    """A new connection to an agent that has heard all that the tests before said."""
    with connect(one_agent, timeout_s=60) as connection:
        yield connection


def answer_to(connection: socket.socket, data: bytes) -> dict[str, Any]:
    connection.sendall(data)
    with connection.makefile("rb") as stream:
        answer: dict[str, Any] = json.loads(stream.readline())
    return answer


def share(**fields: object) -> list[object]:
    return [{"device_id": "sim-0", "milli_gpu": 500} | fields]


def opening(**fields: object) -> dict[str, object]:
    return {"request": "open", "slice_id": "a", "shares": share(), "memory_mib": 9} | fields


@pytest.mark.parametrize(
    "line",
    [
        b"", b"{", b"[]", b"7", b"null", b'"open"', b"\xff\xfe", b"\x00", b"[" * 60_000, b"1" * 60_000,
        b"{}", b'{"request": null}', b'{"request": ["open"]}', b'{"request": "reset"}', b"NaN",
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused_and_the_connection_lives(
    control: socket.socket, line: bytes
) -> None:
    refused = answer_to(control, line + b"\n")
    assert refused["ok"] is False
    assert refused["error"] == "BadAgentRequest"
    assert refused["message"]
    assert answer_to(control, b'{"request":"slices"}\n')["ok"] is True


@pytest.mark.parametrize(
    "message",
    [
        opening(slice_id=7), opening(slice_id=None), opening(shares=[]), opening(shares="sim-0"),
        opening(shares={}), opening(shares=[7]), opening(shares=share() * 2),
        opening(shares=share() * 65), opening(shares=share(milli_gpu=0)),
        opening(shares=share(milli_gpu=1001)), opening(shares=share(milli_gpu=0.5)),
        opening(shares=share(milli_gpu=True)), opening(shares=share(milli_gpu="500")),
        opening(shares=share(device_id=7)), opening(shares=share(device_id="")),
        opening(shares=share(device_id="x" * 500)), opening(memory_mib=0),
        opening(memory_mib=-1), opening(memory_mib=10**30), opening(memory_mib=None),
        {"request": "bind", "slice_id": "a"}, {"request": "bind", "slice_id": "a", "pid": 0},
        {"request": "bind", "slice_id": "a", "pid": -1},
        {"request": "bind", "slice_id": "a", "pid": 2**40},
        {"request": "minutes"}, {"request": "minutes", "after_ms": "x"},
        {"request": "close"}, {"request": "reading"},
    ],
)  # fmt: skip
def test_bad_fields_are_refused_and_change_nothing(
    control: socket.socket, message: dict[str, object]
) -> None:
    refused = answer_to(control, json.dumps(message).encode() + b"\n")
    assert refused["error"] == "BadAgentRequest"
    assert answer_to(control, b'{"request":"slices"}\n')["slices"] == []


def test_half_a_surrogate_pair_is_refused_like_any_unknown_device(control: socket.socket) -> None:
    message = opening(shares=share(device_id="\ud800"))
    assert answer_to(control, json.dumps(message).encode() + b"\n")["error"] == "UnknownDevice"


def test_a_line_without_end_is_cut_off(control: socket.socket) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - reset or broken pipe, as the kernel pleases
        control.sendall(b"x" * (64 << 20))


def test_a_line_that_is_just_too_long_is_told_why(control: socket.socket) -> None:
    refused = answer_to(control, b"x" * 70_000)
    assert "64 KiB" in refused["message"]


def test_many_requests_in_one_write_are_all_answered(control: socket.socket) -> None:
    control.sendall(b'{"request":"slices"}\n' * 500)
    with control.makefile("rb") as stream:
        assert all(json.loads(stream.readline())["ok"] for _ in range(500))


def test_a_request_in_single_bytes_is_a_request(control: socket.socket) -> None:
    for byte in b'{"request":"slices"':
        control.sendall(bytes([byte]))
    assert answer_to(control, b"}\n")["ok"] is True


def test_connections_that_do_nothing_do_not_keep_others_out(
    agent: AgentClient, short_folder: Path
) -> None:
    path = agent.open(SLICE)
    with ExitStack() as held:
        for _ in range(200):
            held.enter_context(connect(short_folder / "control.sock", timeout_s=60))
            held.enter_context(connect(path, timeout_s=60))
        assert agent.slices() == (SLICE,)
        with connect(path, timeout_s=60) as late:
            assert late.recv(9).startswith(b'{"history')


def test_an_agent_out_of_descriptors_goes_on_when_there_is_room(
    start_agent: Any, eventually: Any
) -> None:
    process, agent = start_agent("--simulate", "1", "--ignore-real")
    path = agent.open(SLICE)
    few = len(list(Path(f"/proc/{process.pid}/fd").iterdir())) + 2
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (few, few))
    with ExitStack() as held:
        for _ in range(6):
            held.enter_context(connect(path, timeout_s=60))
        with pytest.raises(GpuError):
            open_many(agent)
    eventually(lambda: answers(agent))
    assert process.poll() is None


def open_many(agent: AgentClient) -> None:
    for number in range(20):
        agent.open(replace(SLICE, slice_id=SliceId(f"more-{number}")))


def answers(agent: AgentClient) -> bool:
    try:
        return bool(agent.devices().devices)
    except AgentUnavailable:
        return False


def test_a_reader_that_never_reads_holds_up_nobody(agent: AgentClient) -> None:
    path = agent.open(SLICE)
    with connect(path, timeout_s=60) as deaf, connect(path, timeout_s=60) as eager:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        with eager.makefile("rb") as stream:
            for _ in range(3):
                assert stream.readline()


def test_a_deaf_peer_that_is_let_go_does_not_keep_the_agent_awake(short_folder: Path) -> None:
    listener, acceptor = listen(short_folder / "s"), Acceptor()
    history = b"x" * (1 << 19)
    with DefaultSelector() as selector, connect(short_folder / "s", timeout_s=60) as deaf:
        channel = SliceChannel(selector, acceptor, listener, lambda: history, lambda _who: True)
        deaf.sendall(b"x" * 8 * SliceChannel.max_line_bytes)
        for _ in range(10):
            for key, events in selector.select(0):
                key.data(events)
        assert selector.select(0) == []
        channel.send_all(b"sample\n")
        heard = 0
        while heard < len(history):
            heard += len(deaf.recv(1 << 20))
            for key, events in selector.select(0):
                key.data(events)
        assert len(selector.get_map()) == 1, "only the listener is left"
        channel.close()
    acceptor.close()


def test_a_requester_that_never_reads_is_let_go(agent: AgentClient, short_folder: Path) -> None:
    with connect(short_folder / "control.sock", timeout_s=60) as deaf:
        with pytest.raises(OSError):  # noqa: PT011 - reset or broken pipe, as the kernel pleases
            deaf.sendall(b'{"request":"devices"}\n' * 1_000_000)
        assert agent.slices() == ()


def test_junk_on_a_slice_socket_is_not_heard(agent: AgentClient) -> None:
    path = agent.open(SLICE)
    with connect(path, timeout_s=60) as connection, connection.makefile("rb") as stream:
        connection.sendall(b'{"request":"close","slice_id":"a"}\n\x00junk\n')
        assert b"history" in stream.readline()
        assert b"sample" in stream.readline()
    assert agent.slices() == (SLICE,)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", AgentUnavailable),
        (b"half a line", AgentUnavailable),
        (b"no json\n", AgentUnavailable),
        (b'{"ok":false}\n', GpuError),
        (b'{"ok":false,"error":"Exception","message":"m"}\n', GpuError),
    ],
)
def test_a_client_survives_a_server_that_is_not_the_agent(
    short_folder: Path, answer: bytes, error: type[Exception]
) -> None:
    path = short_folder / "s"
    with listen(path) as server:
        server.setblocking(True)

        def serve() -> None:
            with server.accept()[0] as peer:
                peer.recv(1000)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(error):
            AgentClient(path).slices()
        thread.join()


def test_a_client_does_not_wait_for_ever(short_folder: Path) -> None:
    path = short_folder / "s"
    with listen(path), pytest.raises(AgentUnavailable, match="timed out"):
        AgentClient(path, timeout_s=0.2).slices()


def test_a_scraper_that_takes_too_long_is_let_go_whatever_it_sends(short_folder: Path) -> None:
    selector, acceptor = DefaultSelector(), Acceptor()
    path = short_folder / "metrics.sock"
    channel = MetricsChannel(selector, acceptor, listen(path), lambda: b"all well\n")

    def serve() -> None:
        for key, events in selector.select(1):
            key.data(events)

    with connect(path, timeout_s=60) as slow, connect(path, timeout_s=60) as late:
        serve()
        channel.end_late(0.0)
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        serve()
        channel.end_late(SCRAPE_S)
        slow.sendall(b"X: still here\r\n")
        serve()
        channel.end_late(SCRAPE_S + 0.1)
        assert slow.recv(1) == b""
        assert late.recv(1) == b""
    with connect(path, timeout_s=60) as quick:
        serve()
        channel.end_late(SCRAPE_S + 1)
        quick.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        serve()
        assert b"all well" in quick.recv(4096)
    channel.close()
    acceptor.close()
    selector.close()
