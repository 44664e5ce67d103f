"""Control groups of a server below root's program: whatever is in one can be ended.

A server may ignore signals, and may drop the signal that it gets when root's program dies. It cannot leave
its group. One group holds the server and all that it starts, another one the trees that the program
started: those save themselves, so they are given time. Both lie below the group that the server has
anyway (that of its slice, or the hub's), and no controller is passed on to them, so limits and accounts
of that one hold unchanged.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.linux.control_groups import find_mount

_OWN = Path("/proc/self/cgroup")
_LOOK_S = 0.02
_PATIENCE_S = 5.0
#: Since Linux 5.14; before it each process is ended by its number.
_KILL = "cgroup.kill"
_MEMBERS = "cgroup.procs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """Those of one server."""

    server: Path
    trees: Path

    def remove(self) -> bool:
        """Remove both; whether they are gone, which takes that nothing is in them."""
        for folder in (self.server, self.trees):
            with suppress(OSError):
                folder.rmdir()
        return not (self.server.exists() or self.trees.exists())


def below(parent: Path, name: str) -> Groups:
    """How the groups of the server of this name are called."""
    return Groups(server=parent / name, trees=parent / f"{name}-trees")


def make(name: str, parent: Path | None = None) -> Groups:
    """Make both, below ``parent``; None = below this process' own.

    Raises
    ------
    OSError
        Where there is no cgroup v2, or the kernel refuses.
    """
    found = below(own() if parent is None else parent, name)
    found.server.mkdir(mode=0o755)
    try:
        found.trees.mkdir(mode=0o755)
    except OSError:
        found.server.rmdir()
        raise
    return found


def own(own_file: Path = _OWN, mount: Path | None = None) -> Path:
    """The folder of this process' group.

    Raises
    ------
    OSError
        Where there is no cgroup v2.
    """
    mount = mount or find_mount()
    if mount is None:
        raise FileNotFoundError(2, "cgroup v2 is not mounted")
    for line in own_file.read_text(encoding="utf-8").splitlines():
        if line.startswith("0::"):
            return mount / line[3:].lstrip("/")
    raise FileNotFoundError(2, "this process is in no group of cgroup v2")


def hindrance() -> str | None:
    """Why no group can be made here; None where one can."""
    try:
        make(f"gpucommons-trial-{os.getpid()}").remove()
    except OSError as error:
        return error.strerror or str(error)
    return None


def end(folder: Path, patience_s: float = _PATIENCE_S) -> bool:
    """End whatever is in the group; whether nothing is in it any more.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    until_s = time.monotonic() + patience_s
    while members := _members(folder):
        if (folder / _KILL).exists():
            (folder / _KILL).write_text("1", encoding="ascii")
        else:
            # What forks meanwhile is found by the next look.
            for pid in members:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until_s:
            return False
        time.sleep(_LOOK_S)
    return True


def _members(folder: Path) -> tuple[int, ...]:
    try:
        numbers = map(int, (folder / _MEMBERS).read_text(encoding="ascii").split())
    except FileNotFoundError:
        return ()
    # 0 stands for one that cannot be named here, and would be whoever asks.
    return tuple(number for number in numbers if number > 0)
