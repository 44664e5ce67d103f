"""Local sockets that called a server which has not taken the call yet: saved they are, woken they cannot be.

CRIU refuses a connection to a program outside by its other end. Here that end is nobody's yet, and it
takes the socket for one without any. The kernel tells them apart (sock_diag(7), linux/unix_diag.h).
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_SOCK_DIAG, _BY_FAMILY = 4, 20
_REQUEST_ALL = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3
_SHOW_PEER, _SHOW_ICONS = 0x4, 0x8
_PEER, _ICONS, _SHUTDOWN = 2, 3, 6
_CONNECTED, _LISTENS = 1, 10
_SHUT_BOTH = 3
_ARE_CALLED = frozenset({int(socket.SOCK_STREAM), int(socket.SOCK_SEQPACKET)})
_EVERY_STATE = 0xFFFFFFFF
_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
#: Family, protocol, padding, states, inode, what to show, cookie; and of an answer.
_ASKED, _TOLD = struct.Struct("=BBHIIIII"), struct.Struct("=BBBBIII")
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalSocket:
    """As the kernel tells it."""

    inode: int
    #: Its servers take calls; to others (datagrams) one just sends.
    is_called: bool
    state: int
    #: Its other end: 0 is one that no program has; None = there is none.
    peer: int | None
    #: Of one that listens: who has called and was not taken.
    calls: tuple[int, ...]
    is_shut: bool


def has_unaccepted_connection(pids: Iterable[int]) -> bool:
    """Whether one of these processes waits for a server that is none of them.

    What cannot be asked is not known: False.
    """
    own = frozenset(_inodes(pids))
    if not own:
        return False
    try:
        found = [one for one in _all() if one.inode in own]
    except OSError:
        return False
    between = {caller for one in found if one.state == _LISTENS for caller in one.calls}
    return any(
        one.is_called
        and one.state == _CONNECTED
        and one.peer == 0
        and not one.is_shut
        and one.inode not in between
        for one in found
    )


def _inodes(pids: Iterable[int]) -> Iterator[int]:
    for pid in pids:
        with suppress(OSError):
            for entry in (_PROC / str(pid) / "fd").iterdir():
                with suppress(OSError):
                    seen = entry.stat()
                    if stat.S_ISSOCK(seen.st_mode):
                        yield seen.st_ino


def _all() -> Iterator[LocalSocket]:
    """Every local socket of this network namespace."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as line:
        show = _SHOW_PEER | _SHOW_ICONS
        asked = _ASKED.pack(socket.AF_UNIX, 0, 0, _EVERY_STATE, 0, show, 0, 0)
        length = _HEADER.size + len(asked)
        line.send(_HEADER.pack(length, _BY_FAMILY, _REQUEST_ALL, 1, 0) + asked)
        while True:
            data = line.recv(_CHUNK_BYTES)
            for kind, body in _messages(data):
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    number = -struct.unpack_from("=i", body)[0]
                    raise OSError(number, os.strerror(number))
                yield _read(body)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        yield kind, data[at + _HEADER.size : at + length]
        at += _aligned(length)


def _read(body: bytes) -> LocalSocket:
    _, kind, state, _, inode, _, _ = _TOLD.unpack_from(body)
    told = _attributes(body[_TOLD.size :])
    calls = told.get(_ICONS, b"")
    return LocalSocket(
        inode=inode,
        is_called=kind in _ARE_CALLED,
        state=state,
        peer=struct.unpack("=I", told[_PEER])[0] if _PEER in told else None,
        calls=struct.unpack(f"={len(calls) // 4}I", calls),
        is_shut=told.get(_SHUTDOWN, b"\0")[0] == _SHUT_BOTH,
    )


def _attributes(data: bytes) -> Mapping[int, bytes]:
    found, at = {}, 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            break
        found[kind] = data[at + _ATTRIBUTE.size : at + length]
        at += _aligned(length)
    return found


def _aligned(length: int) -> int:
    return (length + 3) & ~3
