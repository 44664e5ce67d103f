"""Listening sockets of the scheduler."""

from __future__ import annotations

import socket
from collections.abc import Sequence


def close_all(sockets: Sequence[socket.socket]) -> None:
    """Close listening sockets; closing twice is harmless."""
    for one in sockets:
        one.close()
