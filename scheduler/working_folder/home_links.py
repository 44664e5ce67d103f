"""Links from a job's working folder to files of the home that were too large to be taken along.

Made as the user. Folders are made anew and only files are linked, so that what a job writes beside
them stays in its own folder. Nothing outside of the home is linked: no link on the way is followed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

from gpucommons.scheduler.files.confined_files import MAX_DEPTH, Refused, open_folder

#: More files than this are no checkpoints or data of one job.
MAX_LINKS = 20_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def link_left_out(work: Path, home: Path, below: str, paths: list[str]) -> int:
    """Link each of ``paths`` below ``home/below`` into ``work``; returns how many files.

    Raises
    ------
    Refused
        When one is not there any more, leads out of the home, or is too much.
    """
    root = Path(os.path.realpath(home))
    made = 0
    for path in paths:
        parts = tuple(part for part in PurePosixPath(below, path).parts if part != ".")
        if ".." in parts or not parts:
            raise Refused(f"{path} leads out of the home folder")
        made += _link(work, root, PurePosixPath(path), parts, MAX_LINKS - made)
    return made


def _link(work: Path, home: Path, path: PurePosixPath, parts: tuple[str, ...], left: int) -> int:
    parent = _open_below(home, parts[:-1], path)
    try:
        found = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
    except OSError:
        raise Refused(f"{path} is not in the home folder any more: submit the job again") from None
    finally:
        os.close(parent)
    source = home.joinpath(*parts)
    if stat.S_ISREG(found.st_mode):
        return _link_file(work, path, source)
    if stat.S_ISDIR(found.st_mode):
        return _link_folder(work, path, source, left)
    raise Refused(f"{path} is a link or no regular file: it is not linked from the home folder")


def _open_below(home: Path, parts: tuple[str, ...], path: PurePosixPath) -> int:
    descriptor = os.open(home, _FOLDER)
    for part in parts:
        try:
            below = os.open(part, _FOLDER, dir_fd=descriptor)
        except OSError:
            raise Refused(f"{path} is gone, or a link on the way to it leads elsewhere") from None
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _link_folder(work: Path, path: PurePosixPath, source: Path, left: int) -> int:
    made = 0
    for root, folders, names in os.walk(source, followlinks=False):
        inside = PurePosixPath(Path(root).relative_to(source).as_posix())
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(root, name))]  # noqa: PTH114, PTH118 - a walk
        if len(inside.parts) > MAX_DEPTH:
            raise Refused(f"{path} has more than {MAX_DEPTH} folders in one another")
        os.close(open_folder(work, _named(path / inside)))
        for name in names:
            if stat.S_ISREG(os.lstat(Path(root, name)).st_mode):
                made += _link_file(work, path / inside / name, Path(root, name))
            if made > left:
                raise Refused(f"{path} holds more than {MAX_LINKS:,} files: link less of it")
    return made


def _link_file(work: Path, path: PurePosixPath, source: Path) -> int:
    folder = open_folder(work, _named(path.parent))
    try:
        # A job that goes on in the same folder finds what it made there.
        os.symlink(source, path.name, dir_fd=folder)
    except FileExistsError:
        return 0
    finally:
        os.close(folder)
    return 1


def _named(path: PurePosixPath) -> tuple[str, ...]:
    return tuple(part for part in path.parts if part != ".")
