"""Temporary folders of processes that may be killed: what one left behind goes with the next that begins.

A process holds a lock on its folder, which the kernel lets go of when that process ends, however it does.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
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
    remove_unheld(prefix)
    with new_held_folder(prefix) as made:
        yield made


@contextmanager
def new_held_folder(prefix: str, *, below: Path | None = None) -> Iterator[str]:
    """The folder alone; below that for temporary files, if no other is named. Raises as the above."""
    with tempfile.TemporaryDirectory(dir=below, prefix=prefix, ignore_cleanup_errors=True) as made:
        held = _locked(Path(made))
        try:
            yield made
        finally:
            if held is not None:
                os.close(held)


def remove_unheld(
    prefix: str,
    *,
    below: Path | None = None,
    owners: Collection[int] = (),
    first: Callable[[Path], None] = lambda _: None,
) -> None:
    """Remove those of this account, and of these, that nobody holds any more; ``first`` is called with each."""
    ours = {os.geteuid(), *owners}
    for left in (below or Path(tempfile.gettempdir())).glob(f"{prefix}*"):
        with suppress(OSError):
            # Whoever has just made one has nothing in it before it is locked.
            if left.lstat().st_uid in ours and any(left.iterdir()):
                _remove(left, first)


def _remove(folder: Path, first: Callable[[Path], None]) -> None:
    held = _locked(folder)
    if held is None:
        return
    try:
        first(folder)
        shutil.rmtree(folder)
    finally:
        os.close(held)


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the folder's lock; None while somebody else does."""
    import fcntl  # noqa: PLC0415 - not on every system that may ask whether this one can

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
