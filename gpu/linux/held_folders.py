"""Temporary folders of processes that may be killed: what one left behind goes with the next that begins.

A process holds a lock on its folder, which the kernel lets go of when that process ends, however it does.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def held_folder(prefix: str) -> Iterator[str]:
    """A new folder of this account, removed at the end; before it, those of the same prefix that nobody
    holds any more.

    Raises
    ------
    OSError
        When none can be made.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            _remove(left)
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as made:
        held = locked(Path(made))
        try:
            yield made
        finally:
            if held is not None:
                os.close(held)


def locked(folder: Path) -> int | None:
    """A descriptor that holds the folder's lock; None while somebody else does."""
    import fcntl  # noqa: PLC0415 - not on every system that may ask whether this one can

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _remove(folder: Path) -> None:
    # Whoever has just made one has nothing in it before it is locked.
    if folder.lstat().st_uid != os.geteuid() or not any(folder.iterdir()):
        return
    held = locked(folder)
    if held is not None:
        try:
            shutil.rmtree(folder)
        finally:
            os.close(held)
