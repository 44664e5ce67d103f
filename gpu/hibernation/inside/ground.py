"""The ground that a tree stands on: its own mounts, its own descriptors, no rights."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

from gpucommons.gpu.hibernation.inside import calls
from gpucommons.gpu.hibernation.inside.settings import Settings
from gpucommons.gpu.linux.signals import hear_all

_OUTPUTS = (1, 2)
_MOST_DESCRIPTORS = 1 << 16
#: A process of the machine outside: inside its number means nothing.
_OF_OUTSIDE = ("JPY_PARENT_PID",)


def prepare(output: Path | None) -> None:
    """Mount what a tree has for itself, and open again whatever was opened outside.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    calls.make_private()
    closed = calls.NOSUID | calls.NODEV | calls.NOEXEC
    calls.mount("proc", "/proc", "proc", closed)
    # Named shared memory goes with the image, terminals wake where they are the tree's own.
    if Path("/dev/shm").is_dir():  # noqa: S108 - the kernel's place for shared memory
        calls.mount("tmpfs", "/dev/shm", "tmpfs", closed, "mode=1777")  # noqa: S108 - as above
    if Path("/dev/pts").is_dir():
        options = "newinstance,ptmxmode=0666,mode=0600"
        calls.mount("devpts", "/dev/pts", "devpts", calls.NOSUID | calls.NOEXEC, options)
    _reopen(0, os.open(os.devnull, os.O_RDONLY))
    for number in _OUTPUTS:
        if output is not None:
            _reopen(number, _for_appending(output))
        else:
            _open_again(number)


def pipes() -> dict[int, str]:
    """The caller's pipes among our outputs, as CRIU names them."""
    return {
        number: f"pipe:[{found.st_ino}]"
        for number in _OUTPUTS
        if stat.S_ISFIFO((found := os.fstat(number)).st_mode)
    }


def let_go_of_output() -> None:
    """Whoever reads what the tree prints waits for the tree alone, not for PID 1."""
    for number in _OUTPUTS:
        _reopen(number, os.open(os.devnull, os.O_WRONLY))


def become(settings: Settings) -> None:
    """Turn this process, the first of a tree, into its command, without any right.

    Raises
    ------
    OSError
        When there is no such command.
    """
    os.setsid()
    calls.adopt_orphans()  # else daemons would hang under PID 1, and be no part of the image
    os.closerange(3, _MOST_DESCRIPTORS)
    environ = {name: value for name, value in os.environ.items() if name not in _OF_OUTSIDE}
    if settings.preload:
        before = environ.get("LD_PRELOAD")
        environ["LD_PRELOAD"] = f"{settings.preload}:{before}" if before else settings.preload
    calls.keep_only(())
    calls.no_new_privileges()
    hear_all()
    os.execvpe(settings.command[0], settings.command, environ)  # noqa: S606 - there is no shell to want


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
