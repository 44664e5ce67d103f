"""The processes of a tree, as its PID 1 sees them: whatever is in the namespace beside itself."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_KIB = 1024
_BLOCK = 512


def numbers() -> tuple[int, ...]:
    """Their numbers, sorted."""
    own = os.getpid()
    found = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return tuple(sorted(pid for pid in found if pid != own))


def below(pid: int) -> tuple[int, ...]:
    """All that a process has started, and what those have; none where the kernel does not list them."""
    found: list[int] = []
    left = [pid]
    while left:
        for path in (_PROC / str(left.pop()) / "task").glob("*/children"):
            with suppress(OSError):
                children = [int(word) for word in path.read_text(encoding="utf-8").split()]
                found += children
                left += children
    return tuple(found)


def lives(pid: int) -> bool:
    """Whether this process runs or could run again."""
    return _field(pid, "State") not in (None, "Z", "X")


def memory_bytes(pids: Iterable[int] | None = None) -> int:
    """What an image of these (of all) takes at most: their memory that is in no file."""
    total = 0
    for pid in numbers() if pids is None else pids:
        for name in ("RssAnon", "RssShmem", "VmSwap"):
            total += int(_field(pid, name) or 0) * _KIB
    return total


def removed_files_bytes() -> int:
    """What an image takes for files that have no name any more, and live on in who has them open."""
    found: dict[tuple[int, int], int] = {}
    for pid in numbers():
        with suppress(OSError):
            for entry in (_PROC / str(pid) / "fd").iterdir():
                with suppress(OSError):
                    one = entry.stat()
                    if stat.S_ISREG(one.st_mode) and not one.st_nlink:
                        found[one.st_dev, one.st_ino] = one.st_blocks * _BLOCK
    return sum(found.values())


def _field(pid: int, name: str) -> str | None:
    with suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name}:"):
                return line.split()[1]
    return None
