"""What the processes of a tree have open or mapped: at a wake it must still be the same.

CRIU compares sizes only, and only when it is too late to say so kindly.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.hibernation.process_image import OpenFile

_PROC = Path("/proc")
#: What lies here is no file of a disk: the image holds it, or the kernel makes it anew.
_NO_DISK = ("/dev/", "/proc/", "/sys/")
_GONE = " (deleted)"
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Use:
    path: str
    appends: bool = False
    written_through_memory: bool = False


def of(processes: Iterable[int]) -> tuple[OpenFile, ...]:
    """Regular files that these processes use, each once, as they are now."""
    uses: dict[str, list[_Use]] = {}
    for pid in processes:
        for use in (*_opened(pid), *_mapped(pid)):
            uses.setdefault(use.path, []).append(use)
    return tuple(file for path in sorted(uses) if (file := _now(path, uses[path])) is not None)


def _now(path: str, uses: list[_Use]) -> OpenFile | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    settled = not any(use.written_through_memory for use in uses)
    return OpenFile(
        path=path,
        bytes=found.st_size,
        changed_ns=found.st_mtime_ns if settled else None,
        grows=all(use.appends for use in uses) or (settled and _is_quiet_database(Path(path))),
    )


def _is_quiet_database(path: Path) -> bool:
    """An SQLite database in which nobody is in the middle of a change.

    It looks at a counter in the file before each transaction, so others may write meanwhile: every
    kernel of a user has IPython's history open.
    """
    try:
        with path.open("rb") as stream:
            if stream.read(len(_SQLITE)) != _SQLITE:
                return False
    except OSError:
        return False
    return not any(path.with_name(path.name + end).exists() for end in ("-journal", "-wal"))


def _opened(pid: int) -> Iterator[_Use]:
    folder = _PROC / str(pid) / "fd"
    with suppress(OSError):
        for number in folder.iterdir():
            with suppress(OSError):
                path = str(number.readlink())
                if _is_kept_elsewhere(path):
                    continue
                yield _Use(path=path, appends=_appends(pid, number.name))


def _appends(pid: int, number: str) -> bool:
    text = (_PROC / str(pid) / "fdinfo" / number).read_text(encoding="ascii")
    flags = next(line.split()[1] for line in text.splitlines() if line.startswith("flags:"))
    return bool(int(flags, 8) & os.O_APPEND)


def _mapped(pid: int) -> Iterator[_Use]:
    with suppress(OSError):
        text = (_PROC / str(pid) / "maps").read_text(encoding="utf-8", errors="surrogateescape")
        seen = set()
        for line in text.splitlines():
            parts = line.split(maxsplit=5)
            if len(parts) < 6 or _is_kept_elsewhere(parts[5]):  # noqa: PLR2004 - columns of maps
                continue
            shared = parts[1][1] == "w" and parts[1][3] == "s"
            if (parts[5], shared) not in seen:
                seen.add((parts[5], shared))
                yield _Use(path=parts[5], written_through_memory=shared)


def _is_kept_elsewhere(path: str) -> bool:
    """No file of the machine's: the image itself holds it."""
    return not path.startswith("/") or path.startswith(_NO_DISK) or path.endswith(_GONE)
