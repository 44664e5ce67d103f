"""One ``gpucommons up`` with everything real, and the ways to look at it."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import pytest
from kernel_server import criu_of_tests
from playwright.sync_api import Page

from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.models import LeaseView
from tests.harness.free_ports import free_port
from tests.ui.product import LAB_FROM_HERE, take_and_start

T = TypeVar("T")

CONFIG = """
pools:
  - {name: gpu, notice_s: 1, grace_s: 2, min_run_s: 0, lend_after_s: 0}
  - {name: cpu}
teams:
  - name: vision
    members: [alice, ada]
    quotas: {gpu: {fixed_milli_gpu: 1000}}
"""

#: An admin's own settings: small servers instead of JupyterLab, and a token for these tests.
EXTRA = """
import os
here = os.path.dirname(os.path.abspath(__file__))
c.GpuLocalSpawner.cmd = ["PYTHON", os.path.join(here, "small_server.py")]
c.GpuLocalSpawner.args = []
c.GpuLocalSpawner.poll_interval = 1
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 60}
c.JupyterHub.services.append({"name": "tests", "api_token": open(os.path.join(here, "tests-token")).read()})
c.JupyterHub.load_roles.append(
    {"name": "tests", "services": ["tests"], "scopes": ["admin:users", "admin:servers", "tokens"]}
)
"""

#: Tells its lease, and what it could do: who it is, and which files of the hub it can open.
SMALL_SERVER = """
import http.server, json, os, pathlib, signal, socket, subprocess, sys, urllib.parse
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(look() if self.path.endswith("/look") else lease.encode())
    def log_message(self, *_):
        pass
def look():
    state = pathlib.Path(__file__).parent
    names = json.loads((state / "names.json").read_text())
    readable = [name for name in names if opens(state / name)]
    usage = socket.socket(socket.AF_UNIX)
    usage.connect(os.environ["GPUCOMMONS_SLICE_SOCKET"])
    status = pathlib.Path("/proc/self/status").read_text().split()
    return json.dumps({
        "uid": os.getuid(), "pid": os.getpid(), "groups": os.getgroups(), "readable": readable,
        "usage": usage.recv(100).decode(),
        "no_new_privs": status[status.index("NoNewPrivs:") + 1],
        "descriptors": descriptors(),
        "descriptors_of_a_kernel": json.loads(subprocess.check_output(
            [sys.executable, "-c", "import json, os; " + KERNEL], text=True)),
    }).encode()
KERNEL = "print(json.dumps([os.readlink(f'/proc/self/fd/{n}') for n in (0, 2)] + os.listdir('/proc/self/fd')))"
def descriptors():
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink("/proc/self/fd/" + name))
        except OSError:
            pass
    return found
def opens(path):
    try:
        if path.is_socket():
            socket.socket(socket.AF_UNIX).connect(str(path))
        else:
            path.open().close()
    except OSError:
        return False
    return True
lease = os.environ.get("GPUCOMMONS_LEASE_ID", "none")
url = urllib.parse.urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
http.server.ThreadingHTTPServer((url.hostname, url.port), Handler).serve_forever()
"""


def until(look: Callable[[], T | None], what: str, *, timeout_s: float = 120.0) -> T:
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

    def __init__(
        self,
        folder: Path,
        *,
        config: str = CONFIG,
        options: tuple[str, ...] = ("--trusted-users",),
        python: str = sys.executable,
        gpus: int = 1,
    ) -> None:
        self.state = folder / "s"
        self.state.mkdir()
        self.token = secrets.token_hex(16)
        (self.state / "tests-token").write_text(self.token)
        (self.state / "small_server.py").write_text(SMALL_SERVER)
        (self.state / "jupyterhub_extra.py").write_text(EXTRA.replace("PYTHON", python))
        (folder / "teams.yaml").write_text(config)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.command = [
            *(sys.executable, "-m", "gpucommons.scheduler.up", *options),
            *("--state", str(self.state), "--config", str(folder / "teams.yaml")),
            *("--simulate", str(gpus), "--port", str(port), "--admin", "admin"),
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
        until(self._running, f"the start of {self.command}", timeout_s=180)

    def _running(self) -> bool:
        assert self.process is not None
        text = self.output.read_text()
        assert self.process.poll() is None, text
        return "GPU Commons is running." in text

    def send(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(timeout=180)

    def end(self) -> None:
        """Stop it where it runs, and leave nothing of it."""
        if self.process is not None and self.process.poll() is None:
            self.send(signal.SIGINT)
        self.api.close()
        shutil.rmtree(self.state.parent)

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
        over = {"hibernated", "ended"}
        return [lease for lease in found if lease.user == user and lease.state not in over]

    def user_token(self, user: str) -> str:
        self.api.post(f"/users/{user}")
        return str(self.api.post(f"/users/{user}/tokens", json={}).json()["token"])


#: One GPU for notebooks of vision, one that is nlp's; vision may borrow what stands idle.
TWO_TEAMS = """
pools:
  - {name: gpu, notice_s: 1, grace_s: 60, min_run_s: 0, lend_after_s: 0, unlent_permille: 0}
teams:
  - name: vision
    members: [alice]
    quotas: {gpu: {fixed_milli_gpu: 1000}}
  - name: nlp
    members: [bob]
    quotas: {gpu: {guaranteed_milli_gpu: 1000}}
"""


@contextmanager
def kept_machine(*, idle_after_s: int, has_criu: bool = True) -> Iterator[Workstation]:
    """A workstation whose jobs and kernels are saved; notebooks are culled so soon.

    Without CRIU variables are kept.
    """
    criu = criu_of_tests() if has_criu else "/nowhere"
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    options = ("--trusted-users", "--idle-after-s", str(idle_after_s), "--warn-after-s", "15")
    one = Workstation(folder, config=TWO_TEAMS, options=options, gpus=2)
    # JupyterHub's own server instead of a small one.
    lines = [
        line
        for line in EXTRA.splitlines()
        if ".cmd" not in line and "GpuLocalSpawner.args" not in line
    ]
    (one.state / "jupyterhub_extra.py").write_text("\n".join([*lines, LAB_FROM_HERE]))
    try:
        with pytest.MonkeyPatch.context() as patch:
            # By the variable alone: parts and servers are told of it by `up` and by the hub.
            patch.setenv("XDG_STATE_HOME", str(folder / "state"))
            patch.setenv("GPUCOMMONS_CRIU", criu)
            one.start()
        yield one
    finally:
        one.end()


def log_in(page: Page, machine: Workstation) -> None:
    page.goto(f"{machine.url}/hub/login?next=/hub/spawn")
    page.get_by_label("Username").fill("alice")
    page.locator("#password_input").fill((machine.state / "password").read_text().strip())
    page.get_by_role("button", name="Sign in").click()


def start_lab(page: Page, size: str) -> None:
    take_and_start(page, size)
    page.wait_for_url("**/lab**")
