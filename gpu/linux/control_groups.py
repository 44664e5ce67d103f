"""Control groups (cgroup v2): where they are, and how a process comes into one."""

from __future__ import annotations

import os
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")


def enter(group: str, pid: int = 0) -> None:
    """Put a process, or this one (0), into a group.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    # One plain write: this also runs between fork and exec.
    descriptor = os.open(f"{group}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"%d" % pid)
    finally:
        os.close(descriptor)


def find_mount(mounts: Path = _MOUNTS) -> Path | None:
    """Where cgroup v2 is mounted; None where it is not."""
    try:
        for line in mounts.read_text(encoding="utf-8").splitlines():
            words = line.split()
            if len(words) > 2 and words[2] == "cgroup2":  # noqa: PLR2004 - fstab(5)
                return Path(words[1])
    except OSError:
        pass
    return None
