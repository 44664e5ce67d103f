"""Calls of the Linux kernel that Python does not offer: namespaces, mounts, capabilities."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

NEWUSER, NEWTIME, NEWPID, NEWNS = 0x10000000, 0x80, 0x20000000, 0x20000
NOSUID, NODEV, NOEXEC = 2, 4, 8
_REC, _PRIVATE = 0x4000, 1 << 18
#: What CRIU needs, and only inside of the tree's own user namespace.
CHECKPOINT_RESTORE, SYS_PTRACE = 40, 19

_PDEATHSIG, _CAPBSET_DROP, _CHILD_SUBREAPER, _NO_NEW_PRIVS, _CAP_AMBIENT = 1, 24, 36, 38, 47
_AMBIENT_RAISE, _AMBIENT_CLEAR_ALL = 2, 4
_CAPABILITY_VERSION, _LAST_CAPABILITY = 0x20080522, 64


def unshare(kinds: int) -> None:
    """Move into new namespaces of these kinds.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    _check("unshare", _libc().unshare(kinds))


def make_private() -> None:
    """Nothing mounted here shows outside, and the other way round.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    mount("none", "/", "none", _REC | _PRIVATE)


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    done = _libc().mount(source.encode(), target.encode(), kind.encode(), flags, options.encode())
    _check(f"mount {kind} at {target}", done)


def die_with_parent(number: int) -> None:
    """Get this signal when the parent ends."""
    _check("prctl", _libc().prctl(_PDEATHSIG, number, 0, 0, 0))


def adopt_orphans() -> None:
    """Processes below this one whose parent ends become its children, not those of PID 1."""
    _check("prctl", _libc().prctl(_CHILD_SUBREAPER, 1, 0, 0, 0))


def keep_only(capabilities: Iterable[int]) -> None:
    """Give up every capability but these, for this process and whatever it executes.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    kept = frozenset(capabilities)
    libc = _libc()
    _check("prctl", libc.prctl(_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0))
    for number in range(_LAST_CAPABILITY):
        if number not in kept:
            libc.prctl(_CAPBSET_DROP, number, 0, 0, 0)  # numbers above the last one are refused
    _set_capabilities(sum(1 << number for number in kept))
    for number in kept:
        _check("prctl", libc.prctl(_CAP_AMBIENT, _AMBIENT_RAISE, number, 0, 0))


def no_new_privileges() -> None:
    """Nothing that is executed from here on gains a right by it."""
    _check("prctl", _libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))


def _set_capabilities(mask: int) -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = (ctypes.c_uint32 * 6)(low, low, low, high, high, high)
    _check("capset", _libc().capset(header, data))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(what: str, done: int) -> None:
    if done:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
