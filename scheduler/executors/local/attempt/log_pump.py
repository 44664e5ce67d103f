"""From workers' pipes to their logs: capped, without a thread, woken by any signal.

A full log ends with a line that says so; the worker goes on printing into nothing. So it does while
the disk takes nothing: no job ends because somebody else filled it.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_CHUNK_BYTES = 1 << 16
#: One turn moves at most so many chunks of each pipe (more than a pipe can hold), so that whoever
#: prints without end does not keep the supervisor from its orders.
_ROUNDS = 32
_LOST = b"\n[gpucommons: the disk was full; some of what was printed is missing here]\n"
_FULL = b"\n[gpucommons: the log is full; what follows is not kept]\n"


@dataclass(slots=True)
class _Log:
    descriptor: int
    left_bytes: int
    #: Something could not be written since the last time that it could.
    lost: bool = False


class Pump:
    """Moves bytes; :meth:`turn` returns after a while, or at once when a signal arrives."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._selector = selectors.DefaultSelector()
        self._wake, woken = socket.socketpair()
        self._woken = woken
        for end in (self._wake, woken):
            end.setblocking(False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: None)

    def add(self, pipe: IO[bytes], path: Path) -> None:
        """Pump this pipe into that log."""
        os.set_blocking(pipe.fileno(), False)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        log = _Log(os.open(path, flags, 0o600), self._max_bytes)
        self._selector.register(pipe, selectors.EVENT_READ, log)

    def turn(self, patience_s: float) -> None:
        """Wait for something to move and move what there is, within bounds."""
        ready = self._selector.select(patience_s)
        for _ in range(_ROUNDS):
            if not ready:
                return
            moved = False
            for key, _ in ready:
                if key.data is None:
                    self._drain_wake()
                else:
                    moved |= self._move(key)
            ready = self._selector.select(0) if moved else []

    def _drain_wake(self) -> None:
        try:
            self._wake.recv(4096)
        except BlockingIOError:
            return

    def _move(self, key: selectors.SelectorKey) -> bool:
        try:
            chunk = os.read(key.fd, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        log: _Log = key.data
        if not chunk:
            self._selector.unregister(key.fileobj)
            os.close(log.descriptor)
            return False
        _keep(log, chunk)
        return True

    def close(self) -> None:
        """Close all logs."""
        signal.set_wakeup_fd(-1)
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                os.close(key.data.descriptor)
        self._selector.close()
        self._wake.close()
        self._woken.close()


def _keep(log: _Log, chunk: bytes) -> None:
    kept = chunk[: log.left_bytes]
    if not kept:
        return
    full = _FULL if len(kept) < len(chunk) else b""
    text = (_LOST if log.lost else b"") + kept + full
    try:
        log.lost = os.write(log.descriptor, text) < len(text)
    except OSError:
        log.lost = True
        return
    log.left_bytes -= len(kept)
