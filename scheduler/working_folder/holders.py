"""Processes that stand in a folder, or hold it open so that they can write there.

A rename takes a folder's old path away, but not from those who are inside already: whoever has it as
its current folder, a file open for writing, or a file mapped for writing goes on writing to the same
files. Who only reads is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

_PROC = Path("/proc")
_DELETED = " (deleted)"
#: In ``/proc/PID/maps``: writable and shared.
_WRITES = "rw-s"


def kill_holders(folder: Path, *, uid: int | None = None) -> bool:
    """Kill whoever can still write in ``folder``; True while somebody could.

    Parameters
    ----------
    folder
        As the kernel names it: no link in its path.
    uid
        Only processes of this account are looked at; None = all that may be looked at.
    """
    found = False
    for pid in _pids():
        try:
            # Known before it is looked at: its number may be another's by the time of the kill.
            process = psutil.Process(pid)
            if pid == os.getpid() or not _is_of(pid, uid) or not _holds(pid, f"{folder}/"):
                continue
            found = process.status() != psutil.STATUS_ZOMBIE or found
            process.kill()
        except (OSError, psutil.Error):
            continue  # gone meanwhile, or not ours to look at
    return found


def _pids() -> list[int]:
    try:
        return [int(place.name) for place in _PROC.iterdir() if place.name.isdecimal()]
    except OSError:
        return []


def _is_of(pid: int, uid: int | None) -> bool:
    return uid is None or (_PROC / str(pid)).stat().st_uid == uid


def _holds(pid: int, prefix: str) -> bool:
    paths = (path.removesuffix("/") + "/" for path in _stands(pid))
    return any(path.startswith(prefix) for path in (*paths, *_written(pid), *_mapped(pid)))


def _stands(pid: int) -> Iterator[str]:
    for name in ("cwd", "root"):
        with suppress(OSError):
            yield (_PROC / str(pid) / name).readlink().as_posix()


def _written(pid: int) -> Iterator[str]:
    """Files that it has open for writing, and folders below which it can open more."""
    try:
        descriptors = list((_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return
    for one in descriptors:
        with suppress(OSError, ValueError, StopIteration):
            path = one.readlink().as_posix()
            if path.startswith("/") and not path.endswith(_DELETED):
                lines = (_PROC / str(pid) / "fdinfo" / one.name).read_text().splitlines()
                flags = int(next(one for one in lines if one.startswith("flags:"))[6:], 8)
                if flags & (os.O_WRONLY | os.O_RDWR | os.O_DIRECTORY):
                    yield path + ("/" if flags & os.O_DIRECTORY else "")


def _mapped(pid: int) -> Iterator[str]:
    with suppress(OSError):
        text = (_PROC / str(pid) / "maps").read_text(errors="surrogateescape")
        for line in text.splitlines():
            _, rights, *_, path = [*line.split(maxsplit=5), ""][:6]
            if rights == _WRITES:
                yield path
