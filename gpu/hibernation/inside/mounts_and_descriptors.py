"""What a tree stands on: its own mounts, its own descriptors, no rights."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gpucommons.gpu.hibernation.inside import calls
from gpucommons.gpu.hibernation.inside.by_root import rights
from gpucommons.gpu.hibernation.inside.tree_settings import Account, TreeSettings
from gpucommons.gpu.linux.signals import hear_all

_OUTPUTS = (1, 2)
_MOST_DESCRIPTORS = 1 << 16
#: Every system has it, and a tree gets another one in its place.
_COVERED = "/proc"
#: Far more than ten thousand threads need, and than CRIU's log: an image that needs more is refused.
_UNSEEN_BYTES = 256 << 20
#: A process of the machine outside: inside its number means nothing.
_OF_OUTSIDE = ("JPY_PARENT_PID",)


def prepare(settings: TreeSettings) -> int | None:
    """Mount what a tree has for itself, and open again whatever was opened outside.

    Answers of a tree that root lets wake: a folder for what decides its rights; else None.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    unseen = None
    if settings.account is None:
        _mount()
    else:
        with rights.in_use(calls.SYS_ADMIN):
            calls.make_private()
            if settings.wake:
                unseen = _unseen_folder(settings.account)
            _mount()
        rights.keep_until_started()
    if not settings.has_order:
        _reopen(0, os.open(os.devnull, os.O_RDONLY))
    for number in _OUTPUTS:
        if settings.output is not None:
            _reopen(number, _for_appending(settings.output))
        else:
            _open_again(number)
    return unseen


def _unseen_folder(account: Account) -> int:
    """A folder in memory that no path leads to: whoever has this descriptor, and nobody else, gets in.

    Others of the same user cannot take it from a process that has more rights than they have.
    """
    options = f"mode=0700,uid={account.uid},gid={account.gid},size={_UNSEEN_BYTES}"
    calls.mount("tmpfs", _COVERED, "tmpfs", calls.NOSUID | calls.NODEV, options)
    unseen = os.open(_COVERED, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    calls.unmount(_COVERED)
    return unseen


def _mount() -> None:
    calls.make_private()
    closed = calls.NOSUID | calls.NODEV | calls.NOEXEC
    calls.mount("proc", "/proc", "proc", closed)
    # Named shared memory goes with the image, terminals wake where they are the tree's own.
    if Path("/dev/shm").is_dir():  # noqa: S108 - the kernel's place for shared memory
        calls.mount("tmpfs", "/dev/shm", "tmpfs", closed, "mode=1777")  # noqa: S108 - as above
    if Path("/dev/pts").is_dir():
        options = "newinstance,ptmxmode=0666,mode=0600"
        calls.mount("devpts", "/dev/pts", "devpts", calls.NOSUID | calls.NOEXEC, options)


def pipes() -> dict[int, str]:
    """The caller's pipes among our outputs, as CRIU names them."""
    return {
        number: f"pipe:[{found.st_ino}]"
        for number in _OUTPUTS
        if stat.S_ISFIFO((found := os.fstat(number)).st_mode)
    }


def let_go_of_order(settings: TreeSettings) -> None:
    """What the command is told, and tells, is between it and the caller."""
    if settings.has_order:
        _reopen(0, os.open(os.devnull, os.O_RDONLY))
    for number in settings.handed:
        os.close(number)


def let_go_of_output() -> None:
    """Whoever reads what the tree prints waits for the tree alone, not for PID 1."""
    for number in _OUTPUTS:
        _reopen(number, os.open(os.devnull, os.O_WRONLY))


def close_others(handed: Iterable[int] = ()) -> None:
    """Close every descriptor above the first three but these."""
    before = 3
    for number in sorted(handed):
        os.closerange(before, number)
        before = number + 1
    os.closerange(before, _MOST_DESCRIPTORS)


def become(settings: TreeSettings) -> None:
    """Turn this process, the first of a tree, into its command, without any right.

    Raises
    ------
    OSError
        When there is no such command.
    """
    os.setsid()
    calls.adopt_orphans()  # else daemons would hang under PID 1, and be no part of the image
    close_others(settings.handed)
    environ = {name: value for name, value in os.environ.items() if name not in _OF_OUTSIDE}
    if settings.preload:
        load_first(settings.preload, environ)
    rights.let_go(settings)
    calls.no_new_privileges()
    hear_all()
    os.execvpe(settings.command[0], settings.command, environ)  # noqa: S606 - there is no shell to want


def load_first(library: str, environ: dict[str, str]) -> None:
    """Have whatever gets these variables load this library before those that they name."""
    before = environ.get("LD_PRELOAD")
    environ["LD_PRELOAD"] = f"{library}:{before}" if before else library


def _open_again(number: int) -> None:
    """Open a file of the caller's by its path: what hangs on their mounts cannot be saved."""
    with suppress(OSError):
        found = os.fstat(number)
        if stat.S_ISREG(found.st_mode) or stat.S_ISCHR(found.st_mode):
            kept = os.O_APPEND | os.O_ACCMODE
            flags = fcntl.fcntl(number, fcntl.F_GETFL) & kept
            again = os.open(Path(f"/proc/self/fd/{number}").readlink(), flags | os.O_NOCTTY)
            if stat.S_ISREG(found.st_mode):
                os.lseek(again, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
            _reopen(number, again)
            return
    with suppress(OSError):
        os.fstat(number)
        return
    _reopen(number, os.open(os.devnull, os.O_WRONLY))


def _for_appending(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def _reopen(number: int, opened: int) -> None:
    os.dup2(opened, number)
    if opened != number:
        os.close(opened)
