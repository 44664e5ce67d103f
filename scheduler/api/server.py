"""The HTTP server: one asyncio loop, a TCP port of this machine, and a unix socket.

Connections come from :class:`~gpucommons.gpu.connections.request_heads.HeadsFirst` with the head of their
first request; what becomes of them afterwards is bounded here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Container, Generator, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from gpucommons.gpu.connections import unix_sockets
from gpucommons.gpu.connections.peer_limits import Crowds
from gpucommons.gpu.connections.request_heads import HalfOpen, HeadsFirst
from gpucommons.scheduler.api.limits.connections import (
    READ_S,
    max_connections,
    max_half_open,
    max_idle,
)

#: Long polls end by themselves after 25 s; a shutdown does not wait for them.
_GRACEFUL_S = 2
#: A request has to be here by then, head and body; an upload may take longer.
REQUEST_S = 30.0
UPLOAD_S = 600.0
_LEAST_READ_BYTES = 16 << 10
#: Whose answer has waited for them so long is the first to make room.
_STUCK_S = 3.0
_UPLOADS = "/v1/snapshots/"


@dataclass(frozen=True, kw_only=True, slots=True)
class Quiet:
    """Connections on which nothing is done, of one server: each kind has a bound of its own."""

    #: Between two requests.
    idle: Crowds[PeerProtocol] = field(default_factory=lambda: Crowds(max_idle()))
    #: Their body is on its way.
    sending: Crowds[PeerProtocol] = field(default_factory=lambda: Crowds(max_half_open()))


class PeerProtocol(H11Protocol):
    """HTTP that remembers who is at the other end of a unix socket, and has no endless patience.

    Connections that ask nothing cost a descriptor each, and without descriptors nobody is served;
    answers that nobody reads cost memory, too. Slow requests and slow readers are cut off. Where
    there are too many connections, one makes room: whoever does not read, else the one idle for
    longest, else the one whose body has been on its way for longest.
    """

    def __init__(
        self,
        *arguments: Any,
        quiet: Quiet | None = None,
        for_others: bool = False,
        **options: Any,
    ) -> None:
        """``for_others``: one process asks for many, so who is at the other end says nothing."""
        super().__init__(*arguments, **options)
        self._for_others = for_others
        self._quiet = quiet or Quiet()
        self._peer: Hashable = None

    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _idle_since_s = 0.0
    _unread_since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Ask the kernel once per connection."""
        super().connection_made(transport)
        uid = None if self._for_others else peer_uid(transport.get_extra_info("socket"))
        self._peer = uid if uid is not None else self.client and self.client[0]
        if uid is not None:
            self.app_state = {**self.app_state, "peer_uid": uid}
        self._await_request(REQUEST_S)
        self._settle()
        if len(self.connections) > max_connections():
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        super().connection_lost(exc)
        self._quiet.idle.remove(self)
        self._quiet.sending.remove(self)
        for clock in (self._deadline, self._reading):
            if clock is not None:
                clock.cancel()

    def handle_events(self) -> None:
        """What arrived may have been the rest of a request."""
        super().handle_events()
        self._settle()

    def _settle(self) -> None:
        """Stand among those who do nothing, or no more; where there are too many, one goes."""
        for crowd, belongs in (
            (self._quiet.idle, self._is_idle),
            (self._quiet.sending, self._is_sending),
        ):
            if not belongs or self.transport.is_closing():
                crowd.remove(self)
            elif self not in crowd:
                goes = crowd.add(self, self._peer, now_s=self.loop.time())
                if goes is not None:
                    goes.transport.abort()

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
        self._settle()

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
    """The user id of the process at the other end of a unix socket; None where there is none."""
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    peer = unix_sockets.peer_of(connection)
    return None if peer is None else peer.uid


class Server(uvicorn.Server):
    """Signals belong to the process, which has more to shut down than this."""

    def __init__(
        self, config: uvicorn.Config, *, for_others: Container[socket.socket] = ()
    ) -> None:
        super().__init__(config)
        self._for_others = for_others
        self._quiet = Quiet()
        self._listening: list[HeadsFirst] = []
        self._beginning: set[asyncio.Task[Any]] = set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave them alone."""
        yield

    async def startup(self, sockets: Sequence[socket.socket] | None = None) -> None:
        """Listen, with the bounds of all endpoints instead of uvicorn's own way to accept."""
        await super().startup(sockets=[])
        bounds = HalfOpen(most=max_half_open())
        for one in sockets or ():
            begin = partial(self._begin, for_others=one in self._for_others)
            self._listening.append(HeadsFirst(one, begin, bounds=bounds))

    async def shutdown(self, sockets: Sequence[socket.socket] | None = None) -> None:
        """Take no more connections, finish those under way."""
        for one in self._listening:
            one.close()
        await super().shutdown(sockets=list(sockets or ()))

    def _begin(self, connection: socket.socket, _peer: Hashable, *, for_others: bool) -> None:
        task = asyncio.ensure_future(self._served(connection, for_others=for_others))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _served(self, connection: socket.socket, *, for_others: bool) -> None:
        loop = asyncio.get_running_loop()

        def protocol() -> PeerProtocol:
            return PeerProtocol(
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
                quiet=self._quiet,
                for_others=for_others,
                _loop=loop,
            )

        try:
            await loop.connect_accepted_socket(protocol, connection)
        except OSError:
            connection.close()  # gone meanwhile


def make_server(app: FastAPI, *, for_others: Container[socket.socket] = ()) -> Server:
    """A server for the application; ``serve(sockets=…)`` runs it until ``should_exit``.

    ``for_others``: those of the sockets at which one process asks for many others.
    """
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
    return Server(config, for_others=for_others)
