"""Filling and removing folders that somebody else may rearrange meanwhile, following no link.

Only the standard library is imported here: errands, jobs' pods and notebook servers unpack with it.
"""

from __future__ import annotations

import os
import secrets
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path, PurePath
from typing import IO, Self

_CHUNK_BYTES = 1 << 20
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
#: More files than this are no snapshot of a working folder, and no results.
MAX_MEMBERS = 100_000
#: Folders in one another: far from what a path may hold, and from how deep a walk may go.
MAX_DEPTH = 100
#: Headers that only say more about the next one, and how long one may be.
_EXTENDS = frozenset(
    {
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
    }
)
_MAX_HEADER_BYTES = 1 << 20
#: Of a name that gets longer; names have 255 bytes, characters four at most.
_SHOWN = 40


class Refused(Exception):
    """These files cannot be taken; the message says which and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Which results are taken from a tar, see :func:`unpack_into`."""

    job: str
    max_bytes: int
    #: The one file that was asked for; empty = all.
    only: str = ""
    #: They come to a home: programs obey its hidden folders.
    is_home: bool = True


class ShortHeaders(tarfile.TarInfo):
    """Of a tar from others: a header may say of itself that it is a gigabyte, and is read whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """See ``tarfile``."""
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENDS and found.size > _MAX_HEADER_BYTES:
            message = f"a header of {found.size:,} bytes: at most {_MAX_HEADER_BYTES:,} are read"
            raise tarfile.ReadError(message)
        return found


def open_folder(path: Path, parts: tuple[str, ...]) -> int:
    """Open (and make) a folder step by step without following a link below ``path``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    for part in parts:
        with suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=descriptor)
        try:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def add_file(
    folder: int, name: str, read: Callable[[int], bytes], *, left: int, job: str
) -> tuple[str, int]:
    """Write what ``read`` gives to a regular file, at most ``left`` bytes.

    Returns the name under which it lies now, and how many bytes were read.

    Nothing that lies there is replaced: where the name is taken, the file bears the job's name too
    (``model.digits-2.pt``), unless the very same content lies there already. It gets its name when it
    is whole: half a model would be loaded like any other.

    Raises
    ------
    Refused
        When there is more.
    """
    # In sight: what a kill leaves behind may be large.
    partial = f"{name[:_SHOWN]}.{job}.{secrets.token_hex(4)}.partial"
    writing = os.open(partial, _NEW | os.O_EXCL, 0o644, dir_fd=folder)
    try:
        written = _write(writing, name, read, left)
        name = _settle(folder, partial, name, job)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial, dir_fd=folder)
    return name, written


def _settle(folder: int, partial: str, name: str, job: str) -> str:
    """Give a whole file its name, or one beside it, or neither where it is there already."""
    try:
        # Taken before it is used: a rename alone would replace what lies there.
        os.close(os.open(name, _NEW | os.O_EXCL, 0o644, dir_fd=folder))
    except FileExistsError:
        if _are_equal(folder, name, partial):
            return name
        path = PurePath(name)
        name = f"{path.stem}.{job}{path.suffix}"
        # Only what an earlier fetch may have left there goes.
        os.close(os.open(name, _NEW, 0o644, dir_fd=folder))
    os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
    return name


def _are_equal(folder: int, name: str, other: str) -> bool:
    with ExitStack() as stack:
        files = []
        for each in (name, other):
            try:
                descriptor = os.open(each, _OLD, dir_fd=folder)
            except OSError:
                return False  # a link, or not for us to read
            files.append(stack.enter_context(os.fdopen(descriptor, "rb")))
        one, two = files
        found = [os.fstat(each.fileno()) for each in files]
        if not all(stat.S_ISREG(each.st_mode) for each in found):
            return False
        if found[0].st_size != found[1].st_size:
            return False
        while chunk := one.read(_CHUNK_BYTES):
            if chunk != two.read(_CHUNK_BYTES):
                return False
        return True


def _write(writing: int, name: str, read: Callable[[int], bytes], left: int) -> int:
    written = 0
    try:
        while chunk := read(_CHUNK_BYTES):
            written += len(chunk)
            if written > left:
                raise Refused(too_much(name))
            view = memoryview(chunk)
            while view:
                view = view[os.write(writing, view) :]
    finally:
        os.close(writing)
    return written


def too_much(name: str) -> str:
    """The sentence for results beyond their cap."""
    return f"the results are larger than what is copied for a job; stopped at {name!r}"


def too_deep(name: str) -> str:
    """The sentence for results that nobody could walk through."""
    return f"the results have more than {MAX_DEPTH} folders in one another, down to {name!r}"


def unpack(stream: IO[bytes], target: Path, *, max_bytes: int) -> None:
    """Unpack a tar into a new folder of our own, regular files and folders only.

    Raises
    ------
    Refused
        When it holds anything else, or more than it may.
    """
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    total = members = 0
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=ShortHeaders) as archive:
        for member in archive:
            members += 1
            total += member.size
            if members > MAX_MEMBERS:
                message = f"the snapshot holds more than {MAX_MEMBERS:,} files"
                raise Refused(message)
            if total > max_bytes:
                message = f"the snapshot unpacks to more than {max_bytes >> 20} MiB"
                raise Refused(message)
            if not (member.isreg() or member.isdir()):
                message = f"the snapshot holds {member.name!r}, which is no regular file"
                raise Refused(message)
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
        raise Refused(message)
    member.mode = 0o700 if member.isdir() else (member.mode & 0o755) | 0o600
    member.uid, member.gid = os.geteuid(), os.getegid()
    member.uname = member.gname = ""
    archive.extract(member, target)


