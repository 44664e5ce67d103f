"""``gpucommons up`` with everything real: hub, proxy, scheduler, agent, culler, processes."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import pytest

from gpucommons.gpu.agent_client import AgentClient
from gpucommons.gpu.slices import SliceId
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.models import LeaseRequest, LeaseView

pytestmark = [pytest.mark.hub, pytest.mark.timeout(180)]

T = TypeVar("T")

CONFIG = """
pools:
  - {name: gpu, notice_s: 1, grace_s: 2, min_run_s: 0}
  - {name: cpu}
teams:
  - name: vision
    members: [alice, ada]
    quotas: {gpu: {fixed_milli_gpu: 1000}}
"""

#: An admin's own settings: small servers instead of JupyterLab, and a token for these tests.
EXTRA = """
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
c.GpuLocalSpawner.cmd = [sys.executable, os.path.join(here, "small_server.py")]
c.GpuLocalSpawner.args = []
c.GpuLocalSpawner.poll_interval = 1
c.JupyterHub.services.append({"name": "tests", "api_token": open(os.path.join(here, "tests-token")).read()})
c.JupyterHub.load_roles.append(
    {"name": "tests", "services": ["tests"], "scopes": ["admin:users", "admin:servers", "tokens"]}
)
"""

SMALL_SERVER = """
import http.server, os, signal, sys, urllib.parse
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ.get("GPUCOMMONS_LEASE_ID", "none").encode())
    def log_message(self, *_):
        pass
