"""What reaches a scheduler that stands by goes on to the one that leads, through a socket in their folder.

A Service sends it half of all requests as soon as it is ready. Where both share a folder and not a node,
nobody listens at that socket: then it goes to the address that the leader wrote beside it. Whoever comes
through these sockets is who it would be at the TCP port: the kernel's word on the other end is that of the
scheduler that stands by.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from gpucommons.gpu.connections import open_file_limit, unix_sockets
from gpucommons.gpu.connections.peer_limits import Crowds
from gpucommons.gpu.connections.request_heads import MAX_HEAD_BYTES, HalfOpen, HeadsFirst
from gpucommons.scheduler.api.limits.connections import READ_S, max_half_open
from gpucommons.scheduler.files.durable_files import write_whole

#: Until the one that leads is reached, or an answer of our own is taken.
_PATIENCE_S = 2.0
#: Who takes less of an answer in `READ_S` is cut off, as where it comes from.
_PIECE_BYTES = 16 << 10

_ADDRESS = "leader.json"

#: An answer of our own by the path of a request; None: it is the leader's to answer.
Own = Callable[[bytes], bytes | None]


def api_socket(state: Path) -> Path:
    """Where the one that leads takes forwarded calls of its API."""
    return state / "forwarded.sock"


def pages_socket(state: Path) -> Path:
    """Where it takes forwarded calls of its pages."""
    return state / "pages.sock"


def publish(state: Path, url: str, *, pages_port: int) -> None:
    """Write down where we, who lead now, are reached from another node; "" = nowhere."""
    if not url:
        (state / _ADDRESS).unlink(missing_ok=True)
        return
    host, port = _host_and_port(url)
    said = {"host": host, "api": port, "pages": pages_port}
    write_whole(state / _ADDRESS, json.dumps(said).encode())


def published(state: Path, what: str, *, own_url: str = "") -> tuple[str, int] | None:
    """Host and port at which the one that leads takes calls of its ``api`` or ``pages``; None: it did not say.

    None as well where we are reached there ourselves, at ``own_url``: we led until our container was started
    anew, and whoever leads now has not written yet. What we forward would come back to us for ever.
    """
    try:
        said = json.loads((state / _ADDRESS).read_text())
        host, api, wanted = str(said["host"]), int(said["api"]), int(said[what])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_own = bool(own_url) and (host, api) == _host_and_port(own_url)
    return None if is_own else (host, wanted)


def _host_and_port(url: str) -> tuple[str | None, int]:
    found = urlsplit(url)
    return found.hostname, found.port or 80


def most_calls() -> int:
    """How many of the API may be forwarded at once, with two descriptors each; of the pages half as many.

    Some may be under way still when we lead: with all that we may then have ourselves they fit into
    what this process may have open.
    """
    return open_file_limit.limit() // 16


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaderAddress:
    """Where the one that leads is reached: on this node, else over the network."""

    here: Path
    elsewhere: Callable[[], tuple[str, int] | None] = lambda: None

    def connect(self) -> socket.socket:
        """Raises OSError where it is not reached."""
        try:
            return unix_sockets.connect(self.here, timeout_s=_PATIENCE_S)
        except OSError:
            address = self.elsewhere()
            if address is None:
                raise
            return socket.create_connection(address, timeout=_PATIENCE_S)


def leaders_api(state: Path, *, own_url: str) -> LeaderAddress:
    """The API of the one that leads, which we do not."""
    elsewhere = partial(published, state, "api", own_url=own_url)
    return LeaderAddress(here=api_socket(state), elsewhere=elsewhere)


def leaders_pages(state: Path, *, own_url: str) -> LeaderAddress:
    """Its pages."""
    elsewhere = partial(published, state, "pages", own_url=own_url)
    return LeaderAddress(here=pages_socket(state), elsewhere=elsewhere)


class Forwarding:
    """Serves who comes to one listener, inside a running loop, with the bounds of all endpoints."""

    def __init__(
        self, listener: socket.socket, to: LeaderAddress, *, own: Own, unanswered: bytes, most: int
    ) -> None:
        """``unanswered``: said where nobody listens at ``to``."""
        self._listener = listener
        self._to = to
        self._own = own
        self._unanswered = unanswered
        self._loop = asyncio.get_running_loop()
        self._serving: Crowds[asyncio.Task[None]] = Crowds(most)
        self._ending: asyncio.TimerHandle | None = None
        bounds = HalfOpen(most=max_half_open())
        self._listening = HeadsFirst(listener, self._begin, bounds=bounds)

    def __len__(self) -> int:
        return len(self._serving)

    def take_no_more(self) -> None:
        """Close the listener; who is served has ``READ_S`` more, which the one that led has not."""
        if self._ending is None:
            self._listening.close()
            self._listener.close()
            self._ending = self._loop.call_later(READ_S, self._cut_off)

    async def end(self) -> None:
        """Take no more, and let go of who is still connected."""
        self.take_no_more()
        if self._ending is not None:
            self._ending.cancel()
        await asyncio.gather(*self._cut_off(), return_exceptions=True)

    def _cut_off(self) -> list[asyncio.Task[None]]:
        served = list(self._serving)
        for task in served:
            task.cancel()
        return served

    def _begin(self, connection: socket.socket, peer: Hashable) -> None:
        task = self._loop.create_task(self._serve(connection))
        task.add_done_callback(self._serving.remove)
        # Also of one that is cancelled before its first step.
        task.add_done_callback(lambda _done: connection.close())
        goes = self._serving.add(task, peer, now_s=self._loop.time())
        if goes is not None:
            goes.cancel()

    async def _serve(self, caller: socket.socket) -> None:
        """Answer, or pass on until the one that answers closes."""
        with contextlib.suppress(OSError):
            head = caller.recv(MAX_HEAD_BYTES)
            words = head.split(None, 2)
            answer = self._own(words[1] if len(words) > 1 else b"")
            if answer is None and not await self._passed_on(head, caller):
                answer = self._unanswered
            if answer is not None:
                await asyncio.wait_for(self._loop.sock_sendall(caller, answer), _PATIENCE_S)

    async def _passed_on(self, head: bytes, caller: socket.socket) -> bool:
        try:
            leader = await asyncio.to_thread(self._to.connect)
        except OSError:
            return False
        with leader:
            leader.setblocking(False)
            # What the leader refuses to read must not keep us from its answer.
            asked = self._loop.create_task(self._copy(caller, leader, begun=head))
            try:
                await self._copy(leader, caller)
            finally:
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
        return True

    async def _copy(self, source: socket.socket, to: socket.socket, *, begun: bytes = b"") -> None:
        """Everything until the end, which is passed on too.

        Raises
        ------
        OSError
            When a piece of it is not taken in time, or one of the two has gone.
        """
        piece = begun or await self._loop.sock_recv(source, _PIECE_BYTES)
        while piece:
            await asyncio.wait_for(self._loop.sock_sendall(to, piece), READ_S)
            piece = await self._loop.sock_recv(source, _PIECE_BYTES)
        to.shutdown(socket.SHUT_WR)
