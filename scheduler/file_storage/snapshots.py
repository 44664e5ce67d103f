"""Snapshots in a storage that all replicas reach, under the same rules as in a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gpucommons.scheduler.errors import NotFound
from gpucommons.scheduler.file_storage.base import Storage
from gpucommons.scheduler.files.snapshots import MAX_SNAPSHOT_BYTES, Receiving, Snapshots, is_name


class StoredSnapshots:
    """See :class:`gpucommons.scheduler.files.snapshots.SnapshotPlace`; uploads are spooled on disk."""

    def __init__(
        self, storage: Storage, spool: Path, *, max_bytes: int = MAX_SNAPSHOT_BYTES
    ) -> None:
        self._storage = storage
        self._spool = Snapshots(spool, max_bytes=max_bytes)
        self.max_bytes = max_bytes

    def receive(self, sha256: str) -> Receiving:
        """Begin an upload."""
        receiving = self._spool.receive(sha256)
        receiving.keep = lambda path: self._storage.put(_key(sha256), path)
        return receiving

    def has(self, sha256: str) -> bool:
        """Whether it is there."""
        return is_name(sha256) and self._storage.head(_key(sha256)) is not None

    def size_bytes(self, sha256: str) -> int:
        """How much it takes; 0 where it is not there."""
        found = self._storage.head(_key(sha256)) if is_name(sha256) else None
        return 0 if found is None else found.size_bytes

    def renew(self, sha256: str) -> bool:
        """Whether it is there and will stay.

        A storage cannot make an object young again, so one that is old is taken anew.
        """
        found = self._storage.head(_key(sha256)) if is_name(sha256) else None
        return found is not None and found.modified_s > time.time() - _YOUNG_S

    def chunks(self, sha256: str) -> Iterator[bytes]:
        """Its bytes.

        Raises
        ------
        NotFound
            When it was never uploaded, or is gone.
        """
        if not is_name(sha256):
            message = f"There is no snapshot {sha256[:12]}…: upload it first."
            raise NotFound(message)
        return self._storage.chunks(_key(sha256))

    def link(self, sha256: str) -> str | None:
        """Where a pod may fetch it without us; None where it comes through the API."""
        links = self._storage.links("GET", [_key(sha256)])
        return None if links is None else links[0]

    def prune(self, *, needed: Callable[[str], bool], before_s: float) -> int:
        """Delete what was written before ``before_s`` and nobody needs; returns how many."""
        old = [
            one.key
            for one in self._storage.below("snapshots")
            if one.modified_s < before_s and not needed(Path(one.key).stem)
        ]
        self._storage.delete(old)
        return len(old)


#: What nobody needs goes after a day; what is younger than half of one stays until it is needed.
_YOUNG_S = 43_200


def _key(sha256: str) -> str:
    return f"snapshots/{sha256}.tar"
