"""Small files that appear whole or not at all, through any crash and power cut.

Only the standard library is imported here: every supervisor of a job writes such files.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def write_whole(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace a file: whoever looks sees the old one or the new one."""
    aside = _written_aside(path, content, mode)
    aside.replace(path)
    sync_folder(path.parent)


def write_again(path: Path, content: bytes) -> None:
    """Replace a file that may hold secrets: as private as it was, before and after."""
    before = path.stat()
    aside = _written_aside(path, content, 0o600)
    try:
        mode = before.st_mode & 0o777
        try:
            os.chown(aside, before.st_uid if os.geteuid() == 0 else -1, before.st_gid)
        except PermissionError:
            mode &= ~0o070  # they were another group's rights
        aside.chmod(mode)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_once(path: Path, content: bytes) -> None:
    """Make a file that only this account may read, unless there is one: the first writer wins."""
    aside = _written_aside(path, content, 0o600)
    try:
        with suppress(FileExistsError):
            os.link(aside, path)
    finally:
        aside.unlink()
    sync_folder(path.parent)


@contextmanager
def appearing_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name, and the place of what had it, when all is written."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _written_aside(path: Path, content: bytes, mode: int) -> Path:
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    return aside


def sync_folder(folder: Path) -> None:
    """Make new names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
