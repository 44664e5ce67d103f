"""The agent as a process, with simulated GPUs and real processes below them."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.clouds.fake import FakeMetadata
from gpucommons.gpu.clouds.notice_source import CloudNotice
from gpucommons.gpu.connections.unix_sockets import connect
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import (
    AgentUnavailable,
    BadAgentRequest,
    SliceInUse,
    UnknownDevice,
    UnknownSlice,
)
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

SIMULATED = ("--simulate", "2", "--ignore-real", "--node", "ws-1")
BUSY = "while True: pass"
IDLE = "import time; time.sleep(600)"
HOLDER = "import time; x = bytearray(300 << 20); x[::4096] = b'1' * len(x[::4096]); time.sleep(600)"


def half(name: str = "a", device: str = "sim-0", milli: int = 500) -> GpuSlice:
    return GpuSlice(
        slice_id=SliceId(name),
        shares=(DeviceShare(device_id=DeviceId(device), milli_gpu=milli),),
        memory_mib=19866,
    )


@pytest.fixture
def work() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(program: str, **env: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", program], env=os.environ | env)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def agent(start_agent: Any) -> AgentClient:
    return start_agent(*SIMULATED)[1]


def lines_of(path: Path, count: int) -> list[dict[str, Any]]:
    with connect(path, timeout_s=60) as connection, connection.makefile("rb") as stream:
        return [json.loads(stream.readline()) for _ in range(count)]


def test_each_answer_tells_what_the_machines_cloud_says_of_it(start_agent: Any) -> None:
    with FakeMetadata() as fake:
        fake.leaves_ms = 4_000_000_000_000
        options = ("--cloud", "gcp", "--cloud-metadata", fake.url)
        client = start_agent(*SIMULATED, *options)[1]
        began_ms = time.time_ns() // 1_000_000
        while client.notice.leaves_ms is None:
            client.slices()
        assert client.notice.leaves_ms <= began_ms + 60_000
    assert AgentClient(Path("/nowhere")).notice == CloudNotice()


def test_the_node_tells_what_it_offers(agent: AgentClient) -> None:
    report = agent.devices()
    assert report.node == "ws-1"
    assert [(d.device_id, d.kind, d.simulated) for d in report.devices] == [
        ("sim-0", "A100-40", True),
        ("sim-1", "A100-40", True),
    ]
    assert report.cpu_milli >= 1000
    assert report.memory_mib > 256
    assert report.isolation == "none"
    assert report.troubles == {}


def test_a_busy_process_is_seen_in_its_slice_and_not_in_the_neighbours(
    agent: AgentClient, work: Any, eventually: Any
) -> None:
    agent.open(half("mine"))
    agent.open(half("theirs"))
    assert agent.bind(SliceId("mine"), work(IDLE).pid)
    assert agent.bind(SliceId("theirs"), work(BUSY).pid)

    def samples() -> dict[str, Any]:
        return {sample.slice_id: sample for sample in agent.usage()}

    def only_theirs_is_busy() -> bool:
        found = samples()
        return (
            len(found) == 2
            and (found["theirs"].compute_percent or 0) > 50
            and (found["mine"].compute_percent, found["mine"].processes) == (0, 0)
        )

    # A process that has just started is busy with that, so the first seconds may differ.
    eventually(only_theirs_is_busy)
    eventually(lambda: samples()["mine"].contention == "medium")


def test_memory_of_a_child_process_counts(agent: AgentClient, work: Any, eventually: Any) -> None:
    agent.open(half())
    root = work(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLDER!r}])")
    agent.bind(SliceId("a"), root.pid)
    eventually(lambda: (agent.reading(SliceId("a")).sample.memory_used_mib or 0) > 1000)
    pids = agent.reading(SliceId("a")).pids
    assert len(pids) == 2
    root.kill()
    root.wait()
    orphan = next(pid for pid in pids if pid != root.pid)
    assert agent.reading(SliceId("a")).pids == (orphan,)
    os.kill(orphan, signal.SIGKILL)
    eventually(lambda: agent.reading(SliceId("a")).pids == ())


def test_a_listener_gets_the_history_then_a_sample_a_second(
    agent: AgentClient, eventually: Any
) -> None:
    path = agent.open(half())
    eventually(agent.usage)
    history, first, second = lines_of(path, 3)
    assert [s["slice_id"] for s in history["history"]][:1] == ["a"]
    assert first["sample"]["memory_limit_mib"] == 19866
    assert 500 <= second["sample"]["at_ms"] - first["sample"]["at_ms"] <= 5000


def test_sockets_are_for_their_owner_alone(agent: AgentClient, short_folder: Path) -> None:
    path = agent.open(half())

    def mode(of: Path) -> int:
        return stat.S_IMODE(of.stat().st_mode)

    assert mode(short_folder / "control.sock") == 0o600
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700


def test_its_files_are_for_its_account_alone_also_the_lock(
    agent: AgentClient, short_folder: Path
) -> None:
    # Whoever may open a lock may hold it, and no agent would ever start again.
    open_to_others = [
        path.name
        for path in short_folder.iterdir()
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    assert open_to_others == []
    assert (short_folder / "agent.lock").exists()


def test_a_closed_slice_leaves_nothing(agent: AgentClient, short_folder: Path) -> None:
    path = agent.open(half())
    with connect(path, timeout_s=60) as connection:
        agent.close_slice(SliceId("a"))
        agent.close_slice(SliceId("a"))
        while connection.recv(65536):
            pass
    assert list((short_folder / "slices").iterdir()) == []
    assert agent.slices() == ()


def test_refusals_are_errors_with_their_reason(agent: AgentClient) -> None:
    agent.open(half())
    with pytest.raises(SliceInUse):
        agent.open(half(milli=250))
    with pytest.raises(UnknownDevice, match="sim-7"):
        agent.open(half("b", device="sim-7"))
    with pytest.raises(UnknownSlice):
        agent.reading(SliceId("b"))
    assert agent.bind(SliceId("a"), 2**31 - 1) is False


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "a/b", ".hidden", "a..b", "a\n", "x" * 129, "ä", "a\x00"]
)
def test_a_name_that_is_no_plain_folder_is_refused(
    agent: AgentClient, short_folder: Path, name: str
) -> None:
    with pytest.raises(BadAgentRequest, match="slice_id must be"):
        agent.open(half(name))
    assert list((short_folder / "slices").iterdir()) == []


def test_a_killed_agent_comes_back_with_its_slices(
    start_agent: Any, work: Any, eventually: Any
) -> None:
    process, agent = start_agent(*SIMULATED)
    path = agent.open(half())
    root = work(BUSY)
    agent.bind(SliceId("a"), root.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with pytest.raises(AgentUnavailable, match="start it with"):
        agent.usage()
    _, again = start_agent(*SIMULATED)
    assert again.slices() == (half(),)
    assert again.reading(SliceId("a")).pids == (root.pid,)
    eventually(lambda: (again.usage()[0].compute_percent or 0) > 50)
    assert len(lines_of(path, 2)) == 2


def test_sigterm_ends_it_at_once(start_agent: Any) -> None:
    process, agent = start_agent(*SIMULATED)
    agent.open(half())
    process.terminate()
    assert process.wait(timeout=60) == 0


def test_a_second_agent_in_the_folder_says_so(agent: AgentClient, short_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpucommons.gpu.agent", "--dir", str(short_folder)],
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "another agent serves" in done.stderr
    assert agent.devices().node == "ws-1"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--simulate", "-1"), "are not possible"),
        (("--simulate", "1", "--simulated-kind", "A100"), "is no kind of GPU"),
        (("--simulate", "many"), "--simulate"),
    ],
)
def test_bad_arguments_end_with_a_sentence(
    short_folder: Path, arguments: tuple[str, ...], says: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpucommons.gpu.agent", "--dir", str(short_folder), *arguments],
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_deeper_than_a_socket_path_may_be_works(
    start_agent: Any, short_folder: Path
) -> None:
    deep = short_folder / ("d" * 100) / "agent"
    _, agent = start_agent(*SIMULATED, folder=deep)
    path = agent.open(half("0198c2a4-7a1e-7d52-9c1f-2b8f6d1f3a77"))
    assert len(str(path)) > 150
    assert "history" in lines_of(path, 1)[0]


def test_metrics_are_served_to_admins_and_nothing_else(
    start_agent: Any, eventually: Any, short_folder: Path
) -> None:
    process, agent = start_agent(*SIMULATED, "--metrics-port", "0")
    address = next(
        line.split()[-1] for line in iter(process.stderr.readline, b"") if b"Metrics:" in line
    ).decode()
    assert address.startswith("http://127.0.0.1:")
    agent.open(half())
    eventually(agent.usage)
    # Everybody on the machine reaches the port, so it asks for the token of a private file.
    assert httpx.get(address, timeout=60).status_code == 401
    token_file = short_folder / "metrics-token"
    assert token_file.stat().st_mode & 0o777 == 0o600
    admin = {"Authorization": f"Bearer {token_file.read_text().strip()}"}
    found = httpx.get(address, headers=admin, timeout=60)
    assert found.status_code == 200
    text = found.text
    assert 'gpucommons_slice_compute_ratio{slice="a"} 0.0' in text
    assert 'gpucommons_device_memory_bytes{device="sim-1",kind="A100-40"} 42949672960' in text
    other = address.replace("metrics", "other")
    assert httpx.get(other, headers=admin, timeout=60).status_code == 404
    assert httpx.post(address, headers=admin, content=b"x", timeout=60).status_code == 404
    # The socket needs no token: its mode is the lock.
    transport = httpx.HTTPTransport(uds=str(short_folder / "metrics.sock"))
    with httpx.Client(transport=transport) as client:
        assert client.get("http://agent/metrics").text.startswith("# HELP")
    assert (short_folder / "metrics.sock").stat().st_mode & 0o777 == 0o600


def test_it_stays_small(start_agent: Any) -> None:
    process, agent = start_agent(*SIMULATED)
    for number in range(20):
        agent.open(half(f"s{number}"))
    status = Path(f"/proc/{process.pid}/status").read_text()
    resident_kib = next(int(li.split()[1]) for li in status.splitlines() if li.startswith("VmRSS"))
    # Far above what it takes (about 18 MiB), far below what a heavy import would.
    assert resident_kib < 48 * 1024
    assert "Threads:\t1\n" in status


def test_clients_say_when_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(AgentUnavailable, match="gpucommons up"):
        AgentClient(tmp_path / "nowhere.sock").devices()
