"""A plain hub of one's own: installed by commands, GPUs in its form, taken out again.

The hub is JupyterHub with a file that somebody wrote without us, the rest `gpucommons up --beside-hub`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.running_hub import OneGpuScheduler, RunningHub
from integration.workstation import CONFIG, Workstation

from gpucommons.scheduler.cli import main

#: What an admin wrote who never heard of us.
PLAIN = """
import json, os, sys
from jupyterhub.proxy import Proxy

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
c.JupyterHub.bind_url = f"http://127.0.0.1:{facts['public_port']}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{facts['hub_port']}"
c.JupyterHub.db_url = f"sqlite:///{here}/hub.sqlite"
c.JupyterHub.cookie_secret_file = os.path.join(here, "cookie_secret")
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 60}
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = facts["password"]
c.Authenticator.allowed_users = {"alice"}
c.JupyterHub.services = [{"name": "tests", "api_token": facts["tests_token"]}]
c.JupyterHub.load_roles = [
    {"name": "tests", "services": ["tests"], "scopes": ["admin:users", "admin:servers", "tokens"]}
]
c.Spawner.cmd = [sys.executable, os.path.join(here, "small_server.py")]
"""


@pytest.fixture
def hub() -> Iterator[RunningHub]:
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    scheduler = OneGpuScheduler()
    one = RunningHub(folder, scheduler)
    (folder / "jupyterhub_config.py").write_text(PLAIN)
    yield one
    if one.process is not None and one.process.poll() is None:
        one.kill()
    one.api.close()
    scheduler.close()
    shutil.rmtree(folder)


@pytest.fixture
def beside(hub: RunningHub) -> Iterator[Workstation]:
    """The rest, not started yet."""
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    options = ("--trusted-users", "--beside-hub", f"{hub.url}/hub/api")
    one = Workstation(folder, config=CONFIG, options=options)
    yield one
    one.end()


def installed(hub: RunningHub, beside: Workstation, *options: str) -> None:
    file = str(hub.folder / "jupyterhub_config.py")
    assert main(["install", "--config", file, "--state", str(beside.state), *options]) == 0


def test_a_plain_hub_gives_gpus_and_is_as_before_without_us(
    hub: RunningHub, beside: Workstation
) -> None:
    installed(hub, beside, "--apply")

    # Installed, and the rest not started: the hub is there for everybody, and says what is missing.
    hub.start()
    hub.ensure_user("alice")
    assert "GPU Commons is left out, and the hub starts without it" in hub.log
    with hub.browser("alice") as browser:
        assert "not connected to its GPU scheduler" in browser.get("/hub/spawn").text
    hub.kill()

    beside.start()
    hub.start()
    with hub.browser("alice") as browser:
        assert "½" in browser.get("/hub/spawn").text
    assert hub.start_server("alice", {"milli_gpu": 500}).status_code == 201
    (lease,) = beside.leases("alice")
    assert (lease.state, lease.team, lease.milli_gpu) == ("active", "vision", 500)
    hub.stop_server("alice")
    hub.kill()

    installed(hub, beside, "--undo")
    assert (hub.folder / "jupyterhub_config.py").read_text() == PLAIN
