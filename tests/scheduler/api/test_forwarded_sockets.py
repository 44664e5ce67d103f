"""Who is at the other end of a unix socket is who asks, unless the server was told that it asks for others."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request

from gpucommons.gpu.connections import unix_sockets
from gpucommons.scheduler.api.server import make_server


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: names of unix sockets are limited."""
    made = Path(tempfile.mkdtemp(prefix="gc"))
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("name", ["forwarded.sock", "another.sock"])
async def test_the_server_is_told_at_which_socket_nobody_is_the_operator(
    folder: Path, name: str
) -> None:
    app = FastAPI()

    @app.get("/who")
    def who(request: Request) -> int | None:
        return getattr(request.state, "peer_uid", None)

    own, forwarded = folder / "own" / name, folder / "others" / name
    own.parent.mkdir()
    forwarded.parent.mkdir()
    listening = [unix_sockets.listen(own), unix_sockets.listen(forwarded)]
    server = make_server(app, for_others=listening[1:])
    running = asyncio.create_task(server.serve(sockets=listening))
    found = []
    for path in (own, forwarded):
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            found.append((await client.get("/who")).json())
    server.should_exit = True
    await running
    for one in listening:
        one.close()
    assert found == [os.getuid(), None]
