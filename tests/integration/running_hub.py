"""A real JupyterHub on free ports, with notebook servers that start in a tenth of a second.

The scheduler behind it is one that a test can look into; the real one is in ``workstation.py``.
"""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from tests.harness.free_ports import free_port

T = TypeVar("T")

#: Half a team's quota and its price, in the words of the API.
TOTAL_MILLI_GPU = 1000
TICKET_ID = "0190aaaa-0000-7000-8000-000000000009"

#: A notebook server as far as the hub can tell: it answers, and it writes down what it was given.
SMALL_SERVER = """
import http.server, json, os, pathlib, signal, sys, urllib.parse
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
pathlib.Path("env.json").write_text(json.dumps(dict(os.environ)))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("X-JupyterHub-Version", os.environ.get("HUB_VERSION", "6"))
        self.end_headers()
    def log_message(self, *_):
        pass
url = urllib.parse.urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
http.server.ThreadingHTTPServer((url.hostname, url.port), Handler).serve_forever()
"""

#: A hub needs some proxy; these tests talk to it and to its servers directly.
HUB_CONFIG = """
import json, os, sys
from jupyterhub.proxy import Proxy
from gpucommons.spawner.hub_config import HubSettings, configure

here = os.path.dirname(os.path.abspath(__file__))
facts = json.load(open(os.path.join(here, "facts.json")))

class NoProxy(Proxy):
    should_start = False
    routes = {}
    async def add_route(self, routespec, target, data):
        self.routes[routespec] = {"routespec": routespec, "target": target, "data": data}
    async def delete_route(self, routespec):
        self.routes.pop(routespec, None)
    async def get_all_routes(self):
        return dict(self.routes)

c.JupyterHub.proxy_class = NoProxy
configure(c, HubSettings(
    scheduler_url=facts["scheduler_url"], pages_url="http://127.0.0.1:9",
    service_token=facts["service_token"], culler_token=facts["culler_token"],
    spawner_token=facts["spawner_token"], teams={"vision": ["alice", "ada"]}, admins=["admin"],
    agent_dir=here,
))
c.JupyterHub.bind_url = f"http://127.0.0.1:{facts['public_port']}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{facts['hub_port']}"
c.JupyterHub.db_url = f"sqlite:///{here}/hub.sqlite"
c.JupyterHub.cookie_secret_file = os.path.join(here, "cookie_secret")
c.JupyterHub.cleanup_servers = False
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 60}
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = facts["password"]
c.Authenticator.allowed_users = {"alice", "ada", "admin"}
# An admin of the hub, not of its GPUs.
c.Authenticator.admin_users = {"operator"}
c.JupyterHub.services.append({"name": "tests", "api_token": facts["tests_token"]})
c.JupyterHub.load_roles.append(
    {"name": "tests", "services": ["tests"], "scopes": ["admin:users", "admin:servers", "tokens"]}
)
c.LeaseMixin.shared_account = True
c.LeaseMixin.other_options = {"profile"}
c.GpuLocalSpawner.home_dir_template = os.path.join(here, "homes", "{username}")
c.GpuLocalSpawner.cmd = [sys.executable, os.path.join(here, "small_server.py")]
c.GpuLocalSpawner.env_keep = ["PATH", "PYTHONPATH", "HUB_VERSION"]
c.GpuLocalSpawner.poll_interval = 1
"""