url = urllib.parse.urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
http.server.ThreadingHTTPServer((url.hostname, url.port), Handler).serve_forever()
"""


def until(look: Callable[[], T | None], what: str, *, timeout_s: float = 60.0) -> T:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    message = f"{what} did not happen within {timeout_s:g} s"
    raise AssertionError(message)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Workstation:
    """One ``gpucommons up`` and the ways to look at it."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "s"
        self.state.mkdir()
        self.token = secrets.token_hex(16)
        (self.state / "tests-token").write_text(self.token)
        (self.state / "small_server.py").write_text(SMALL_SERVER)
        (self.state / "jupyterhub_extra.py").write_text(EXTRA)
        (folder / "teams.yaml").write_text(CONFIG)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.command = [
            *(sys.executable, "-m", "gpucommons.scheduler.up", "--trusted-users"),
            *("--state", str(self.state), "--config", str(folder / "teams.yaml")),
            *("--simulate", "1", "--port", str(port), "--admin", "admin"),
        ]
        self.output = folder / "up.out"
        self.process: subprocess.Popen[bytes] | None = None
        self.api = httpx.Client(
            base_url=f"{self.url}/hub/api",
            headers={"Authorization": f"token {self.token}"},
            timeout=60,
            trust_env=False,
        )

    def start(self) -> None:
        self.output.write_text("")
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=output)
        until(self._running, f"the start of {self.command}", timeout_s=90)

    def _running(self) -> bool:
        assert self.process is not None
        text = self.output.read_text()
        assert self.process.poll() is None, text
        return "GPU Commons is running." in text

    def send(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(timeout=90)

    def pids(self) -> dict[str, int]:
        found: dict[str, dict[str, Any]] = json.loads((self.state / "pids.json").read_text())
        return {name: one["pid"] for name, one in found.items()}

    def open(self, user: str, milli_gpu: int) -> httpx.Response:
        self.api.post(f"/users/{user}")
        return self.api.post(f"/users/{user}/server", json={"milli_gpu": milli_gpu})

    def close(self, user: str) -> None:
        self.api.delete(f"/users/{user}/server")
        until(lambda: self.server(user) is None, f"the stop of {user}'s server")
        until(lambda: not self.leases(user), f"the end of {user}'s lease")

    def server(self, user: str) -> dict[str, Any] | None:
        try:
            answer = self.api.get(f"/users/{user}")
        except httpx.HTTPError:
            return {"unknown": "the hub is restarting"}
        if not answer.is_success:
            return None if answer.status_code == 404 else {"unknown": answer.status_code}
        servers: dict[str, Any] = answer.json()["servers"]
        return servers.get("")

    def is_ready(self, user: str) -> bool:
        return bool((self.server(user) or {}).get("ready"))

    def scheduler(self, token: str | None = None) -> SchedulerClient:
        if token is None:
            return SchedulerClient(f"unix:{self.state / 'api.sock'}")
        ports = json.loads((self.state / "ports.json").read_text())
        return SchedulerClient(f"http://127.0.0.1:{ports['api']}", token=token)

    def leases(self, user: str) -> list[LeaseView]:
        """The live ones."""
        with self.scheduler() as scheduler:
            found = scheduler.send(calls.leases()).leases
        return [lease for lease in found if lease.user == user and lease.state != "ended"]

    def user_token(self, user: str) -> str:
        self.api.post(f"/users/{user}")
        return str(self.api.post(f"/users/{user}/tokens", json={}).json()["token"])


@pytest.fixture(scope="module")
def machine() -> Iterator[Workstation]:
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    one = Workstation(folder)
    try:
        one.start()
        yield one
    finally:
        if one.process is not None and one.process.poll() is None:
            one.send(signal.SIGINT)
        one.api.close()
        shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def _nothing_left(machine: Workstation) -> Iterator[None]:
    yield
    if machine.process is not None and machine.process.poll() is None:
        for user in ("alice", "ada"):
            machine.close(user)


def test_the_screen_names_users_and_simulation(machine: Workstation) -> None:
    text = machine.output.read_text()
    assert machine.url in text
    assert "ada (vision), admin (GPU admin), alice (vision)" in text
    assert "simulated" in text


def test_half_a_gpu_is_held_by_the_servers_own_process(machine: Workstation) -> None:
    assert machine.open("alice", 500).status_code == 201
    [lease] = machine.leases("alice")
    assert lease.state == "active"
    assert lease.slice is not None
    assert (lease.team, lease.slice.milli_gpu, lease.slice.simulated) == ("vision", 500, True)
    answer = httpx.get(f"{machine.url}/user/alice/", trust_env=False)
    assert answer.text == lease.id
    agent = AgentClient(machine.state / "agent" / "control.sock")
    pids = agent.reading(SliceId(lease.slice.slice_id)).pids
    assert any("small_server.py" in " ".join(psutil.Process(pid).cmdline()) for pid in pids)
    began = time.monotonic()
    machine.close("alice")
    assert time.monotonic() - began < 15


def test_a_full_team_is_refused_with_a_sentence_and_nothing_waits_in_the_hub(
    machine: Workstation,
) -> None:
    assert machine.open("alice", 1000).status_code == 201
    answer = machine.open("ada", 500)
    assert answer.status_code == 409
    assert "vision" in answer.json()["message"]
    assert machine.server("ada") is None
    assert machine.open("ada", 0).status_code == 201


def test_a_ticket_survives_a_killed_hub_and_starts_its_server_on_its_turn(
    machine: Workstation,
) -> None:
    assert machine.open("alice", 1000).status_code == 201
    with machine.scheduler(machine.user_token("ada")) as ada:
        ticket = ada.send(calls.wait_in_line(LeaseRequest(milli_gpu=500)))
    assert ticket.state == "waiting"
    assert machine.server("ada") is None
    hub = machine.pids()["hub"]
    os.kill(hub, signal.SIGKILL)
    until(lambda: machine.pids().get("hub") not in (None, hub), "a new hub")
    until(lambda: machine.is_ready("alice"), "the return of the hub")
    assert [lease.id for lease in machine.leases("ada")] == [ticket.id]
    machine.close("alice")
    until(lambda: machine.is_ready("ada"), "the start of the ticket's server")
    [lease] = machine.leases("ada")
    assert (lease.state, lease.slice is not None) == ("active", True)


@pytest.mark.parametrize("name", ["agent", "scheduler", "culler", "proxy", "hub"])
def test_a_killed_part_comes_back_and_the_notebook_keeps_its_slice(
    machine: Workstation, name: str
) -> None:
    assert machine.open("alice", 500).status_code == 201
    [before] = machine.leases("alice")
    killed = machine.pids()[name]
    os.kill(killed, signal.SIGKILL)
    until(lambda: machine.pids().get(name) not in (None, killed), f"a new {name}")
    until(lambda: machine.is_ready("alice"), "the notebook")
    until(lambda: _decides(machine), "the scheduler")
    [after] = machine.leases("alice")
    assert (after.id, after.state, after.slice) == (before.id, "active", before.slice)
    until(
        lambda: httpx.get(f"{machine.url}/user/alice/", trust_env=False).text == before.id,
        "the way to the notebook",
    )


def _decides(machine: Workstation) -> bool:
    ports = json.loads((machine.state / "ports.json").read_text())
    try:
        answer = httpx.get(f"http://127.0.0.1:{ports['api']}/healthz", trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.is_success


def test_a_second_up_on_the_same_state_is_refused(machine: Workstation) -> None:
    second = subprocess.run(
        machine.command, capture_output=True, text=True, timeout=60, check=False
    )
    assert second.returncode == 1
    assert "runs already on" in second.stderr
    assert machine.is_ready("nobody") is False
    assert all(alive(pid) for pid in machine.pids().values())


def test_a_killed_up_leaves_no_part_and_the_next_takes_its_notebooks_up(
    machine: Workstation,
) -> None:
    assert machine.open("alice", 500).status_code == 201
    [before] = machine.leases("alice")
    parts = machine.pids()
    machine.send(signal.SIGKILL)
    until(lambda: not any(map(alive, parts.values())), "the end of every part")
    machine.start()
    until(lambda: machine.is_ready("alice"), "the notebook's return")
    [after] = machine.leases("alice")
    assert (after.id, after.state) == (before.id, "active")
    assert httpx.get(f"{machine.url}/user/alice/", trust_env=False).text == before.id


def test_ctrl_c_ends_notebooks_and_parts_and_says_what_stays(machine: Workstation) -> None:
    assert machine.open("alice", 500).status_code == 201
    [lease] = machine.leases("alice")
    assert lease.slice is not None
    agent = AgentClient(machine.state / "agent" / "control.sock")
    servers = agent.reading(SliceId(lease.slice.slice_id)).pids
    parts = machine.pids()
    assert machine.send(signal.SIGINT) == 0
    assert not any(map(alive, (*parts.values(), *servers)))
    assert "training jobs keep running" in machine.output.read_text()
    assert machine.pids() == {}


def test_no_secret_is_in_any_log(machine: Workstation) -> None:
    files = list((machine.state / "tokens").iterdir())
    for secret in [*(path.read_text() for path in files), machine.token]:
        for log in (machine.state / "logs").iterdir():
            assert secret not in log.read_text(errors="replace"), log
