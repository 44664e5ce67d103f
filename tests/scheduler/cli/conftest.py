"""The command line as people use it, against the real API on a unix socket, in virtual time."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, Done, WatchedWorld
from service_world import FakeHubServer
from starlette.types import ASGIApp, Receive, Scope, Send

from gpucommons.gpu.connections import unix_sockets
from gpucommons.scheduler.api.app import ApiSettings, create_app
from gpucommons.scheduler.api.authentication import (
    FirstAuthenticator,
    HubAuthenticator,
    PeerAuthenticator,
)
from gpucommons.scheduler.api.server import make_server
from gpucommons.scheduler.cli import main

NOBODY = 2**31


@pytest.fixture
def world(tmp_path: Path) -> WatchedWorld:
    return WatchedWorld(tmp_path)


class Front:
    """One server for all tests of a process: each test puts its own application behind it."""

    def __init__(self, socket_path: Path) -> None:
        self.socket_path = socket_path
        self.app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.app is not None
        await self.app(scope, receive, send)


@pytest.fixture(scope="session")
def front() -> Iterator[Front]:
    # Not below tmp_path: the kernel takes no long socket paths.
    with tempfile.TemporaryDirectory(prefix="gc") as folder:
        made = Front(Path(folder) / "api.sock")
        server = make_server(made)  # type: ignore[arg-type] # any application will do
        server.config.timeout_graceful_shutdown = 0
        with unix_sockets.listen(made.socket_path) as listening:
            thread = threading.Thread(target=_serve, args=(server, listening))
            thread.start()
            yield made
            server.should_exit = True
            thread.join()


@pytest.fixture
def state(world: WatchedWorld, front: Front) -> Path:
    """A state folder as ``gpucommons up`` has it, with a live socket."""
    authenticators = FirstAuthenticator(
        [
            PeerAuthenticator(operator_uid=NOBODY),
            HubAuthenticator(FakeHubServer().hub(), now_ms=lambda: world.now_ms),
        ]
    )
    front.app = create_app(world.service, authenticators, settings=ApiSettings())
    return front.socket_path.parent


def _serve(server: Any, listening: socket.socket) -> None:
    asyncio.run(server.serve(sockets=[listening]))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and an environment that names no scheduler."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("GPUCOMMONS_URL", "GPUCOMMONS_STATE", "XDG_STATE_HOME", "JUPYTERHUB_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def cli(
    state: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """Run a command as somebody: ``cli("jobs", "--all", by="ann")``."""

    def run(*arguments: str, by: str = "ann") -> Done:
        monkeypatch.setenv("GPUCOMMONS_URL", f"unix:{state / 'api.sock'}")
        monkeypatch.setenv("GPUCOMMONS_API_TOKEN", f"{by}-token")
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as leaving:  # argparse
            code = int(leaving.code or 0)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def script(home: Path) -> Path:
    """A project folder with one script in it."""
    folder = home / "project"
    folder.mkdir()
    path = folder / "train.py"
    path.write_text("print('training')\n")
    return path