def until(look: Callable[[], T | None], *, timeout_s: float = 120.0, what: str = "it") -> T:
    """Wait for real processes; fails with what was missing."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    message = f"{what} did not happen within {timeout_s:g} s"
    raise AssertionError(message)


class OneGpuScheduler:
    """The notebook part of ``/v1`` for one team with one GPU, over real HTTP."""

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.ended: list[tuple[str, str]] = []
        self.started: dict[str, int] = {}
        self.tokens: set[str] = set()
        #: Who is offered nothing.
        self.without_team = {"admin", "operator"}
        scheduler = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                scheduler.tokens.add(self.headers["Authorization"])
                asked = parse_qs(urlsplit(self.path).query)
                self._answer(200, scheduler.offers(asked.get("user", [""])[0]))

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or b"{}")
                self._answer(*scheduler.post(self.path, body))

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def held_milli_gpu(self) -> int:
        return sum(lease["milli_gpu"] for lease in self.leases.values())

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "/v1/leases":
            return 200, self._ticket(body)
        *_, name, verb = path.split("/")
        if verb == "acquire":
            return self._acquire(body)
        lease = self.leases.get(name)
        if lease is None:
            return 404, {"error": "UnknownWorkload", "message": "There is no such lease."}
        if verb == "end":
            self.ended.append((name, body["why"]))
            return 200, self.leases.pop(name) | {"state": "ended"}
        self.started[name] = body["pid"]
        lease["state"] = "active"
        return 200, lease

    def _acquire(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        free = TOTAL_MILLI_GPU - self.held_milli_gpu
        if body["milli_gpu"] > free:
            sentence = (
                f"{body['milli_gpu'] / 1000:g} GPU was asked and vision has {free / 1000:g} free:"
                " take a smaller size, or wait in line."
            )
            return 409, {"error": "NoFreeSlice", "message": sentence}
        lease_id = str(uuid.uuid4())
        self.leases[lease_id] = {
            "id": lease_id,
            "user": body["user"],
            "server_name": body["server_name"],
            "team": "vision",
            "pool": "gpu",
            "state": "granted",
            "milli_gpu": body["milli_gpu"],
            "requested_ms": 0,
            "since_ms": 0,
            "slice": {
                "slice_id": lease_id,
                "node": "here",
                "device_ids": ["sim-0"],
                "device_indices": [0],
                "gpu_kind": "A100-40",
                "milli_gpu": body["milli_gpu"],
                "memory_mib": 39 * body["milli_gpu"],
                "isolation": "none",
                "simulated": True,
            },
        }
        return 200, self.leases[lease_id]

    def _ticket(self, body: dict[str, Any]) -> dict[str, Any]:
        kept = ("user", "server_name", "team", "pool", "milli_gpu")
        return {
            "id": TICKET_ID,
            **{name: body[name] for name in kept},
            "state": "waiting",
            "requested_ms": 0,
            "since_ms": 0,
        }

    def offers(self, user: str) -> dict[str, Any]:
        free = TOTAL_MILLI_GPU - self.held_milli_gpu
        sizes = [
            {
                "milli_gpu": milli,
                "memory_mib": 39 * milli,
                "availability": "free" if milli <= free else "wait",
                "text": "free now" if milli <= free else "wait in line",
            }
            for milli in (250, 500, 1000)
        ]
        offer = {
            "team": "vision",
            "pool": "gpu",
            "gpu_kind": "A100-40",
            "fixed_milli_gpu": TOTAL_MILLI_GPU,
            "fixed_used_milli_gpu": self.held_milli_gpu,
            "sizes": sizes,
            "isolation": "none",
            "simulated": True,
        }
        offers = [] if user in self.without_team else [offer]
        return {"user": user, "offers": offers, "now_ms": time.time_ns() // 1_000_000}


class RunningHub:
    """A hub process that can be killed and started again on the same state."""

    def __init__(self, folder: Path, scheduler: OneGpuScheduler) -> None:
        self.folder = folder
        self.scheduler = scheduler
        tokens = ("service_token", "culler_token", "spawner_token", "tests_token", "password")
        self.facts: dict[str, Any] = {name: secrets.token_hex(16) for name in tokens}
        self.facts["scheduler_url"] = scheduler.url
        self.facts["hub_port"] = free_port()
        self.facts["public_port"] = free_port()
        self.url = f"http://127.0.0.1:{self.facts['hub_port']}"
        self.api = httpx.Client(
            base_url=f"{self.url}/hub/api",
            headers={"Authorization": f"token {self.facts['tests_token']}"},
            timeout=60,
            trust_env=False,
        )
        (folder / "facts.json").write_text(json.dumps(self.facts))
        (folder / "small_server.py").write_text(SMALL_SERVER)
        (folder / "jupyterhub_config.py").write_text(HUB_CONFIG)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self.folder / "hub.log").read_text(errors="replace")

    def start(self) -> None:
        with (self.folder / "hub.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "jupyterhub",
                    "-f",
                    str(self.folder / "jupyterhub_config.py"),
                ],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._healthy, what=f"the hub's start ({self.folder / 'hub.log'})")

    def _healthy(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log[-3000:]
        try:
            return httpx.get(
                f"{self.url}/hub/health", trust_env=False, verify=trusted_at(self.url)
            ).is_success
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ensure_user(self, name: str) -> None:
        self.api.post(f"/users/{name}")

    def start_server(self, user: str, options: dict[str, Any]) -> httpx.Response:
        return self.api.post(f"/users/{user}/server", json=options)

    def stop_server(self, user: str) -> None:
        if self.api.delete(f"/users/{user}/server").status_code == 202:
            until(lambda: not self.server(user), what=f"the stop of {user}'s server")

    def server(self, user: str) -> dict[str, Any] | None:
        servers: dict[str, Any] = self.api.get(f"/users/{user}").json()["servers"]
        return servers.get("")

    def server_env(self, user: str) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.folder / "homes" / user / "env.json").read_text())
        return found

    @contextmanager
    def browser(self, user: str) -> Iterator[httpx.Client]:
        """A logged-in browser, without the drawing."""
        with httpx.Client(
            base_url=self.url, timeout=60, trust_env=False, verify=trusted_at(self.url)
        ) as client:
            client.get("/hub/login")
            answer = client.post(
                "/hub/login",
                params={"_xsrf": client.cookies.get("_xsrf", path="/hub/")},
                data={"username": user, "password": self.facts["password"]},
            )
            assert answer.status_code == 302, answer.text
            yield client
