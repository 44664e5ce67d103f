"""The HTTP server: one asyncio loop, a TCP port of this machine, and a unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Generator
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Long polls end by themselves after 25 s; a shutdown does not wait for them.
_GRACEFUL_S = 2


class PeerProtocol(H11Protocol):
    """HTTP that remembers who is at the other end of a unix socket."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Ask the kernel once per connection."""
        super().connection_made(transport)
        uid = peer_uid(transport.get_extra_info("socket"))
        if uid is not None:
            self.app_state = {**self.app_state, "peer_uid": uid}


def peer_uid(connection: Any) -> int | None:
    """The user id of the process at the other end; None for anything but a unix socket."""
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)


class Server(uvicorn.Server):
    """Signals belong to the process, which has more to shut down than this."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave them alone."""
        yield


def make_server(app: FastAPI) -> Server:
    """A server for the application; ``serve(sockets=…)`` runs it until ``should_exit``."""
    config = uvicorn.Config(
        app,
        http=PeerProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACEFUL_S,
        timeout_keep_alive=30,
    )
    return Server(config)
