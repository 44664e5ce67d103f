"""What a folder's owner keeps out of snapshots: names in a file beside the code, whoever packs it.

The panel, the widgets, the command line and YAML files pack folders in one way, so what is named once
stays behind in all of them.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from gpucommons.scheduler.errors import BadRequest

IGNORE_FILE = ".gpucommonsignore"
REASON = f"is named in {IGNORE_FILE}"
#: A longer one is no such file.
_MOST_BYTES, _MOST_LINES = 1 << 16, 1000
#: So many are named where a folder is too large.
_NAMED = 3
_MIB = 1024 * 1024


class _Sized(Protocol):
    @property
    def path(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Ignored:
    """Names, and paths from the folder, each with ``*``, ``?`` and ``[…]`` as a shell has them."""

    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def has(self, path: str) -> bool:
        """Whether a file or folder stays behind; ``path`` is below the folder, with forward slashes."""
        name = path.rpartition("/")[2]
        return any(fnmatchcase(name, one) for one in self.names) or any(
            fnmatchcase(path, one) for one in self.paths
        )


def read_ignored(root: Path) -> Ignored:
    """What is named in a folder's file; nothing where it has none.

    Raises
    ------
    BadRequest
        When it is no such file, or a line means what cannot be.
    """
    names: list[str] = []
    paths: list[str] = []
    for line in _lines(root / IGNORE_FILE):
        if line.startswith("!"):
            message = f"{root / IGNORE_FILE}: {line}: a line names what stays behind, and takes nothing back (!)."
            raise BadRequest(message)
        bare = line.rstrip("/")
        (paths if "/" in bare else names).append(bare.lstrip("/"))
    return Ignored(names=tuple(names), paths=tuple(paths))


def _lines(path: Path) -> list[str]:
    try:
        # A link could lead to what is not its owner's to read, a FIFO would never end.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), "rb") as file:
            content = (
                file.read(_MOST_BYTES + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
            )
    except OSError:
        return []
    stripped = (line.strip() for line in content.decode(errors="replace").splitlines())
    found = [line for line in stripped if line and not line.startswith("#")]
    if len(content) > _MOST_BYTES or len(found) > _MOST_LINES:
        message = f"{path} has more than {_MOST_LINES:,} lines or {_MOST_BYTES >> 10} KiB: name folders, not each file."
        raise BadRequest(message)
    return found


def largest(files: Iterable[_Sized]) -> str:
    """``data (790.1 MiB in 412 files), a.csv (1.9 MiB)``: folders and files of the top, the largest first."""
    sizes, counts = Counter[str](), Counter[str]()
    for file in files:
        top, slash, _ = file.path.partition("/")
        sizes[top + slash] += file.size_bytes
        counts[top + slash] += 1
    worth_a_word = sum(sizes.values()) // 10
    return ", ".join(
        f"{name.rstrip('/')} ({size / _MIB:.1f} MiB"
        f"{f' in {counts[name]:,} files' if name.endswith('/') else ''})"
        for name, size in sizes.most_common(_NAMED)
        if size >= worth_a_word
    )


def fullest(files: Iterable[_Sized]) -> str:
    """The folder of the top that has most of these files; "" where they lie in none."""
    tops = (file.path.partition("/") for file in files)
    counts = Counter(top for top, slash, _ in tops if slash)
    return next((name for name, _ in counts.most_common(1)), "")


def way_out(root: Path) -> str:
    """What to do about a folder that is too large."""
    return (
        f"Name what the job does not need, or can read from where it lies, in {root / IGNORE_FILE}, a line"
        " each, or move it out of the folder."
    )
