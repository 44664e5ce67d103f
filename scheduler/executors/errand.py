"""Small errands in a user's files, run as that user: unpack, collect results, clear away.

The service never opens a path below a folder that a user can write. It starts this module as the
user instead, so that a link or FIFO laid in its way can reach nothing the user could not.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
import tarfile
from pathlib import Path

from gpucommons.scheduler.confined_files import (
    MAX_DEPTH,
    MAX_MEMBERS,
    Refused,
    add_file,
    empty,
    open_folder,
    remove,
    too_deep,
    too_much,
    unpack,
)


def _copy(source: Path, folder: int, name: str, *, left: int, job: str) -> int:
    """Copy a regular file of at most ``left`` bytes; returns how many."""
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(reading)
        if not stat.S_ISREG(found.st_mode):
            return 0
        # Asked first: a file of a trillion zeros takes no room until it is copied.
        if found.st_size > left:
            raise Refused(too_much(source.name))
        return add_file(folder, name, lambda size: os.read(reading, size), left=left, job=job)
    finally:
        os.close(reading)


def collect(results: Path, home: Path, below: str, *, job: str, max_bytes: int) -> int:
    """Copy the regular files of a job's ``results`` to ``home/below``; returns how many.

    Raises
    ------
    Refused
        When there are too many, or, once all others are copied, some lie too deep.
    """
    copied, left, beyond = 0, max_bytes, ""
    for root, folders, names in os.walk(results, followlinks=False):
        inside = Path(root).relative_to(results)
        if folders and len(inside.parts) >= MAX_DEPTH:
            beyond = folders[0]
            folders.clear()
        parts = tuple(part for part in (*Path(below).parts, *inside.parts) if part != ".")
        folder = open_folder(home, parts)
        try:
            for name in names:
                source = Path(root) / name
                if source.is_symlink():
                    continue
                left -= _copy(source, folder, name, left=left, job=job)
                copied += 1
                if copied > MAX_MEMBERS:
                    raise Refused(too_much(name))
        finally:
            os.close(folder)
    if beyond:
        message = f"{too_deep(beyond)}; all others were copied"
        raise Refused(message)
    return copied


def clear(folders: list[Path]) -> None:
    """Delete what earlier attempts left: their working copies and checkpoints."""
    for folder in folders:
        for name in ("work", "checkpoints"):
            remove(folder / name)


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
    collecting.add_argument("--job", required=True)
    collecting.add_argument("--max-bytes", type=int, required=True)
    clearing = errands.add_parser("clear")
    clearing.add_argument("folders", type=Path, nargs="*")
    errands.add_parser("erase").add_argument("folder", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.errand == "unpack":
            unpack(sys.stdin.buffer, arguments.target, max_bytes=arguments.max_bytes)
        elif arguments.errand == "make":
            arguments.target.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif arguments.errand == "collect":
            collect(
                arguments.results,
                arguments.home,
                arguments.below,
                job=arguments.job,
                max_bytes=arguments.max_bytes,
            )
        elif arguments.errand == "erase":
            empty(arguments.folder)
        else:
            clear(arguments.folders)
    except (Refused, OSError, tarfile.TarError) as error:
        sys.stderr.write(f"gpucommons: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
