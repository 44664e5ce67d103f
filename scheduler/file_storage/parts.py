"""What a scheduler keeps of jobs' files, by what its operator said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpucommons.scheduler.file_storage.bucket_files import BucketFiles
from gpucommons.scheduler.file_storage.job_files import JobFiles
from gpucommons.scheduler.file_storage.opening import folder_of, open_storage
from gpucommons.scheduler.file_storage.snapshots import StoredSnapshots
from gpucommons.scheduler.file_storage.volume_files import VolumeFiles
from gpucommons.scheduler.files.snapshots import SnapshotPlace, Snapshots


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageParts:
    """Snapshots, jobs' files, and how pods come by them."""

    snapshots: SnapshotPlace
    #: None = what a job away from its notebook makes ends with its pods.
    files: JobFiles | None = None
    #: For :class:`gpucommons.scheduler.executors.kubernetes.manifests.pod_files.PodPlace`.
    mode: str = "none"
    claim: str | None = None


def storage_parts(url: str, claim: str | None, state: Path, *, max_bytes: int) -> StorageParts:
    """Make the parts for ``--storage``; without one, snapshots lie in the state folder.

    Raises
    ------
    BadRequest, Unavailable
        When the storage cannot be used.
    """
    if not url:
        return StorageParts(snapshots=Snapshots(state / "snapshots", max_bytes=max_bytes))
    storage = open_storage(url)
    snapshots = StoredSnapshots(storage, state / "spool", max_bytes=max_bytes)
    folder = folder_of(url)
    if folder is not None:
        files = VolumeFiles(root=folder)
        return StorageParts(snapshots=snapshots, files=files, mode="volume", claim=claim)
    headers = getattr(storage, "upload_headers", {})
    bucket = BucketFiles(storage=storage, upload_headers=headers)
    return StorageParts(snapshots=snapshots, files=bucket, mode="links")
