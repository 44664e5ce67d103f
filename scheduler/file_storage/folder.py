"""Storage in a folder: a volume that every replica mounts.

Only for what the service itself writes. What users write lies in folders beside it and is read as
:mod:`gpucommons.scheduler.file_storage.volume_files` does.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from gpucommons.scheduler.errors import NotFound, Unavailable
from gpucommons.scheduler.file_storage.base import Changed, Stored, checked_key
from gpucommons.scheduler.files.durable_files import sync_folder, write_whole

_CHUNK_BYTES = 1 << 20
#: Of an object that somebody is writing.
_PARTIAL = ".partial-"


class FolderStorage:
    """See :class:`gpucommons.scheduler.file_storage.base.Storage`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        with _answering():
            root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _path(self, key: str) -> Path:
        return self._root / checked_key(key)

    def put(self, key: str, source: Path) -> None:
        """Store a file."""
        path = self._path(key)
        with _answering():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{_PARTIAL}{secrets.token_hex(8)}")
            try:
                with source.open("rb") as reading, partial.open("xb") as writing:
                    shutil.copyfileobj(reading, writing, _CHUNK_BYTES)
                    writing.flush()
                    os.fsync(writing.fileno())
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
            sync_folder(path.parent)

    def write(self, key: str, content: bytes, *, version: str | None) -> str:
        """Store something small on a condition."""
        path = self._path(key)
        with _answering(), self._alone():
            found = self.read(key)
            if (None if found is None else found[1]) != version:
                raise Changed
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
        return _version(content)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One writer at a time, on all machines that mount the volume; freed by a death."""
        descriptor = os.open(self._root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def read(self, key: str) -> tuple[bytes, str] | None:
        """Something small."""
        try:
            with _answering():
                content = self._path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return content, _version(content)

    def chunks(self, key: str) -> Iterator[bytes]:
        """An object piece by piece."""
        path = self._path(key)
        with _answering():
            try:
                file = path.open("rb")
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                message = f"There is nothing stored as {key}."
                raise NotFound(message) from None
            with file:
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk

    def head(self, key: str) -> Stored | None:
        """What is known of an object."""
        path = self._path(key)
        with _answering():
            return self._stored(path)

    def below(self, prefix: str) -> Iterator[Stored]:
        """Everything below a folder."""
        root = self._path(prefix)
        with _answering():
            for folder, _, names in os.walk(root, onerror=_unless_gone):
                for name in names:
                    found = None if name.startswith(_PARTIAL) else self._stored(Path(folder, name))
                    if found is not None:
                        yield found

    def _stored(self, path: Path) -> Stored | None:
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if path.is_dir():
            return None
        return Stored(
            key=path.relative_to(self._root).as_posix(),
            size_bytes=found.st_size,
            modified_s=found.st_mtime,
        )

    def delete(self, keys: Sequence[str]) -> None:
        """Delete."""
        for key in keys:
            path = self._path(key)
            with _answering():
                path.unlink(missing_ok=True)
                self._drop_empty(path.parent)

    def _drop_empty(self, folder: Path) -> None:
        while folder != self._root and folder.is_relative_to(self._root):
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent

    def links(self, method: Literal["GET", "PUT"], keys: Sequence[str]) -> list[str] | None:
        """A folder has no addresses."""
        return None


def _version(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


@contextmanager
def _answering() -> Iterator[None]:
    """A volume that is full, read-only or gone is ours to name."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        message = (
            f"The jobs' storage does not take or give files ({error.strerror}): tell your admin."
        )
        raise Unavailable(message) from error
