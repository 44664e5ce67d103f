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
#: When it had time to load what it works with, and then so often: few seconds apart while it grows,
#: more when it runs on.
_FROM_S, _FIRST_S, _LAST_S = 15.0, 4.0, 16.0
#: A change by less than this part is not worth telling.
_FINE = 16


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


class MemoryLooks:
    """When the memory of a tree that runs is looked at, by a steady clock, and what of it is worth telling."""

    def __init__(self, now_s: float) -> None:
        self._due_s, self._again_s = now_s + _FROM_S, _FIRST_S
        self._told_mib = 0

    def wait_s(self, now_s: float) -> float:
        """How long until the next one; 0 = it is due."""
        return max(0.0, self._due_s - now_s)

    def looked(self, now_s: float) -> None:
        """It was looked at: the next one comes later."""
        self._due_s = now_s + self._again_s
        self._again_s = min(2 * self._again_s, _LAST_S)

    def is_news(self, mib: int) -> bool:
        """Whether that differs from what was told last."""
        return abs(mib - self._told_mib) * _FINE > self._told_mib

    def told(self, mib: int) -> None:
        """That was told."""
        self._told_mib = mib


def _field(pid: int, name: str) -> str | None:
    with suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name}:"):
                return line.split()[1]
    return None
