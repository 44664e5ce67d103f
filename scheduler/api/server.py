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

from gpucommons.scheduler.api.connections import max_connections

#: Long polls end by themselves after 25 s; a shutdown does not wait for them.
_GRACEFUL_S = 2
#: A request has to be here by then, head and body; an upload may take longer.
REQUEST_S = 30.0
UPLOAD_S = 600.0
_UPLOADS = "/v1/snapshots/"


class PeerProtocol(H11Protocol):
    """HTTP that remembers who is at the other end of a unix socket, and has no endless patience.

    Connections that ask nothing cost a descriptor each, and without descriptors nobody is served:
    slow requests are cut off, and where there are too many, the one idle for longest makes room, or
    the one whose body has been on its way for longest.
    """

    _deadline: asyncio.TimerHandle | None = None
    _idle_since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Ask the kernel once per connection."""
        super().connection_made(transport)
        uid = peer_uid(transport.get_extra_info("socket"))
        if uid is not None:
            self.app_state = {**self.app_state, "peer_uid": uid}
        self._await_request(REQUEST_S)
        if len(self.connections) > max_connections():
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def on_response_complete(self) -> None:
        """The clock runs for the next request."""
        super().on_response_complete()
        self._await_request(REQUEST_S)

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def _is_sending(self) -> bool:
        """Uploads have bounds of their own."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.more_body:
            return False
        return not self.scope["path"].startswith(_UPLOADS)

    def _await_request(self, patience_s: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._idle_since_s = self.loop.time()
        self._deadline = self.loop.call_later(patience_s, self._give_up)

    def _give_up(self) -> None:
        if self._is_idle:
            self.transport.close()
        elif self.cycle.more_body:
            began_s = self._idle_since_s
            if self.scope["path"].startswith(_UPLOADS) and self.loop.time() < began_s + UPLOAD_S:
                self._deadline = self.loop.call_later(REQUEST_S, self._give_up)
            else:
                self.transport.close()

    def _make_room(self) -> None:
        others = [
            one
            for one in self.connections
            if isinstance(one, PeerProtocol) and one is not self and not one.transport.is_closing()
        ]
        idle = [one for one in others if one._is_idle]
        slow = [one for one in others if one._is_sending]
        # Where everyone else is being served, the newcomer has to come again.
        longest = min(idle or slow, key=lambda one: one._idle_since_s, default=self)
        longest.transport.abort()


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
