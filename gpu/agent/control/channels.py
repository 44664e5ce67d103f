"""What the agent serves: the control socket, one socket per slice, the metrics port.

A channel owns its listener and its peers; the loop in ``server`` only tells it what is ready.
"""

from __future__ import annotations

import hmac
import selectors
import socket
from collections.abc import Callable

from gpucommons.gpu.agent.control.connections import Connection, LineTooLong
from gpucommons.gpu.connections.accepting import Acceptor
from gpucommons.gpu.connections.peer_limits import Crowds
from gpucommons.gpu.connections.unix_sockets import Peer, peer_of

#: From a scraper's first byte until it has read the answer.
SCRAPE_S = 10.0


class Channel:
    """A listener and its peers, the most recently active last."""

    #: The peer that did nothing for longest makes room for a new one.
    max_peers = 32
    max_line_bytes = 65_536
    #: Room for an hour of minutes of a few hundred slices.
    max_pending_bytes = 8 << 20

    def __init__(
        self, selector: selectors.BaseSelector, acceptor: Acceptor, listener: socket.socket
    ) -> None:
        self._selector = selector
        self._acceptor = acceptor
        self._listener = listener
        self._peers: dict[int, Connection] = {}
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """End the listener and every peer."""
        self._selector.unregister(self._listener)
        self._listener.close()
        for peer in list(self._peers.values()):
            self._drop(peer)

    def greet(self, peer: Connection) -> None:
        """Say something to a new peer; nothing by default."""

    def take(self, peer: Connection, line: bytes) -> None:
        """Handle one line; ignored by default."""

    def refuse(self, peer: Connection) -> None:
        """Tell a peer that its line is too long, before the connection ends."""

    def send(self, peer: Connection, data: bytes) -> None:
        """Send, or end the connection of a peer that does not read."""
        if peer.send(data):
            self._watch(peer)
        else:
            self._drop(peer)

    def send_all(self, data: bytes) -> None:
        """Send to every peer that stays."""
        for peer in list(self._peers.values()):
            if not peer.closing:
                self.send(peer, data)

    def end(self, peer: Connection) -> None:
        """End the connection once everything sent has left."""
        peer.closing = True
        if peer.has_pending:
            self._watch(peer)
        else:
            self._drop(peer)

    def _accept(self, _events: int) -> None:
        for accepted in self._acceptor.accept(self._listener):
            if len(self._peers) >= self.max_peers:
                self._drop(next(iter(self._peers.values())))
            peer = Connection(
                accepted,
                max_line_bytes=self.max_line_bytes,
                max_pending_bytes=self.max_pending_bytes,
            )
            self._peers[accepted.fileno()] = peer
            self._selector.register(
                accepted, selectors.EVENT_READ, lambda events, peer=peer: self._ready(peer, events)
            )
            self.greet(peer)

    def _ready(self, peer: Connection, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            if not peer.flush() or (peer.closing and not peer.has_pending):
                self._drop(peer)
                return
            self._watch(peer)
        if events & selectors.EVENT_READ and not peer.closing:
            self._receive(peer)

    def _receive(self, peer: Connection) -> None:
        try:
            lines = peer.receive()
        except LineTooLong:
            self.refuse(peer)
            self.end(peer)
            return
        if lines is None:
            self._drop(peer)
            return
        key = peer.socket.fileno()
        self._peers[key] = self._peers.pop(key)
        for line in lines:
            if peer.closing or peer.socket.fileno() < 0:
                return
            self.take(peer, line)

    def _watch(self, peer: Connection) -> None:
        """Ask for room to write only while something waits."""
        if peer.socket.fileno() < 0:
            return
        key = self._selector.get_key(peer.socket)
        # What a peer that is let go still says is not read, so it must not wake us for ever.
        events = 0 if peer.closing else selectors.EVENT_READ
        events |= selectors.EVENT_WRITE if peer.has_pending else 0
        if key.events != events:
            self._selector.modify(peer.socket, events, key.data)

    def _drop(self, peer: Connection) -> None:
        descriptor = peer.socket.fileno()
        if descriptor < 0:
            return
        self._selector.unregister(peer.socket)
        self._peers.pop(descriptor, None)
        peer.close()


class ControlChannel(Channel):
    """One request per line, one answer per line."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        acceptor: Acceptor,
        listener: socket.socket,
        answer: Callable[[bytes], bytes],
    ) -> None:
        super().__init__(selector, acceptor, listener)
        self._answer = answer

    def take(self, peer: Connection, line: bytes) -> None:
        """Answer one request."""
        self.send(peer, self._answer(line))

    def refuse(self, peer: Connection) -> None:
        """Tell a peer that its line is too long."""
        self.send(
            peer,
            b'{"ok":false,"error":"BadAgentRequest","message":'
            b'"A request must fit in one line of 64 KiB."}\n',
        )


class SliceChannel(Channel):
    """The history of one slice, then a sample a second. What a peer says is not heard."""

    max_peers = 8
    max_line_bytes = 1024
    #: The history and half an hour of samples; a peer that far behind starts again.
    max_pending_bytes = 1 << 20

    def __init__(
        self,
        selector: selectors.BaseSelector,
        acceptor: Acceptor,
        listener: socket.socket,
        history: Callable[[], bytes],
        may_see: Callable[[Peer], bool],
    ) -> None:
        super().__init__(selector, acceptor, listener)
        self._history = history
        self._may_see = may_see

    def greet(self, peer: Connection) -> None:
        """Send what happened so far, to those whom the kernel names as the slice's own."""
        who = peer_of(peer.socket)
        if who is not None and not self._may_see(who):
            self.end(peer)
            return
        self.send(peer, self._history())


class MetricsChannel(Channel):
    """Prometheus' text over the least of HTTP that its scraper needs."""

    max_line_bytes = 8192

    def __init__(
        self,
        selector: selectors.BaseSelector,
        acceptor: Acceptor,
        listener: socket.socket,
        metrics: Callable[[], bytes],
        token: str | None = None,
    ) -> None:
        super().__init__(selector, acceptor, listener)
        self._metrics = metrics
        #: None where the socket's own mode decides who may ask.
        self._token = token
        self._asking: Crowds[Connection] = Crowds(self.max_peers)

    def end_late(self, now_s: float) -> None:
        """Called again and again: whoever has not read its answer in time is gone."""
        for peer in self._peers.values():
            if peer not in self._asking:
                self._asking.add(peer, None, now_s=now_s)
        for peer in self._asking.since(now_s - SCRAPE_S):
            self._drop(peer)

    def take(self, peer: Connection, line: bytes) -> None:
        """Answer when the request's head ends."""
        if line.strip():
            peer.first_line = peer.first_line or line
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"authorization":
                peer.credential = value.strip()
            return
        status, body = self._page(peer)
        head = (
            f"HTTP/1.1 {status}\r\n"
            "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.send(peer, head.encode() + body)
        self.end(peer)

    def _drop(self, peer: Connection) -> None:
        self._asking.remove(peer)
        super()._drop(peer)

    def _page(self, peer: Connection) -> tuple[str, bytes]:
        wanted = f"Bearer {self._token}".encode()
        if self._token is not None and not hmac.compare_digest(peer.credential, wanted):
            text = b"Send the token in the agent's metrics-token: Authorization: Bearer TOKEN.\n"
            return "401 Unauthorized", text
        if peer.first_line.split()[:2] != [b"GET", b"/metrics"]:
            return "404 Not Found", b"Ask for GET /metrics.\n"
        return "200 OK", self._metrics()