def unpack_into(stream: IO[bytes], home: Path, below: str, chosen: Selection) -> list[str]:
    """Unpack a tar of results into an existing folder of the user's; returns where its files lie now.

    Unlike :func:`unpack` the folder is not new: what lies there may have links, which are never
    followed, and things of the same name, which stay (see :func:`add_file`).

    Raises
    ------
    Refused
        When it holds more than files and folders, or than was asked for, leads out of its folder, or is
        too large.
    """
    count, left = 0, chosen.max_bytes
    lie: list[str] = []
    base = _inside(below)
    stood: dict[tuple[str, ...], bool] = {}
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=ShortHeaders) as archive:
        for member in archive:
            parts = _inside(member.name)
            if chosen.only and member.name != chosen.only:
                message = f"{member.name!r} came, where {chosen.only!r} was asked for"
                raise Refused(message)
            if chosen.is_home:
                _refuse_settings((*base, *parts))
            if not base:
                _refuse_hidden_in_old(home, parts, chosen, stood)
            if not (member.isreg() or member.isdir()):
                message = f"the results hold {member.name!r}, which is no regular file"
                raise Refused(message)
            count += 1
            if count > MAX_MEMBERS:
                raise Refused(too_much(member.name))
            if member.isdir():
                os.close(open_folder(home, (*base, *parts)))
                continue
            source = archive.extractfile(member)
            if source is None or not parts:
                continue
            folder = open_folder(home, (*base, *parts[:-1]))
            try:
                name, size_bytes = add_file(
                    folder, parts[-1], source.read, left=left, job=chosen.job
                )
            finally:
                os.close(folder)
            left -= size_bytes
            lie.append("/".join((*parts[:-1], name)))
    return lie


def _refuse_settings(path: tuple[str, ...]) -> None:
    """Hidden folders of a home, or of a project, hold what programs obey: nothing comes unless it was named."""
    if path and path[0].startswith("."):
        message = (
            f"{path[0]!r} is a hidden folder of your home, or of the folder that they go to: results are"
            " not written there"
        )
        raise Refused(message)


def _refuse_hidden_in_old(
    home: Path, parts: tuple[str, ...], chosen: Selection, stood: dict[tuple[str, ...], bool]
) -> None:
    """The same further down, in folders that stood there before; what is hidden in a new one is results.

    ``stood``: which did, as it was before the first file came to them.
    """
    for depth in range(1, len(parts)):
        above = parts[:depth]
        if above not in stood:
            stood[above] = os.path.lexists(home.joinpath(*above))
        if stood[above] and parts[depth].startswith(".") and not chosen.only:
            message = (
                f"{'/'.join(parts[: depth + 1])!r} is hidden in a folder that is there already, whose programs"
                " may obey it: bring the results to a new folder"
            )
            raise Refused(message)


def _inside(name: str) -> tuple[str, ...]:
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts or "\0" in name:
        message = f"{name!r} leads out of its folder"
        raise Refused(message)
    return parts


def remove(folder: Path) -> None:
    """Remove a folder with all that can be removed, see :func:`empty`."""
    empty(folder)
    with suppress(OSError):
        folder.rmdir()


def empty(folder: Path) -> None:
    """Empty a folder, however deep: each one inside is carried to the top before it is looked into.

    Safe against links laid meanwhile: everything is done with descriptors and follows none. What
    cannot be removed stays, and keeps nobody else's from going.
    """
    _unlock(str(folder))
    with suppress(OSError), _opened_at(None, str(folder)) as top:
        moved = count()
        waiting = [entry.name for entry in os.scandir(top)]
        while waiting:
            waiting.extend(_removed(top, waiting.pop(), moved))


def _removed(top: int, name: str, moved: Iterator[int]) -> list[str]:
    """Remove what lies at the top by this name; returns the names of folders brought up from it."""
    brought: list[str] = []
    try:
        os.unlink(name, dir_fd=top)
    except OSError:
        _unlock(name, top)
        with suppress(OSError), _opened_at(top, name) as inner:
            for entry in list(os.scandir(inner)):
                with suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        os.unlink(entry.name, dir_fd=inner)
                    elif not _is_gone(inner, entry.name):
                        # A folder that may not be written in may not be moved elsewhere.
                        _unlock(entry.name, inner)
                        up = f".removed-{next(moved)}"
                        os.rename(entry.name, up, src_dir_fd=inner, dst_dir_fd=top)
                        brought.append(up)
        with suppress(OSError):
            os.rmdir(name, dir_fd=top)
    return brought


def _unlock(name: str, folder: int | None = None) -> None:
    """Take a folder of ours back from the mode that its program gave it; a link is left alone."""
    with suppress(OSError):
        descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            Path(f"/proc/self/fd/{descriptor}").chmod(0o700)
        finally:
            os.close(descriptor)


def _is_gone(folder: int, name: str) -> bool:
    """It was an empty folder, which may go even where it may not be moved."""
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError:
        return False
    return True


@contextmanager
def _opened_at(folder: int | None, name: str) -> Iterator[int]:
    descriptor = os.open(name, _FOLDER, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
