"""Calls of the Linux kernel that Python does not offer: namespaces, mounts, capabilities."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

NEWUSER, NEWTIME, NEWPID, NEWNS = 0x10000000, 0x80, 0x20000000, 0x20000
NOSUID, NODEV, NOEXEC = 2, 4, 8
BIND = 0x1000 | 0x4000
_REC, _PRIVATE, _DETACH = 0x4000, 1 << 18, 2
#: What CRIU needs, and only inside of the tree's own user namespace.
CHECKPOINT_RESTORE, SYS_PTRACE = 40, 19
#: What the start of a tree needs besides, where root starts it.
SETPCAP, SYS_ADMIN, SYS_TIME = 8, 21, 25
#: What root's program above a server needs besides.
KILL, SETGID, SETUID = 5, 6, 7

_SET_DUMPABLE, _KEEPCAPS, _CAPBSET_READ = 4, 8, 23
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


def unmount(target: str) -> None:
    """Take what is mounted there away from the path; whoever has it open keeps it.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    _check(f"umount {target}", _libc().umount2(target.encode(), _DETACH))


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
    bound_to(kept)
    set_capabilities(permitted=kept, effective=kept, inheritable=kept)
    for number in kept:
        _check("prctl", libc.prctl(_CAP_AMBIENT, _AMBIENT_RAISE, number, 0, 0))


def bound_to(capabilities: Iterable[int]) -> None:
    """Nothing that is executed from here on gets any other than these."""
    kept = frozenset(capabilities)
    for number in range(_LAST_CAPABILITY):
        if number not in kept:
            _libc().prctl(_CAPBSET_DROP, number, 0, 0, 0)  # numbers above the last one are refused


def no_new_privileges() -> None:
    """Nothing that is executed from here on gains a right by it."""
    _check("prctl", _libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))


def may_have(capability: int) -> bool:
    """Whether the kernel knows this capability, and leaves it to this process."""
    return bool(_libc().prctl(_CAPBSET_READ, capability, 0, 0, 0) == 1)


def keep_over_change_of_user() -> None:
    """Capabilities stay permitted when root becomes somebody else."""
    _check("prctl", _libc().prctl(_KEEPCAPS, 1, 0, 0, 0))


def can_be_looked_at(yes: bool) -> None:
    """Whether others of the same user may look into this process, as far as they have its rights."""
    _check("prctl", _libc().prctl(_SET_DUMPABLE, int(yes), 0, 0, 0))


def permitted() -> frozenset[int]:
    """The capabilities that this process may use.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    header, data = _capability_header(), (ctypes.c_uint32 * 6)()
    _check("capget", _libc().capget(header, data))
    mask = data[1] | data[4] << 32
    return frozenset(number for number in range(_LAST_CAPABILITY) if mask >> number & 1)


def set_capabilities(
    *, permitted: Iterable[int], effective: Iterable[int], inheritable: Iterable[int] = ()
) -> None:
    """Set what this process may use, has in use, and hands on by `exec`.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    masks = [sum(1 << each for each in kept) for kept in (effective, permitted, inheritable)]
    halves = [*(mask & 0xFFFFFFFF for mask in masks), *(mask >> 32 for mask in masks)]
    _check("capset", _libc().capset(_capability_header(), (ctypes.c_uint32 * 6)(*halves)))


def _capability_header() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(what: str, done: int) -> None:
    if done:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
