"""Accepting connections even when the process is out of file descriptors.

One descriptor is kept in reserve: without it a full table would leave the listener readable for ever,
and a loop that tries again and again, and says so each time.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

#: Whoever connects as fast as they are accepted must not keep others from being served.
_MAX_AT_ONCE = 16


class Acceptor:
    """Accepts from listeners of one process."""

    def __init__(self, *, at_once: int = _MAX_AT_ONCE) -> None:
        self._at_once = at_once
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def accept(self, listener: socket.socket) -> Iterator[socket.socket]:
        """The connections that wait, as far as there is room; of a flood, so many at a time."""
        for _ in range(self._at_once):
            try:
                peer, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError:
                self._turn_away(listener)
                return
            yield peer

    def close(self) -> None:
        """Let go of the reserve."""
        # Forgotten before anything else: by the next time its number may be another file's.
        spare, self._spare = self._spare, None
        if spare is not None:
            os.close(spare)

    def _turn_away(self, listener: socket.socket) -> None:
        self.close()
        with suppress(OSError):
            listener.accept()[0].close()
        with suppress(OSError):  # another thread had it first
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
