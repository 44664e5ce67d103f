"""An agent of root serves slices of other users: each may reach its own socket, and no more."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucommons.gpu.agent.control.requests import NodeFacts, Requests
from gpucommons.gpu.agent.control.sampling_loop import AgentServer
from gpucommons.gpu.agent.limits.grants import Grants
from gpucommons.gpu.agent.limits.guard import Guard
from gpucommons.gpu.agent.state.state_file import StateFile
from gpucommons.gpu.agent.watch import Watch
from gpucommons.gpu.connections.unix_sockets import connect
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.linux.fake_processes import FakeProcess, FakeProcesses
from gpucommons.gpu.node.fake import SimulatedGpus, simulated_devices
from gpucommons.gpu.providers import NodeTraits, provider_stack
from gpucommons.gpu.slices.slice_folders import SliceFolders
from gpucommons.gpu.slices.slice_processes import SliceProcesses
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

A = SliceId("a")
SLICE = GpuSlice(
    slice_id=A,
    shares=(DeviceShare(device_id=DeviceId("sim-0"), milli_gpu=500),),
    memory_mib=19866,
)


@pytest.fixture
def node() -> FakeProcesses:
    node = FakeProcesses()
    node.start(FakeProcess(pid=7, uid=1001))
    node.start(FakeProcess(pid=8, uid=1002))
    node.start(FakeProcess(pid=9, uid=0))
    return node


@pytest.fixture
def watch(node: FakeProcesses, short_folder: Path) -> Watch:
    return Watch(
        SimulatedGpus(simulated_devices(1), node),
        SliceProcesses(node, own_uid=1500),
        StateFile(short_folder / "open-slices.json"),
    )


@pytest.fixture
def server(watch: Watch, short_folder: Path) -> Iterator[AgentServer]:
    requests = Requests(
        watch,
        NodeFacts(name="n", cpu_milli=1000, memory_mib=1000),
        SliceFolders(short_folder / "slices"),
    )
    server = AgentServer(short_folder, watch, requests, now_ms=lambda: 0)
    yield server
    server.close()


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What root would have given away, and to whom."""
    given: list[tuple[str, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: given.append((Path(path).name, uid)))
    return given


def ask(server: AgentServer, folder: Path, line: bytes) -> None:
    """One request, answered by the server in this thread."""
    with connect(folder / "control.sock", timeout_s=60) as connection:
        connection.sendall(line + b"\n")
        connection.setblocking(False)
        answer = b""
        while not answer.endswith(b"\n"):
            server.serve(1)
            try:
                answer += connection.recv(65_536)
            except BlockingIOError:
                continue
    assert answer.startswith(b'{"ok":true'), answer


def test_the_user_of_the_slice_gets_the_socket_and_the_folder_stays_roots(
    server: AgentServer, watch: Watch, short_folder: Path, lent: list[tuple[str, int]]
) -> None:
    watch.open(SLICE)
    ask(server, short_folder, b'{"request":"bind","slice_id":"a","pid":7}')
    ask(server, short_folder, b'{"request":"bind","slice_id":"a","pid":9}')
    assert lent == [("usage.sock", 1001)]
    folder = short_folder / "slices" / "a"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o711
    assert stat.S_IMODE((folder / "usage.sock").stat().st_mode) == 0o600


def test_a_slice_of_two_users_is_lent_to_neither_anew(
    server: AgentServer, watch: Watch, short_folder: Path, lent: list[tuple[str, int]]
) -> None:
    watch.open(SLICE)
    ask(server, short_folder, b'{"request":"bind","slice_id":"a","pid":7}')
    ask(server, short_folder, b'{"request":"bind","slice_id":"a","pid":8}')
    assert lent == [("usage.sock", 1001)]


def test_an_ordinary_users_agent_lends_nothing(
    server: AgentServer,
    watch: Watch,
    short_folder: Path,
    lent: list[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    watch.open(SLICE)
    ask(server, short_folder, b'{"request":"bind","slice_id":"a","pid":7}')
    assert lent == []


def test_a_pid_that_became_somebody_elses_is_not_bound(
    node: FakeProcesses, short_folder: Path
) -> None:
    gpus = SimulatedGpus(simulated_devices(1), node)
    stack = provider_stack(NodeTraits(simulated=True))
    grants = Grants(stack, gpus.devices(), short_folder / "grants.json")
    watch = Watch(
        gpus,
        SliceProcesses(node, own_uid=0),
        StateFile(short_folder / "open-slices.json"),
        Guard(grants=grants, watchdog=None),
    )
    watch.prepare(SLICE, 1001)
    assert [watch.bind(A, pid) for pid in (8, 9, 999)] == [False] * 3
    assert watch.uids(A) == {1001}
    assert watch.bind(A, 7)
