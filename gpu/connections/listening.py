"""Listening sockets for TCP; for unix sockets see ``gpu.unix_sockets``."""

from __future__ import annotations

import socket
from collections.abc import Iterable

#: How many may wait to be accepted; the kernel has a bound of its own.
BACKLOG = 4096


def listen_tcp(port: int, host: str = "127.0.0.1") -> socket.socket:
    """A listening socket, of this machine alone unless told otherwise."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError:
        found.close()
        raise
    found.setblocking(False)
    return found


def hold_tcp(port: int, host: str) -> socket.socket:
    """Keep a port of an IPv4 address for a server that is yet to listen at it.

    Until this is closed the system gives it to nobody who asks for any port. On Linux a server that may reuse
    its address, as nearly all do, listens beside this; so may another account that asks for this very port on
    purpose, and since Linux 6.8 can see that it is held. Who must be kept out needs a network of its own.

    Raises
    ------
    OSError
        When somebody has the port.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind((host, port))
    except OSError:
        held.close()
        raise
    return held


def close_all(sockets: Iterable[socket.socket]) -> None:
    """Close listening sockets; closing twice is harmless."""
    for one in sockets:
        one.close()
