"""Ports for servers that must be told theirs before they start.

A port that the system gave and that was let go again may be somebody else's by the time the server binds
it: seconds later, while other tests do the same. These lie below those that the system gives by itself,
and each is held against all other tests on this machine for as long as this process lives.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

#: Linux gives from 32768 by itself, and Kubernetes' services have ports from 30000.
_FIRST, _LAST = 12_000, 29_999
#: By this process, to which its own locks are no hindrance.
_claimed: set[int] = set()


def free_port() -> int:
    """One that nobody listens on, and that no other test is given."""
    while True:
        port = random.randint(_FIRST, _LAST)  # noqa: S311 - no secret
        if _is_claimed(port) and _is_unused(port):
            return port


def _is_claimed(port: int) -> bool:
    """Lock the byte of this number in a file of all tests: however many ports, it is one open file."""
    if port in _claimed:
        return False
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _claimed.add(port)
    return True


@cache
def _claims() -> int:
    """Open until this process ends, and the locks with it."""
    path = Path(tempfile.gettempdir()) / f"gpucommons-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _is_unused(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
