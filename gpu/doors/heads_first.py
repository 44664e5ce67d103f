"""Connections are handed to a server once the head of their first request is here, and not before.

A connection that asks nothing costs a descriptor; with a parser, a task and a timer for each, some
thousands of them cost everybody their answers. Here such a one is a socket in a list: there are at
most so many, for at most so long, and the oldest makes room for a new one. Nothing is taken from the
socket: the server behind reads the request as if it had accepted it itself.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from gpucommons.gpu.doors.crowds import Crowds
from gpucommons.gpu.doors.spare import Acceptor
from gpucommons.gpu.unix_sockets import peer_of

#: A head that is not here by then never will be.
HEAD_S = 10.0
#: More than any server behind takes.
MAX_HEAD_BYTES = 64 << 10
_AT_ONCE = 64
#: How soon a head in pieces is looked at again, at first and at last.
_LOOK_AGAIN_S, _LOOK_SELDOM_S = 0.005, 1.0
_SWEEP_S = 1.0
_END_OF_HEAD = re.compile(rb"\n\r?\n")

Serve = Callable[[socket.socket, Hashable], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class HalfOpen:
    """How many connections may be without a whole head, and for how long."""

    most: int = 1024
    head_s: float = HEAD_S


class HeadsFirst:
    """Accepts on one listener, inside a running asyncio loop, until :meth:`close`."""

    def __init__(
        self, listener: socket.socket, serve: Serve, *, bounds: HalfOpen | None = None
    ) -> None:
        self._bounds = bounds or HalfOpen()
        self._listener = listener
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._acceptor = Acceptor(at_once=_AT_ONCE)
        self._held: Crowds[socket.socket] = Crowds(self._bounds.most)
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept)
        self._sweeping = self._loop.call_later(_SWEEP_S, self._sweep)

    def __len__(self) -> int:
        return len(self._held)

    def close(self) -> None:
        """Take no more connections and end those whose head is not here; the listener stays open."""
        self._sweeping.cancel()
        self._loop.remove_reader(self._listener)
        for connection in self._held:
            self._drop(connection)
        self._acceptor.close()

    def _accept(self) -> None:
        for connection in self._acceptor.accept(self._listener):
            connection.setblocking(False)
            try:
                peer = peer_name(connection)
            except OSError:
                connection.close()  # it is gone already
                continue
            goes = self._held.add(connection, peer, now_s=self._loop.time())
            if goes is not None:
                self._drop(goes)
            self._loop.add_reader(connection, self._look, connection, peer)

    def _look(self, connection: socket.socket, peer: Hashable) -> None:
        """Something is here to be read for the first time, or the other end has gone."""
        self._loop.remove_reader(connection)
        self._look_on(connection, peer, _LOOK_AGAIN_S)

    def _look_on(self, connection: socket.socket, peer: Hashable, pause_s: float) -> None:
        if connection not in self._held:
            return
        try:
            head = connection.recv(MAX_HEAD_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            head = b"?"
        except OSError:
            head = b""
        if _END_OF_HEAD.search(head):
            self._held.remove(connection)
            self._serve(connection, peer)
        elif not head or len(head) >= MAX_HEAD_BYTES:
            self._drop(connection)
        else:
            # What is peeked at stays readable: to be told again would be to be told without end.
            next_s = min(_LOOK_SELDOM_S, pause_s * 2)
            self._loop.call_later(pause_s, self._look_on, connection, peer, next_s)

    def _drop(self, connection: socket.socket) -> None:
        self._held.remove(connection)
        self._loop.remove_reader(connection)
        connection.close()

    def _sweep(self) -> None:
        for connection in self._held.since(self._loop.time() - self._bounds.head_s):
            self._drop(connection)
        self._sweeping = self._loop.call_later(_SWEEP_S, self._sweep)


def peer_name(connection: socket.socket) -> Hashable:
    """Whom a connection is counted to: an account of this machine, else an address.

    Raises
    ------
    OSError
        When the other end is gone.
    """
    if connection.family == socket.AF_UNIX:
        peer = peer_of(connection)
        return None if peer is None else peer.uid
    return str(connection.getpeername()[0])
