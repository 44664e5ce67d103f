"""A real Jupyter Server on a free port, in the test's own event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from jupyter_server.serverapp import ServerApp
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect
from traitlets.config import Config

from gpucommons.gpu.connections.trusted_authorities import trusted_at

#: What the machine's Jupyter loads beside ours: its pages are no part of these tests, and take a third
#: of a server's start.
_OF_LAB = dict.fromkeys(("jupyter_lsp", "jupyterlab", "notebook", "notebook_shim"), False)


@dataclass
class Served:
    """The server, and a logged-in browser."""

    app: ServerApp
    http: httpx.AsyncClient

    @property
    def root(self) -> Path:
        return Path(self.app.root_dir)

    async def websocket(self, path: str, *, token: bool = True) -> WebSocketClientConnection:
        address = f"{self.http.base_url}{path}".replace("http", "ws", 1)
        headers = {"Authorization": self.http.headers["Authorization"]} if token else {}
        return await websocket_connect(HTTPRequest(address, headers=headers))


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that offers no event."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)


async def hang_up(socket: WebSocketClientConnection) -> None:
    """Close, and wait until the other side has closed."""
    socket.close()
    while await socket.read_message() is not None:
        pass


@asynccontextmanager
async def serving(
    folder: Path, monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, Any]
) -> AsyncIterator[Served]:
    """Start with these settings of ``ServerApp``, stop at the end of the block."""
    extensions = {**_OF_LAB, **settings.get("jpserver_extensions", {})}
    for variable in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(folder / variable.lower()))
    # Kernels are not kept in the home of whoever runs the tests.
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("GPUCOMMONS_HIBERNATE_KERNELS", "0")
    root = folder / "root"
    root.mkdir(exist_ok=True)
    ServerApp.clear_instance()
    app = ServerApp.instance(
        ip="127.0.0.1",
        port=0,
        open_browser=False,
        allow_root=True,
        root_dir=str(root),
        config=Config({"ServerApp": {**settings, "jpserver_extensions": extensions}}),
        log_level=logging.ERROR,
    )
    # Signals belong to the test run.
    monkeypatch.setattr(app, "init_signal", lambda: None)
    app.initialize(argv=[])
    await app._post_start()
    headers = {"Authorization": f"token {app.identity_provider.token}"}
    url = f"http://127.0.0.1:{app.port}/"
    async with httpx.AsyncClient(
        base_url=url, headers=headers, trust_env=False, verify=trusted_at(url)
    ) as client:
        yield Served(app, client)
    await app._cleanup()
    ServerApp.clear_instance()
