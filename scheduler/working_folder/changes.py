"""What a job wrote in its working folder: files that are new, or not as its snapshot has them.

The folder is whatever the job's code made of it: it is walked by descriptors, no link is followed, and
the walk has an end however many files there are.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from gpucommons.scheduler.files.confined_files import MAX_DEPTH, MAX_MEMBERS, ShortHeaders

#: Made anew by programs, and of no use elsewhere.
CACHES = frozenset({"__pycache__", ".ipynb_checkpoints", ".cache", "node_modules"})
_CHUNK_BYTES = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW

#: Size and SHA-256 by path.
Baseline = Mapping[str, tuple[int, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedFile:
    """A regular file."""

    #: Below the folder, with forward slashes.
    path: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """What is no result, and why."""

    path: str
    reason: str


@dataclass(kw_only=True, slots=True)
class Changes:
    """All that was found."""

    files: list[ChangedFile] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    #: There is more than was looked at.
    more: bool = False

    @property
    def size_bytes(self) -> int:
        """Sum over all files."""
        return sum(file.size_bytes for file in self.files)


def baseline(snapshot: IO[bytes]) -> dict[str, tuple[int, str]]:
    """What a snapshot's tar holds."""
    found: dict[str, tuple[int, str]] = {}
    with tarfile.open(fileobj=snapshot, mode="r|", tarinfo=ShortHeaders) as archive:
        for member in archive:
            source = archive.extractfile(member) if member.isreg() else None
            if source is not None:
                path = "/".join(part for part in member.name.split("/") if part not in ("", "."))
                found[path] = (member.size, hashlib.file_digest(source, "sha256").hexdigest())  # type: ignore[arg-type] # it reads
    return found


def changes(
    folder: Path,
    since: Baseline,
    *,
    max_files: int = MAX_MEMBERS,
    max_s: float | None = None,
    now_s: Callable[[], float] = time.monotonic,
) -> Changes:
    """Look through a folder; at most ``max_files`` are looked at, and for ``max_s`` seconds."""
    found, looked_at = Changes(), 0
    until_s = None if max_s is None else now_s() + max_s
    try:
        top = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return found
    except OSError as error:
        found.left_out.append(_no_folder(folder.name, error))
        return found
    try:
        for path, name, descriptor in _walk(top, found.left_out):
            looked_at += 1
            # One file at least: on a busy machine the time may be over before the first.
            is_late = looked_at > 1 and until_s is not None and now_s() > until_s
            if looked_at > max_files or is_late:
                found.more = True
                break
            _look_at(path, name, descriptor, since, found)
    finally:
        os.close(top)
    return found


def change_at(folder: Path, path: str, since: Baseline) -> ChangedFile | None:
    """That file as :func:`changes` would name it, among however many; None where it would not."""
    *parents, name = parts = path.split("/")
    if (
        CACHES.intersection(parents)
        or {"", ".", ".."}.intersection(parts)
        or len(parents) > MAX_DEPTH
    ):
        return None
    found = Changes()
    with suppress(OSError):
        descriptor = os.open(folder, _FOLDER)
        try:
            for parent in parents:
                below = os.open(parent, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            _look_at(path, name, descriptor, since, found)
        finally:
            os.close(descriptor)
    return found.files[0] if found.files else None


def _no_folder(name: str, error: OSError) -> LeftOut:
    """A job may lay a link in the place of the folder itself; it is followed as little as others."""
    if isinstance(error, NotADirectoryError):
        return LeftOut(path=name, reason="is a link or a file, no folder")
    return LeftOut(path=name, reason=f"cannot be read ({error.strerror})")


def _walk(top: int, left_out: list[LeftOut]) -> Iterator[tuple[str, str, int]]:
    """Files with the descriptor of their folder, in a fixed order."""
    for root, folders, names, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        prefix = "" if root == "." else f"{root.removeprefix('./')}/"
        if root.count("/") >= MAX_DEPTH:
            left_out += (_too_deep(f"{prefix}{name}") for name in sorted(folders))
            folders.clear()
        linked = [name for name in folders if _is_link(name, descriptor)]
        left_out += (LeftOut(path=f"{prefix}{name}", reason="is a link") for name in sorted(linked))
        folders[:] = sorted(set(folders) - CACHES - set(linked))
        for name in sorted(names):
            yield f"{prefix}{name}", name, descriptor


def _too_deep(path: str) -> LeftOut:
    return LeftOut(path=path, reason=f"lies below more than {MAX_DEPTH} folders in one another")


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return True


def _look_at(path: str, name: str, folder: int, since: Baseline, found: Changes) -> None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            found.left_out.append(LeftOut(path=path, reason="is a link"))
        elif not stat.S_ISREG(status.st_mode):
            found.left_out.append(LeftOut(path=path, reason="is not a regular file"))
        elif not _is_as_before(path, name, folder, status.st_size, since):
            found.files.append(ChangedFile(path=path, size_bytes=status.st_size))
    except OSError as error:
        found.left_out.append(LeftOut(path=path, reason=f"cannot be read ({error.strerror})"))


def _is_as_before(path: str, name: str, folder: int, size_bytes: int, since: Baseline) -> bool:
    known = since.get(path)
    if known is None or known[0] != size_bytes:
        return False
    # Never wait for the writer of a FIFO that was put here meanwhile.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest() == known[1]
