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
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from gpucommons.scheduler.durable_files import sync_folder
from gpucommons.scheduler.errors import BadRequest, NotFound, TooLarge, Unavailable

#: Default cap on one snapshot.
MAX_SNAPSHOT_BYTES = 1 << 30
#: Uploads never take the last of the disk: the scheduler's own state lies there, too.
LEFT_FREE_BYTES = 1 << 30

_NAME = re.compile(r"[0-9a-f]{64}")


class Receiving:
    """An upload under way; :meth:`finish` gives it its name, leaving the block drops it."""

    def __init__(self, folder: Path, *, sha256: str, max_bytes: int) -> None:
        self._final = folder / f"{sha256}.tar"
        self._sha256 = sha256
        self._max_bytes = max_bytes
        self._partial = folder / f".{sha256}.{secrets.token_hex(8)}"
        descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def write(self, chunk: bytes) -> None:
        """Take the next bytes.

        Raises
        ------
        TooLarge
            As soon as the cap is passed.
        """
        self.size_bytes += len(chunk)
        if self.size_bytes > self._max_bytes:
            message = (
                f"The snapshot is larger than {self._max_bytes >> 20} MiB. Leave out data files;"
                " read them from their own place instead."
            )
            raise TooLarge(message)
        self._digest.update(chunk)
        self._file.write(chunk)

    def finish(self) -> None:
        """Make it durable under its name.

        Raises
        ------
        BadRequest
            When the bytes are not those announced.
        """
        if self._digest.hexdigest() != self._sha256:
            message = f"The upload does not match its hash {self._sha256[:12]}…: send it again."
            raise BadRequest(message)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._partial.replace(self._final)
        sync_folder(self._final.parent)


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
        if not _NAME.fullmatch(sha256):
            message = f"{sha256[:80]!r} is not a SHA-256: 64 hexadecimal digits in lower case."
            raise BadRequest(message)
        if self._free_bytes(self._folder) < self.max_bytes + LEFT_FREE_BYTES:
            message = "The scheduler's disk is almost full, so it takes no files: tell your admin."
            raise Unavailable(message)
        return Receiving(self._folder, sha256=sha256, max_bytes=self.max_bytes)

    def put(self, sha256: str, chunks: Iterable[bytes]) -> int:
        """Store a whole upload; returns its size."""
        with self.receive(sha256) as receiving:
            for chunk in chunks:
                receiving.write(chunk)
            receiving.finish()
            return receiving.size_bytes

    def has(self, sha256: str) -> bool:
        """Whether it is there."""
        return bool(_NAME.fullmatch(sha256)) and (self._folder / f"{sha256}.tar").is_file()

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

    def prune(self, *, needed: Callable[[str], bool], before_s: float) -> int:
        """Delete snapshots written before ``before_s`` that nobody needs; returns how many."""
        dropped = 0
        for path in self._folder.iterdir():
            if path.stat().st_mtime < before_s and not needed(path.stem):
                path.unlink(missing_ok=True)
                dropped += 1
        return dropped
