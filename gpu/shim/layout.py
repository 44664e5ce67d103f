"""The two files that a slice's processes and the agent share, byte by byte.

``src/layout.h`` says the same in C. The limit file belongs to the agent and is mapped read-only by
the slice's processes. The ledger belongs to the slice's user, who may truncate, grow or edit it
at any time: its readers copy it with ``pread`` and believe nothing in it that does not fit.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

#: Names inside a slice's shim folder, beside the libraries.
LIMIT_FILE = "limit"
LEDGER_FILE = "ledger"

VERSION = 1
_U64 = (1 << 64) - 1

#: magic, version, what may be allocated, how large the card is shown (both in bytes), a check of
#: both, UUID of the device (text, zero-filled). The check tells a reader of a mapping that it met
#: the middle of a change.
LIMIT = struct.Struct("<4sIQQQ96s")
LIMIT_MAGIC = b"GCLI"
#: Where limit, total and check lie, for changing them in place.
LIMIT_NUMBERS = struct.Struct("<QQQ")
LIMIT_NUMBERS_OFFSET = 8

#: magic, version, number of slots, slots ever used, refused allocations, passed unhooked.
HEADER = struct.Struct("<4sIIIQQ32x")
LEDGER_MAGIC = b"GCLE"
SLOTS = 1024
#: owner, PID namespace, image, bytes being asked for, bytes held.
SLOT = struct.Struct("<QQQQQ24x")
LEDGER_SIZE = HEADER.size + SLOTS * SLOT.size

#: An owner is one word, so that a killed process leaves it whole:
#: bit 63 = the slot is being taken, then 41 bits of start time, then 22 bits of pid.
_PID_BITS = 22
_START_BITS = 41
_TAKING = 1 << 63


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """What one process of a slice holds, as the slice's own ledger says."""

    #: In the PID namespace of the slice.
    pid: int
    #: Start of the process in clock ticks since boot; a pid alone is reused.
    start: int
    #: Inode of that PID namespace, as ``/proc/PID/ns/pid`` links to it.
    namespace: int
    used_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerView:
    """One copy of a ledger. Its user can edit it: compare with what the driver says."""

    holders: tuple[Holder, ...]
    #: Allocations refused so far.
    denied: int
    #: Calls let through whose memory is counted elsewhere or not at all (imports).
    uncounted: int

    @property
    def used_bytes(self) -> int:
        """Sum over all holders, dead ones included until somebody clears their slots."""
        return sum(holder.used_bytes for holder in self.holders)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """What the agent allows, and what it shows."""

    #: What may be allocated.
    limit_bytes: int
    #: How large the card is shown: the limit, and what contexts and code take beside it.
    total_bytes: int


def pack_limit(limit: Limit, device_uuid: str) -> bytes:
    """The whole limit file."""
    head = struct.pack("<4sI", LIMIT_MAGIC, VERSION)
    return (head + pack_numbers(limit) + device_uuid.encode("ascii")).ljust(LIMIT.size, b"\0")


def pack_numbers(limit: Limit) -> bytes:
    """The part of the limit file that changes when a slice is resized."""
    check = limit.limit_bytes ^ limit.total_bytes ^ _U64
    return LIMIT_NUMBERS.pack(limit.limit_bytes, limit.total_bytes, check)


def parse_limit(data: bytes) -> Limit | None:
    """The limit; None where the file is no limit file."""
    if len(data) != LIMIT.size:
        return None
    magic, version, limit_bytes, total_bytes, check, _ = LIMIT.unpack(data)
    if (magic, version) != (LIMIT_MAGIC, VERSION) or limit_bytes ^ total_bytes ^ check != _U64:
        return None
    return Limit(limit_bytes=limit_bytes, total_bytes=total_bytes)


def empty_ledger() -> bytes:
    """A ledger that nobody has used."""
    return HEADER.pack(LEDGER_MAGIC, VERSION, SLOTS, 0, 0, 0).ljust(LEDGER_SIZE, b"\0")


def parse_ledger(data: bytes) -> LedgerView | None:
    """What a copy of the file says; None where it is no ledger (any more)."""
    if len(data) < LEDGER_SIZE:
        return None
    magic, version, slots, _, denied, uncounted = HEADER.unpack_from(data)
    if (magic, version, slots) != (LEDGER_MAGIC, VERSION, SLOTS):
        return None
    holders = []
    for owner, namespace, _image, _asking, used in SLOT.iter_unpack(
        data[HEADER.size : LEDGER_SIZE]
    ):
        if owner and not owner & _TAKING:
            pid, start = owner & ((1 << _PID_BITS) - 1), owner >> _PID_BITS
            holders.append(Holder(pid=pid, start=start, namespace=namespace, used_bytes=used))
    return LedgerView(holders=tuple(holders), denied=denied, uncounted=uncounted)


def pack_owner(pid: int, start: int) -> int:
    """The word that names a slot's process."""
    return (start & ((1 << _START_BITS) - 1)) << _PID_BITS | pid
