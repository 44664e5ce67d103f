"""Complete checkpoints on disk: written aside, hashed, then renamed to their final name.

A folder named ``step-N`` is complete by construction: the rename is the last thing that happens to
it. Whatever a killed process leaves behind still has its partial name and is never resumed from.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpucommons.scheduler.files.durable_files import sync_folder

_COMPLETE = re.compile(r"^step-(\d{1,16})$")
_CHUNK_BYTES = 1 << 20
#: Of Linux: ``AT_FDCWD``, which counts for nothing beside absolute paths.
_HERE, _RENAME_EXCHANGE = -100, 2


@dataclass(frozen=True, kw_only=True, slots=True)
class CompleteCheckpoint:
    """A checkpoint under its final name."""

    step: int
    path: Path
    size_bytes: int
    #: Over the sorted relative names and contents of all files.
    sha256: str


def measure(folder: Path) -> tuple[int, str]:
    """Size in bytes and content hash of a folder's regular files."""
    digest, size_bytes = hashlib.sha256(), 0
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                size_bytes += len(chunk)
        digest.update(b"\0")
    return size_bytes, digest.hexdigest()


def complete_steps(root: Path) -> tuple[int, ...]:
    """Steps of the complete checkpoints below ``root``, ascending."""
    if not root.is_dir():
        return ()
    found = (_COMPLETE.match(entry.name) for entry in root.iterdir() if entry.is_dir())
    return tuple(sorted(int(match[1]) for match in found if match))


def step_of(folder: Path) -> int:
    """The step in a complete checkpoint's name.

    Raises
    ------
    ValueError
        When the folder does not bear a final name.
    """
    match = _COMPLETE.match(folder.name)
    if match is None:
        message = f"{folder} is not a complete checkpoint: its name must be step-N."
        raise ValueError(message)
    return int(match[1])


def folder_name(path: str) -> str:
    """``step-5`` of ``checkpoints/step-5.7``: what a script finds, whichever one of that step it is."""
    return path.rpartition("/")[2].partition(".")[0]


def _sync(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def writing(root: Path, step: int) -> Iterator[Path]:
    """Write into the folder that is given; leaving the block without an error completes it."""
    partial, final = root / f".step-{step}.partial", root / f"step-{step}"
    replaced = root / f".step-{step}.replaced"
    for left in (partial, replaced):
        shutil.rmtree(left, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    _sync(partial)
    if final.exists() and not _exchange(partial, final):
        # Deleting a large one takes seconds, in which a kill would leave none of this step.
        final.rename(replaced)
    if not final.exists():
        partial.rename(final)
    sync_folder(root)
    for left in (partial, replaced):
        shutil.rmtree(left, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step; False where the system or the file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError):
        return False
    renamed = renameat2(
        _HERE, os.fsencode(one.absolute()), _HERE, os.fsencode(other.absolute()), _RENAME_EXCHANGE
    )
    return bool(renamed == 0)


def describe(folder: Path) -> CompleteCheckpoint:
    """Measure a complete checkpoint."""
    size_bytes, sha256 = measure(folder)
    return CompleteCheckpoint(
        step=step_of(folder), path=folder, size_bytes=size_bytes, sha256=sha256
    )


def drop_older(root: Path, *, keep: int) -> None:
    """Delete all but the newest ``keep`` complete checkpoints."""
    for step in complete_steps(root)[:-keep]:
        shutil.rmtree(root / f"step-{step}", ignore_errors=True)
