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
#: Who reads an answer takes some of it in this time: what nobody takes would fill the memory here.
READ_S = 30.0
_LEAST_READ_BYTES = 16 << 10
#: Whose answer has waited for them so long is the first to make room.
_STUCK_S = 3.0
_UPLOADS = "/v1/snapshots/"


class PeerProtocol(H11Protocol):
    """HTTP that remembers who is at the other end of a unix socket, and has no endless patience.

    Connections that ask nothing cost a descriptor each, and without descriptors nobody is served;
    answers that nobody reads cost memory, too. Slow requests and slow readers are cut off. Where
    there are too many connections, one makes room: whoever does not read, else the one idle for
    longest, else the one whose body has been on its way for longest.
    """

    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _idle_since_s = 0.0
    _unread_since_s = 0.0

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
        """Stop the clocks."""
        super().connection_lost(exc)
        for clock in (self._deadline, self._reading):
            if clock is not None:
                clock.cancel()

    def pause_writing(self) -> None:
        """The other end is behind: from now on it is seen whether it reads at all."""
        super().pause_writing()
        self._unread_since_s = self.loop.time()
        self._await_reader()

    def resume_writing(self) -> None:
        """It has caught up."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def _await_reader(self) -> None:
        unread_bytes = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(READ_S, self._see_reader, unread_bytes)

    def _see_reader(self, before_bytes: int) -> None:
        if before_bytes - self.transport.get_write_buffer_size() < _LEAST_READ_BYTES:
            self.transport.abort()
        else:
            self._await_reader()

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

    @property
    def _is_stuck(self) -> bool:
        """It only waits for its other end to read."""
        if self.transport.is_closing():
            return True
        return self.flow.write_paused and self._unread_since_s + _STUCK_S <= self.loop.time()

    def _give_up(self) -> None:
        if self._is_idle:
            self._hang_up()
        elif self.cycle.more_body:
            began_s = self._idle_since_s
            if self.scope["path"].startswith(_UPLOADS) and self.loop.time() < began_s + UPLOAD_S:
                self._deadline = self.loop.call_later(REQUEST_S, self._give_up)
            else:
                self._hang_up()

    def _hang_up(self) -> None:
        """A transport that is closed waits for its other end to read all of the last answer."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _make_room(self) -> None:
        others = [
            one for one in self.connections if isinstance(one, PeerProtocol) and one is not self
        ]
        stuck = [one for one in others if one._is_stuck]
        idle = [one for one in others if one._is_idle]
        slow = [one for one in others if one._is_sending]
        behind = [one for one in others if one.flow.write_paused]
        # Where everyone else is being served, the newcomer has to come again.
        candidates = stuck or idle or slow or behind
        longest = min(candidates, key=lambda one: one._idle_since_s, default=self)
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
