"""Ports for servers that must be told theirs before they start.

A port that the system gave and that was let go again may be somebody else's by the time the server binds
it: seconds later, while other tests do the same. These lie below those that the system gives by itself,
and each is held against all other tests on this machine for as long as this process lives.
"""

from __future__ import annotations

import random
import socket

#: Linux gives from 32768 by itself, and Kubernetes' services have ports from 30000.
_FIRST, _LAST = 12_000, 29_999


def free_port() -> int:
    """One that nobody listens on, and that no other test is given."""
    while True:
        port = random.randint(_FIRST, _LAST)  # noqa: S311 - no secret
        if _is_claimed(port) and _is_unused(port):
            return port


def _is_claimed(port: int) -> bool:
    if not hasattr(socket, "SOCK_CLOEXEC"):
        return True  # no names of Linux alone
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0gpucommons-test-port-{port}")
    except OSError:
        claim.close()
        return False
    claim.detach()  # held until this process ends
    return True


def _is_unused(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
