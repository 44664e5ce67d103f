"""A user namespace that root makes for a user who may make none.

What CRIU may do then counts in it alone. It is root's, so nobody of the user's can enter it; and what
runs in it is of another namespace than the user's processes outside, which have no right there. So none
of them may look into it, trace it or write its memory, whatever its threads have at that moment. Systems
that forbid such namespaces to users mostly leave them to root (AppArmor's restriction, Debian's sysctl).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gpucommons.gpu.hibernation.inside import calls
from gpucommons.gpu.hibernation.inside.tree_settings import Account

#: The kernel takes a map in one write of less than a page, of at most so many lines.
_MOST_BYTES, _MOST_LINES = 4095, 340


def enter(account: Account) -> bool:
    """Move into one in which this account has its numbers; False where there can be none.

    Raises
    ------
    OSError
        When the kernel refuses what it has just allowed.
    """
    groups = _mapped(sorted({account.gid, *account.groups}))
    if groups is None or not can_be_made():
        return False
    own = Path("/proc") / str(os.getpid())
    reader, writer = os.pipe()
    # Only who stays outside, as root, may say who is who inside.
    helper = _forked(
        lambda: _write_maps(own, f"{account.uid} {account.uid} 1\n", groups, reader, writer)
    )
    os.close(reader)
    try:
        calls.unshare(calls.NEWUSER)
        os.write(writer, b".")
    finally:
        os.close(writer)
        ended = os.waitpid(helper, 0)[1]
    if ended:
        raise PermissionError(1, "an account cannot be mapped", "user namespace")
    return True


def can_be_made() -> bool:
    """Whether root may make one here, and mount in it what a tree needs; tried with one that ends at once."""

    def mounts() -> None:
        calls.make_private()
        calls.mount("proc", "/proc", "proc", calls.NOSUID | calls.NODEV | calls.NOEXEC)

    def makes() -> None:
        calls.unshare(calls.NEWUSER | calls.NEWPID | calls.NEWNS)
        if os.waitpid(_forked(mounts), 0)[1]:
            raise PermissionError(1, "/proc cannot be mounted")

    return os.waitpid(_forked(makes), 0)[1] == 0


def _forked(does: Callable[[], None]) -> int:
    pid = os.fork()
    if not pid:
        status = 1
        try:
            does()
            status = 0
        except OSError:
            pass
        finally:
            os._exit(status)
    return pid


def _write_maps(own: Path, users: str, groups: str, reader: int, writer: int) -> None:
    os.close(writer)
    if not os.read(reader, 1):
        raise ProcessLookupError(3, "whoever asked has ended, or has no namespace")
    for name, text in (("gid_map", groups), ("uid_map", users)):
        (own / name).write_text(text, encoding="ascii")


def _mapped(numbers: list[int]) -> str | None:
    """Each as itself; None for more than the kernel takes."""
    text = "".join(f"{number} {number} 1\n" for number in numbers)
    return text if len(text) <= _MOST_BYTES and len(numbers) <= _MOST_LINES else None
