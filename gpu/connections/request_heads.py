"""Connections are handed to a server once their first request is here, and not before.

A connection that asks nothing costs a descriptor; with a parser, a task and a timer for each, some
thousands of them cost everybody their answers. Here such a one is a socket in a list: there are at
most so many, for at most so long, and the oldest makes room for a new one. Nothing is taken from the
socket: the server behind reads the request as if it had accepted it itself. Of a body that is larger
than what the kernel keeps for us only the head is awaited; it is the server's to bound the rest.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from gpucommons.gpu.connections.accepting import Acceptor
from gpucommons.gpu.connections.peer_limits import Crowds
from gpucommons.gpu.connections.unix_sockets import peer_of

#: What is not here by then never will be.
HEAD_S = 10.0
#: More than any server behind takes.
MAX_HEAD_BYTES = 64 << 10
_AT_ONCE = 128
#: How soon a request in pieces is looked at again, at first and at last.
_LOOK_AGAIN_S, _LOOK_SELDOM_S = 0.005, 1.0
_SWEEP_S = 1.0
#: A request as large as this fits into what the kernel keeps unread.
_MAX_AWAITED_BYTES = 32 << 10
_LENGTH = re.compile(rb"\ncontent-length[ \t]*:[ \t]*([0-9]{1,9})[ \t]*\r?\n", re.IGNORECASE)
#: Its body comes only once it has been asked for.
_EXPECTS = re.compile(rb"\nexpect[ \t]*:", re.IGNORECASE)
_END_OF_HEAD = re.compile(rb"\n\r?\n")

Serve = Callable[[socket.socket, Hashable], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class HalfOpen:
    """How many connections may be without a whole request, and for how long."""

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
        """Take no more connections and end those that ask nothing; the listener stays open."""
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
            self._loop.add_reader(connection.fileno(), self._look, connection, peer)

    def _look(self, connection: socket.socket, peer: Hashable) -> None:
        """Something is here to be read for the first time, or the other end has gone."""
        # By its number: asyncio would put each socket into words to say that it is new.
        self._loop.remove_reader(connection.fileno())
        self._look_on(connection, peer, _LOOK_AGAIN_S)

    def _look_on(self, connection: socket.socket, peer: Hashable, pause_s: float) -> None:
        if connection not in self._held:
            return
        try:
            here = connection.recv(MAX_HEAD_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            here = b"?"
        except OSError:
            here = b""
        if is_whole(here):
            self._held.remove(connection)
            self._serve(connection, peer)
        elif not here or len(here) >= MAX_HEAD_BYTES:
            self._drop(connection)
        else:
            # What is peeked at stays readable: to be told again would be to be told without end.
            next_s = min(_LOOK_SELDOM_S, pause_s * 4)
            self._loop.call_later(pause_s, self._look_on, connection, peer, next_s)

    def _drop(self, connection: socket.socket) -> None:
        self._held.remove(connection)
        self._loop.remove_reader(connection.fileno())
        connection.close()

    def _sweep(self) -> None:
        for connection in self._held.since(self._loop.time() - self._bounds.head_s):
            self._drop(connection)
        self._sweeping = self._loop.call_later(_SWEEP_S, self._sweep)


def is_whole(here: bytes) -> bool:
    """Whether a request has arrived as far as it is awaited."""
    end = _END_OF_HEAD.search(here)
    if end is None:
        return False
    head = here[: end.end()]
    length = _LENGTH.search(head)
    if length is None or _EXPECTS.search(head):
        return True
    whole_bytes = end.end() + int(length[1])
    return whole_bytes > _MAX_AWAITED_BYTES or len(here) >= whole_bytes


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
