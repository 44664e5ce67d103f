"""A folder as it is now, as one tar: what a job runs, whatever happens to the folder later.

The same files give the same bytes, so the content hash names the snapshot. Links, FIFOs and devices
are left out and named, never followed: a snapshot cannot carry anything from outside its folder.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpucommons.scheduler.errors import BadRequest, TooLarge
from gpucommons.scheduler.working_folder.giving_back import read_mark
from gpucommons.scheduler.working_folder.ignored_files import (
    REASON,
    fullest,
    largest,
    read_ignored,
    way_out,
)

_RESULTS = "holds results of"
#: A larger file is data, not code: it is left out and named.
MAX_FILE_BYTES = 32 * 1024 * 1024
#: What a snapshot may hold, unless the caller says otherwise.
MAX_SNAPSHOT_BYTES = 128 * 1024 * 1024
#: More files than this are an environment or a data set, not a project.
MAX_FILES = 5_000
#: Folders that are made anew.
EXCLUDED_FOLDERS = frozenset({"__pycache__", "node_modules"})
#: Mostly results, and often large. A script may want to read it.
_CHECKPOINTS = "checkpoints"

_MIB = 1024 * 1024
HIDDEN = "is hidden"
_UNREADABLE = "cannot be read"
_MADE_ANEW = "is made anew by programs"
_BY_NAME = f"is named {_CHECKPOINTS}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedFile:
    """A file of the snapshot."""

    #: Below the root, with forward slashes.
    path: str
    size_bytes: int
    #: When it was last changed, before or while it was read; 0 of what is no file of the folder.
    changed_ns: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExcludedFile:
    """A file or folder that stays behind, and why."""

    path: str
    #: 0 for folders and links.
    size_bytes: int
    reason: str
    #: The job may well need it, and can have it as a link to where it lies.
    linkable: bool = False

    @property
    def is_result(self) -> bool:
        """A folder with results of a job: there may be many, and no job misses them."""
        return self.reason.startswith(_RESULTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """What a snapshot would hold."""

    files: tuple[PackedFile, ...]
    excluded: tuple[ExcludedFile, ...]

    @property
    def size_bytes(self) -> int:
        """Sum over all files."""
        return size_of(self.files)


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """A snapshot, ready to be uploaded."""

    content: bytes
    sha256: str
    #: Hash of paths, sizes and times of change: :func:`list_only` has the same while nothing changes.
    listed_sha256: str
    files: tuple[PackedFile, ...]
    excluded: tuple[ExcludedFile, ...]


def preview(root: Path) -> Listing:
    """List what :func:`pack` would take, without reading any file.

    Raises
    ------
    BadRequest
        When ``root`` is no folder.
    TooLarge
        When there are too many files.
    """
    files: list[PackedFile] = []
    excluded: list[ExcludedFile] = []
    for entry in _walk(root):
        if isinstance(entry, ExcludedFile):
            excluded.append(entry)
        else:
            files.append(_listed(entry.path, entry.status))
        if len(files) + len(excluded) > MAX_FILES:
            most = fullest((*files, *excluded))
            most_of_them = f", most of them in {most}" if most else ""
            message = f"{root} holds more than {MAX_FILES:,} files{most_of_them}. {way_out(root)}"
            raise TooLarge(message)
    return Listing(files=tuple(files), excluded=tuple(excluded))


def pack(
    root: Path,
    *,
    max_bytes: int = MAX_SNAPSHOT_BYTES,
    extra: Mapping[str, bytes] | None = None,
) -> Packed:
    """Pack a folder.

    Parameters
    ----------
    root
        The folder.
    max_bytes
        Largest sum of all files.
    extra
        Further files by name, which win over those of the folder (a lock file of its packages);
        a script (``#!``) among them may be executed.

    Raises
    ------
    BadRequest
        When ``root`` is no folder.
    TooLarge
        When the files are too many or too large; the largest are named, and how to leave them out.
    """
    added = extra or {}
    excluded, _ = _to_take(root, added, max_bytes)
    contents, size_bytes = dict(added), sum(map(len, added.values()))
    found: dict[str, PackedFile] = {}
    executable = {name for name, content in added.items() if content.startswith(b"#!")}
    for entry in _walk(root):
        if isinstance(entry, _Entry) and entry.path not in added:
            opened = entry.read(MAX_FILE_BYTES)
            if opened is not None:
                data, status = opened
                size_bytes += len(data)
                # Before more is read: a file may grow while others are.
                if size_bytes > max_bytes:
                    message = (
                        f"The files grew beyond {max_bytes // _MIB} MiB while they were read; try"
                        " again."
                    )
                    raise TooLarge(message)
                contents[entry.path] = data
                found[entry.path] = _listed(entry.path, status)
                if entry.executable:
                    executable.add(entry.path)
    content = _tar(contents, executable)
    files = tuple(
        PackedFile(path=path, size_bytes=len(data)) for path, data in sorted(contents.items())
    )
    return Packed(
        content=content,
        sha256=hashlib.sha256(content).hexdigest(),
        listed_sha256=_hash_of_listing(_with_added(found, added), added),
        files=files,
        excluded=excluded,
    )


def list_only(
    root: Path, *, max_bytes: int = MAX_SNAPSHOT_BYTES, extra: Mapping[str, bytes] | None = None
) -> Packed:
    """What :func:`pack` would take, without content: no file is read.

    Its hash names no snapshot. It stays the same while no file is changed.

    Raises
    ------
    BadRequest, TooLarge
        See :func:`pack`.
    """
    added = extra or {}
    excluded, files = _to_take(root, added, max_bytes)
    sha256 = _hash_of_listing(files, added)
    return Packed(content=b"", sha256=sha256, listed_sha256=sha256, files=files, excluded=excluded)


def _to_take(
    root: Path, added: Mapping[str, bytes], max_bytes: int
) -> tuple[tuple[ExcludedFile, ...], tuple[PackedFile, ...]]:
    """What stays behind, and all that is taken: what is added counts, what it stands for does not."""
    listing = preview(root)
    files = files_of(listing, added)
    _refuse_over(root, files, max_bytes)
    return listing.excluded, files


def files_of(listing: Listing, added: Mapping[str, bytes]) -> tuple[PackedFile, ...]:
    """All that is taken, with what is added in place of what it stands for."""
    return _with_added({file.path: file for file in listing.files}, added)


def _listed(path: str, status: os.stat_result) -> PackedFile:
    # Not st_mtime, which whoever writes a file can set.
    return PackedFile(path=path, size_bytes=status.st_size, changed_ns=status.st_ctime_ns)


def _with_added(
    found: Mapping[str, PackedFile], added: Mapping[str, bytes]
) -> tuple[PackedFile, ...]:
    extra = {path: PackedFile(path=path, size_bytes=len(data)) for path, data in added.items()}
    return tuple(file for _, file in sorted({**found, **extra}.items()))


def _hash_of_listing(files: tuple[PackedFile, ...], added: Mapping[str, bytes]) -> str:
    named = repr((files, sorted(added.items()))).encode(errors="surrogatepass")
    return hashlib.sha256(named).hexdigest()


class Packing(Protocol):
    """:func:`pack`, or what stands for it."""

    def __call__(self, root: Path, *, max_bytes: int, extra: Mapping[str, bytes]) -> Packed:
        """Pack a folder."""


def _refuse_over(root: Path, files: tuple[PackedFile, ...], max_bytes: int) -> None:
    if size_of(files) <= max_bytes:
        return
    message = (
        f"The files are {size_of(files) / _MIB:.1f} MiB, a snapshot holds at most"
        f" {max_bytes / _MIB:g} MiB. The largest: {largest(files)}. {way_out(root)}"
    )
    raise TooLarge(message)


def size_of(files: Iterable[PackedFile]) -> int:
    """Sum over files."""
    return sum(file.size_bytes for file in files)


# --- reading a folder without following anything ---------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """A regular file, met while its folder is open: valid until the walk goes on."""

    path: str
    status: os.stat_result
    folder_fd: int

    @property
    def executable(self) -> bool:
        return bool(self.status.st_mode & stat.S_IXUSR)

    def read(self, limit: int) -> tuple[bytes, os.stat_result] | None:
        """Content, and what was so when it was read; None where it has turned into something else."""
        name = self.path.rpartition("/")[2]
        # Never follow a link put here meanwhile, never wait for the writer of a FIFO.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=self.folder_fd)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(limit + 1)
            status = os.fstat(descriptor)
        return (data, status) if len(data) <= limit else None


def _walk(root: Path) -> Iterator[_Entry | ExcludedFile]:
    """Every file below ``root`` in a fixed order, or the reason why it stays behind."""
    if not root.is_dir():
        message = f"{root} is not a folder."
        raise BadRequest(message)
    ignored = read_ignored(root)
    for folder, folders, names, folder_fd in os.fwalk(root, follow_symlinks=False):
        relative = Path(folder).relative_to(root).as_posix()
        prefix = "" if relative == "." else f"{relative}/"
        kept = []
        for name in sorted(folders):
            reason = REASON if ignored.has(prefix + name) else _folder_reason(name, folder_fd)
            if reason is None:
                kept.append(name)
            else:
                wanted = reason in (_BY_NAME, REASON)
                yield ExcludedFile(path=prefix + name, size_bytes=0, reason=reason, linkable=wanted)
        folders[:] = kept
        for name in sorted(names):
            found = _file(prefix + name, name, folder_fd)
            if isinstance(found, _Entry) and ignored.has(found.path):
                size_bytes = found.status.st_size
                found = ExcludedFile(
                    path=found.path, size_bytes=size_bytes, reason=REASON, linkable=True
                )
            yield found


def _folder_reason(name: str, parent_fd: int) -> str | None:
    """Why a folder stays behind; None where it comes along."""
    try:
        status = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
    except OSError:
        return _UNREADABLE
    if stat.S_ISLNK(status.st_mode):
        return "is a link"
    if name.startswith("."):
        return HIDDEN
    if name in EXCLUDED_FOLDERS:
        return _MADE_ANEW
    if name == _CHECKPOINTS:
        return _BY_NAME
    return _inner_reason(name, parent_fd)


def _inner_reason(name: str, parent_fd: int) -> str | None:
    """Why a folder stays behind because of what lies in it."""
    mark = read_mark(name, parent_fd)
    if mark is not None:
        return f"{_RESULTS} {mark['job']}"
    try:
        os.stat(f"{name}/pyvenv.cfg", dir_fd=parent_fd, follow_symlinks=False)
    except OSError:
        return None if _may(os.R_OK | os.X_OK, name, parent_fd) else _UNREADABLE
    return "is a virtual environment"


def _may(mode: int, name: str, parent_fd: int) -> bool:
    """Whether it can be read: the walk would pass over it without a word."""
    effective = os.access in os.supports_effective_ids
    return os.access(name, mode, dir_fd=parent_fd, effective_ids=effective)


def _file(path: str, name: str, folder_fd: int) -> _Entry | ExcludedFile:
    try:
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except OSError:
        return ExcludedFile(path=path, size_bytes=0, reason=_UNREADABLE)
    reason, size_bytes, linkable = None, 0, False
    if stat.S_ISLNK(status.st_mode):
        reason = "is a link"
    elif not stat.S_ISREG(status.st_mode):
        reason = "is not a regular file"
    elif name.startswith("."):
        # Hidden files hold secrets more often than code.
        reason, size_bytes = HIDDEN, status.st_size
    elif status.st_size > MAX_FILE_BYTES:
        reason, size_bytes = f"is larger than {MAX_FILE_BYTES // _MIB} MiB", status.st_size
        linkable = True
    elif not _may(os.R_OK, name, folder_fd):
        reason, size_bytes = _UNREADABLE, status.st_size
    if reason is not None:
        return ExcludedFile(path=path, size_bytes=size_bytes, reason=reason, linkable=linkable)
    return _Entry(path=path, status=status, folder_fd=folder_fd)


def _tar(contents: Mapping[str, bytes], executable: set[str]) -> bytes:
    """One tar with nothing in it that depends on when, where or by whom it was made."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(contents):
            info = tarfile.TarInfo(path)
            info.size = len(contents[path])
            info.mode = 0o755 if path in executable else 0o644
            archive.addfile(info, io.BytesIO(contents[path]))
    return buffer.getvalue()
