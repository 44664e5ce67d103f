"""The hub's own proxy, as ``up`` starts it."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gpucommons.scheduler.up.parts import Machine, clean_env, other_parts
from gpucommons.scheduler.up.proxy import find_proxy
from gpucommons.scheduler.up.settings import read_settings
from gpucommons.scheduler.up.state_folder import prepare
from tests.harness.free_ports import free_port
from tests.scheduler.up.test_plan import parse


@pytest.fixture
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="gc") as root:
        folder = prepare(Path(root) / "s", open_to_users=False)
        wanted = parse("--demo", "--port", str(free_port()))
        yield Machine(
            settings=read_settings(wanted, {"GPUCOMMONS_STATE": root}),
            folder=folder,
            ports={name: free_port() for name in ("hub", "proxy_api", "api", "pages")},
            proxy_command=find_proxy(folder.root),
            config=Path("gpucommons.yaml"),
            base_env=clean_env({"PATH": "/bin"}),
        )


def test_a_page_that_is_open_while_the_hub_starts_is_told_to_come_back_not_that_nothing_is_there(
    machine: Machine,
) -> None:
    """JupyterLab asks at once, and again, for a folder that is "not found"."""
    (part,) = (one for one in other_parts(machine) if one.name == "proxy")
    proxy = subprocess.Popen(part.argv, env=dict(part.env))
    url = f"http://127.0.0.1:{machine.settings.port}"
    try:
        with httpx.Client(trust_env=False, timeout=30) as client:
            while not _serves(client, part.ready_urls[0]):
                assert proxy.poll() is None
                time.sleep(0.05)
            assert client.get(f"{url}/user/ann/api/contents").status_code == 503
            # The hub is there once it has told the proxy so, and not before.
            assert client.get(f"{url}/hub/health").status_code == 503
    finally:
        proxy.kill()
        proxy.wait()


def _serves(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).is_success
    except httpx.TransportError:
        return False
