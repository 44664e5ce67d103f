"""The files that jobs run from, kept by content: one tar per hash, written once, never changed.

A name is proof of content, so an upload that was cut short or altered never gets one, and the same
files uploaded twice are stored once.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, Self

from gpucommons.scheduler.errors import BadRequest, NotFound, TooLarge, Unavailable
from gpucommons.scheduler.files.durable_files import sync_folder

#: Default cap on one snapshot.
MAX_SNAPSHOT_BYTES = 1 << 30
#: Uploads never take the last of the disk: the scheduler's own state lies there, too.
LEFT_FREE_BYTES = 1 << 30

_NAME = re.compile(r"[0-9a-f]{64}")
_CHUNK_BYTES = 1 << 20
_FULL = "The scheduler's disk is almost full, so it takes no files: tell your admin."


def is_name(sha256: str) -> bool:
    """Whether this could be a snapshot's name."""
    return bool(_NAME.fullmatch(sha256))


class SnapshotPlace(Protocol):
    """Where snapshots are kept."""

    max_bytes: int

    def receive(self, sha256: str) -> Receiving:
        """Begin an upload."""
        ...

    def has(self, sha256: str) -> bool:
        """Whether it is there."""
        ...

    def size_bytes(self, sha256: str) -> int:
        """How much it takes; 0 where it is not there."""
        ...

    def renew(self, sha256: str) -> bool:
        """Whether it is there; if so it stays, for whoever is about to use it."""
        ...

    def chunks(self, sha256: str) -> Iterator[bytes]:
        """Its bytes; raises ``NotFound``."""
        ...

    def link(self, sha256: str) -> str | None:
        """An address from which an attempt may fetch it; None = through the API alone."""
        ...

    def prune(self, *, needed: Callable[[str], bool], before_s: float) -> int:
        """Drop what is older and not needed; returns how many."""
        ...


class Receiving:
    """An upload under way; :meth:`finish` gives it its name, leaving the block drops it."""

    def __init__(
        self, folder: Path, *, sha256: str, max_bytes: int, has_room: Callable[[], bool]
    ) -> None:
        self._final = folder / f"{sha256}.tar"
        self._sha256 = sha256
        self._max_bytes = max_bytes
        self._has_room = has_room
        self._partial = folder / f".{sha256}.{secrets.token_hex(8)}"
        descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._digest = hashlib.sha256()
        self.size_bytes = 0
        #: Makes the whole upload durable.
        self.keep: Callable[[Path], None] = self._rename

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def write(self, chunk: bytes) -> None:
        """Take the next bytes.

        Raises
        ------
        TooLarge
            As soon as the cap is passed.
        Unavailable
            When others have filled the disk meanwhile.
        """
        self.size_bytes += len(chunk)
        if self.size_bytes > self._max_bytes:
            message = (
                f"The snapshot is larger than {self._max_bytes >> 20} MiB. Leave out data files;"
                " read them from their own place instead."
            )
            raise TooLarge(message)
        if not self._has_room():
            raise Unavailable(_FULL)
        self._digest.update(chunk)
        self._file.write(chunk)

    def finish(self) -> None:
        """Make it durable under its name.

        Raises
        ------
        BadRequest
            When the bytes are not those announced.
        """
        _check(self._digest.hexdigest(), self._sha256)
        self._file.flush()
        os.fsync(self._file.fileno())
        self.keep(self._partial)

    def _rename(self, whole: Path) -> None:
        whole.replace(self._final)
        sync_folder(self._final.parent)


class Comparing:
    """An upload of what its sender has brought before: nothing is stored, but every byte counts."""

    def __init__(self, *, sha256: str) -> None:
        self._sha256 = sha256
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        """Nothing is held."""

    def write(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.size_bytes += len(chunk)
        self._digest.update(chunk)

    def finish(self) -> None:
        """Compare.

        Raises
        ------
        BadRequest
            When the bytes are not those announced.
        """
        _check(self._digest.hexdigest(), self._sha256)


def _check(found: str, sha256: str) -> None:
    if found != sha256:
        message = f"The upload does not match its hash {sha256[:12]}…: send it again."
        raise BadRequest(message)


class Snapshots:
    """The folder of all snapshots."""

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = MAX_SNAPSHOT_BYTES,
        free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        self._folder = folder
        self._free_bytes = free_bytes
        self.max_bytes = max_bytes
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def receive(self, sha256: str) -> Receiving:
        """Begin an upload.

        Raises
        ------
        BadRequest
            When that is no hash.
        Unavailable
            When the disk is almost full.
        """
        if not is_name(sha256):
            message = f"{sha256[:80]!r} is not a SHA-256: 64 hexadecimal digits in lower case."
            raise BadRequest(message)
        if not self._has_room(self.max_bytes):
            raise Unavailable(_FULL)
        return Receiving(
            self._folder, sha256=sha256, max_bytes=self.max_bytes, has_room=self._has_room
        )

    def _has_room(self, size_bytes: int = 0) -> bool:
        return self._free_bytes(self._folder) >= size_bytes + LEFT_FREE_BYTES

    def put(self, sha256: str, chunks: Iterable[bytes]) -> int:
        """Store a whole upload; returns its size."""
        with self.receive(sha256) as receiving:
            for chunk in chunks:
                receiving.write(chunk)
            receiving.finish()
            return receiving.size_bytes

    def has(self, sha256: str) -> bool:
        """Whether it is there."""
        return is_name(sha256) and (self._folder / f"{sha256}.tar").is_file()

    def size_bytes(self, sha256: str) -> int:
        """How much it takes; 0 where it is not there."""
        try:
            return self.path(sha256).stat().st_size
        except (NotFound, FileNotFoundError):
            return 0

    def renew(self, sha256: str) -> bool:
        """Whether it is there; if so it counts as written now, for whoever is about to use it."""
        if not self.has(sha256):
            return False
        try:
            os.utime(self._folder / f"{sha256}.tar")
        except FileNotFoundError:
            return False
        return True

    def path(self, sha256: str) -> Path:
        """Where it lies.

        Raises
        ------
        NotFound
            When it was never uploaded, or is gone.
        """
        if not self.has(sha256):
            message = f"There is no snapshot {sha256[:12]}…: upload it first."
            raise NotFound(message)
        return self._folder / f"{sha256}.tar"

    def chunks(self, sha256: str) -> Iterator[bytes]:
        """Its bytes, for a job that runs elsewhere."""
        with self.path(sha256).open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    def link(self, sha256: str) -> str | None:
        """A folder has no addresses."""
        return None

    def prune(self, *, needed: Callable[[str], bool], before_s: float) -> int:
        """Delete snapshots written before ``before_s`` that nobody needs; returns how many."""
        dropped = 0
        for path in self._folder.iterdir():
            # Asked twice: while it is found out who needs it, a new upload may have renewed it.
            if _is_older(path, before_s) and not needed(path.stem) and _is_older(path, before_s):
                path.unlink(missing_ok=True)
                dropped += 1
        return dropped


def _is_older(path: Path, moment_s: float) -> bool:
    try:
        return path.stat().st_mtime < moment_s
    except FileNotFoundError:
        return False  # an upload that just ended
