"""Unix sockets whose path may be longer than the 107 bytes the kernel takes.

A state folder deep in a home plus a slice's id is soon too long; Linux reaches the same file
through an open folder.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

#: The least of what Linux (108) and macOS (104) leave for a path and its closing zero.
_MAX_PATH_BYTES = 103
_RETRY_S = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """Who is at the other end, by the kernel's word."""

    pid: int
    uid: int


def peer_of(connection: socket.socket) -> Peer | None:
    """The process that connected; None on systems that do not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, 12))
    return Peer(pid=pid, uid=uid & 0xFFFFFFFF)


def listen(path: Path, *, mode: int = 0o600, backlog: int = 16) -> socket.socket:
    """A listening, non-blocking socket in place of whatever socket an earlier run left there."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_name(path) as name:
            # The folder is private; the mode is set before anybody may connect all the same.
            before = os.umask(0o177)
            try:
                listener.bind(name)
            finally:
                os.umask(before)
        path.chmod(mode)
        listener.listen(backlog)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def connect(path: Path, *, timeout_s: float) -> socket.socket:
    """A connected socket.

    Raises
    ------
    OSError
        When nobody listens.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout_s)
    deadline_s = time.monotonic() + timeout_s
    try:
        with short_name(path) as name:
            _patiently(connection, name, deadline_s)
    except BaseException:
        connection.close()
        raise
    return connection


def _patiently(connection: socket.socket, name: str, deadline_s: float) -> None:
    """Connect; where the listener's queue is full, Linux says so at once instead of waiting."""
    while True:
        try:
            connection.connect(name)
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                raise TimeoutError("too many connections wait already") from None
            time.sleep(_RETRY_S)
        else:
            return


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """A name for the path that fits, valid inside the block."""
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
