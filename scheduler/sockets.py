"""Listening sockets of the scheduler."""

from __future__ import annotations

import socket
from collections.abc import Sequence


def listen_tcp(port: int, host: str = "127.0.0.1") -> socket.socket:
    """A listening socket, of this machine alone unless told otherwise."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(256)
    except OSError:
        found.close()
        raise
    found.setblocking(False)
    return found


def close_all(sockets: Sequence[socket.socket]) -> None:
    """Close listening sockets; closing twice is harmless."""
    for one in sockets:
        one.close()
