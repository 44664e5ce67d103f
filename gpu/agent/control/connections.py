"""One accepted connection: lines in, bytes out, both within bounds, never blocking.

A peer that sends without end, reads without haste or does nothing at all costs the agent a known
amount of memory and nothing else.
"""

from __future__ import annotations

import socket
from contextlib import suppress


class LineTooLong(Exception):
    """The peer sent more than a line may hold."""


class Connection:
    """A non-blocking socket with its two buffers."""

    def __init__(self, peer: socket.socket, *, max_line_bytes: int, max_pending_bytes: int) -> None:
        peer.setblocking(False)
        self.socket = peer
        self._max_line_bytes = max_line_bytes
        self._max_pending_bytes = max_pending_bytes
        self._received = bytearray()
        self._pending = bytearray()
        #: True when everything sent should leave before the connection ends.
        self.closing = False
        #: For a protocol whose requests take several lines.
        self.first_line = b""
        #: What it named to be let in.
        self.credential = b""

    @property
    def has_pending(self) -> bool:
        """Whether bytes wait for the peer to read."""
        return bool(self._pending)

    def receive(self) -> list[bytes] | None:
        """The complete lines that arrived; None when the peer is gone.

        Raises
        ------
        LineTooLong
            When the bytes without an end exceed the bound.
        """
        try:
            # No more than one line may have: a flood of empty ones is taken in small portions.
            chunk = self.socket.recv(self._max_line_bytes)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not chunk:
            return None
        self._received += chunk
        *lines, rest = self._received.split(b"\n")
        if len(rest) > self._max_line_bytes:
            raise LineTooLong
        self._received = rest
        return [bytes(line) for line in lines]

    def send(self, data: bytes) -> bool:
        """Send now or later; False when the peer is gone or reads too slowly."""
        if len(self._pending) + len(data) > self._max_pending_bytes:
            return False
        self._pending += data
        return self.flush()

    def flush(self) -> bool:
        """Send what waits, as far as the peer takes it; False when the peer is gone."""
        while self._pending:
            try:
                sent = self.socket.send(self._pending)
            except BlockingIOError:
                return True
            except OSError:
                return False
            del self._pending[:sent]
        return True

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self.socket.close()
