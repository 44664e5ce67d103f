"""Small errands in a user's files, run as that user: unpack, collect results, clear away.

The service never opens a path below a folder that a user can write. It starts this module as the
user instead, so that a link or FIFO laid in its way can reach nothing the user could not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

_CHUNK_BYTES = 1 << 20
#: More files than this are no snapshot of a working folder, and no results.
MAX_MEMBERS = 100_000


class ErrandFailed(Exception):
    """The errand cannot be run; the message is for the job's log."""


def unpack(target: Path, *, max_bytes: int) -> None:
    """Unpack the tar on standard input into a new folder, regular files and folders only."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    total = members = 0
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
        for member in archive:
            members += 1
            total += member.size
            if members > MAX_MEMBERS:
                message = f"the snapshot holds more than {MAX_MEMBERS:,} files"
                raise ErrandFailed(message)
            if total > max_bytes:
                message = f"the snapshot unpacks to more than {max_bytes >> 20} MiB"
                raise ErrandFailed(message)
            if not (member.isreg() or member.isdir()):
                message = f"the snapshot holds {member.name!r}, which is no regular file"
                raise ErrandFailed(message)
            _extract(archive, member, target)


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Extract a regular file or folder so that it stays below ``target`` and belongs to us."""
    if hasattr(tarfile, "data_filter"):
        archive.extract(member, target, filter="data")
        return
    # Python 3.11 before 3.11.4, as Debian 12 has it. Links were refused, so names are all there is.
    path = Path(member.name)
    if path.is_absolute() or ".." in path.parts:
        message = f"the snapshot holds {member.name!r}, which lies outside its folder"
        raise ErrandFailed(message)
    member.mode = 0o700 if member.isdir() else (member.mode & 0o755) | 0o600
    member.uid, member.gid = os.geteuid(), os.getegid()
    member.uname = member.gname = ""
    archive.extract(member, target)


def _open_folder(path: Path, parts: tuple[str, ...]) -> int:
    """Open (and make) a folder step by step without following a link below ``path``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    for part in parts:
        with suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=descriptor)
        below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    return descriptor


def _copy(source: Path, folder: int, name: str, *, left: int) -> int:
    """Copy a regular file of at most ``left`` bytes; returns how many."""
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    copied = 0
    try:
        found = os.fstat(reading)
        if not stat.S_ISREG(found.st_mode):
            return 0
        # Asked first: a file of a trillion zeros takes no room until it is copied.
        if found.st_size > left:
            raise ErrandFailed(_too_much(source.name))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        writing = os.open(name, flags, 0o644, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(writing).st_mode):
                return 0
            while chunk := os.read(reading, _CHUNK_BYTES):
                copied += len(chunk)
                if copied > left:
                    raise ErrandFailed(_too_much(source.name))
                view = memoryview(chunk)
                while view:
                    view = view[os.write(writing, view) :]
        finally:
            os.close(writing)
    finally:
        os.close(reading)
    return copied


def _too_much(name: str) -> str:
    return f"the results are larger than what is copied for a job; stopped at {name!r}"


def collect(results: Path, home: Path, below: str, *, max_bytes: int) -> int:
    """Copy the regular files of ``results`` to ``home/below``; returns how many."""
    copied, left = 0, max_bytes
    for root, _, names in os.walk(results, followlinks=False):
        inside = Path(root).relative_to(results)
        parts = tuple(part for part in (*Path(below).parts, *inside.parts) if part != ".")
        folder = _open_folder(home, parts)
        try:
            for name in names:
                source = Path(root) / name
                if source.is_symlink():
                    continue
                left -= _copy(source, folder, name, left=left)
                copied += 1
                if copied > MAX_MEMBERS:
                    raise ErrandFailed(_too_much(name))
        finally:
            os.close(folder)
    return copied


def clear(folders: list[Path]) -> None:
    """Delete what earlier attempts left: their working copies and checkpoints."""
    for folder in folders:
        for name in ("work", "checkpoints"):
            shutil.rmtree(folder / name, ignore_errors=True)


def erase(folder: Path) -> None:
    """Delete everything in a folder that the user owns, also what they made read-only."""
    for root, _, _ in os.walk(folder):
        with suppress(OSError):
            Path(root).chmod(0o700)
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            Path(entry.path).unlink()


def main() -> int:
    """Run one errand."""
    parser = argparse.ArgumentParser()
    errands = parser.add_subparsers(dest="errand", required=True)
    unpacking = errands.add_parser("unpack")
    unpacking.add_argument("target", type=Path)
    unpacking.add_argument("--max-bytes", type=int, required=True)
    errands.add_parser("make").add_argument("target", type=Path)
    collecting = errands.add_parser("collect")
    collecting.add_argument("results", type=Path)
    collecting.add_argument("home", type=Path)
    collecting.add_argument("below")
    collecting.add_argument("--max-bytes", type=int, required=True)
    clearing = errands.add_parser("clear")
    clearing.add_argument("folders", type=Path, nargs="*")
    errands.add_parser("erase").add_argument("folder", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.errand == "unpack":
            unpack(arguments.target, max_bytes=arguments.max_bytes)
        elif arguments.errand == "make":
            arguments.target.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif arguments.errand == "collect":
            collect(
                arguments.results,
                arguments.home,
                arguments.below,
                max_bytes=arguments.max_bytes,
            )
        elif arguments.errand == "erase":
            erase(arguments.folder)
        else:
            clear(arguments.folders)
    except (ErrandFailed, OSError, tarfile.TarError) as error:
        sys.stderr.write(f"gpucommons: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
