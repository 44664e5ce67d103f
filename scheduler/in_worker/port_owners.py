"""Whose program answers at a port: on a workstation any account may have taken it first.

A framework's server is found by its port, and is told the attempt's secrets. The kernel says which
account a listener of this machine belongs to; of other machines (pods) nothing can be told from here.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

from gpucommons.scheduler.in_worker.worker_messages import NotJoined

_LISTENS = "0A"
_OF_ALL = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
_MAPPED = "::ffff:"


def ours_answers(place: tuple[str, int]) -> bool:
    """Whether somebody answers there.

    Raises
    ------
    NotJoined
        When it is a program of another account of this machine.
    """
    try:
        with socket.create_connection(place, timeout=5.0) as found:
            address, port = found.getpeername()[:2]
    except OSError:
        return False
    if _owners_here(address, port) - {os.geteuid()}:
        message = f"at {place[0]}:{place[1]} another account of this machine answers"
        raise NotJoined(message)
    return True


def _owners_here(address: str, port: int) -> set[int]:
    found: set[int] = set()
    for name in ("tcp", "tcp6"):
        try:
            table = Path("/proc/net", name).read_text()
        except OSError:
            # Not Linux, or no IPv6.
            continue
        found |= owners(table, address, port)
    return found


def owners(table: str, address: str, port: int) -> set[int]:
    """Accounts whose programs listen there, in a table of the kernel's (``/proc/net/tcp`` or ``tcp6``)."""
    found = set()
    for line in table.splitlines()[1:]:
        _, local, _, state, _, _, _, uid, *_ = line.split()
        host, _, number = local.partition(":")
        if state != _LISTENS or int(number, 16) != port:
            continue
        if _address(host) in (*_OF_ALL, address.removeprefix(_MAPPED)):
            found.add(int(uid))
    return found


def _address(digits: str) -> str:
    """Words of 32 bits, each as this machine's processor keeps them."""
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words)).removeprefix(_MAPPED)
