"""Jobs' files on a volume that scheduler and pods mount: each pod sees its own attempt's folder.

A pod gets ``attempts/<id>`` by sub-path, so a link that a job lays there leads, inside the pod, to
nothing of anybody else's. Here the whole volume is in sight: below an attempt's folder nothing is
opened but step by step without following links, and only regular files are read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Checkpoint, Workload
from gpucommons.scheduler.errors import Conflict, Misconfigured, TooLarge, Unavailable
from gpucommons.scheduler.file_storage.base import Storage, checked_key
from gpucommons.scheduler.file_storage.folder import FolderStorage
from gpucommons.scheduler.file_storage.job_files import (
    ResultFile,
    attempt_folder,
    publish_latest,
    superseded,
)
from gpucommons.scheduler.files.confined_files import MAX_DEPTH, MAX_MEMBERS, remove, too_deep
from gpucommons.scheduler.working_folder.changes import Baseline, changes
from gpucommons.scheduler.working_folder.own_image import NAME as IMAGE
from gpucommons.scheduler.working_folder.taking_over import NAME as WORK
from gpucommons.scheduler.working_folder.taking_over import take_over

_CHUNK_BYTES = 1 << 20
#: Pods of jobs write as a member of the scheduler's own group (``fsGroup``).
_SHARED = 0o2770


@dataclass(frozen=True, kw_only=True, slots=True)
class VolumeFiles:
    """See :class:`gpucommons.scheduler.file_storage.job_files.JobFiles`."""

    root: Path

    @property
    def _storage(self) -> Storage:
        return FolderStorage(self.root)

    def _attempt(self, attempt_id: AttemptId) -> Path:
        return self.root / checked_key(attempt_folder(attempt_id))

    def ready(self, workload: Workload, attempt: Attempt) -> None:
        """Make the folder that the pods mount, writable for the group that they run in."""
        folder = self._attempt(attempt.attempt_id)
        try:
            folder.mkdir(mode=0o770, parents=True, exist_ok=True)
            folder.chmod(_SHARED)
            before = (one for one in reversed(workload.attempts) if one.number < attempt.number)
            earlier = [self._attempt(one.attempt_id) for one in before]
            take_over(folder, earlier)
            # Whether it is what was promised, its pod finds out.
            take_over(folder, earlier, IMAGE)
        except OSError as error:
            message = f"The jobs' volume takes no folder ({error.strerror}): tell your admin."
            raise Unavailable(message) from error

    def checkpoint_files(self, checkpoint: Checkpoint) -> list[models.DownloadView] | None:
        """It lies there."""
        return None

    def uploads(self, attempt_id: AttemptId, request: models.UploadRequest) -> models.UploadList:
        """There is nothing to upload to."""
        message = "Files of this job are kept by writing them below GPUCOMMONS_ATTEMPT_DIR."
        raise Misconfigured(message)

    def check(self, checkpoint: Checkpoint) -> None:
        """See that its folder is there under its final name."""
        folder = self._attempt(checkpoint.attempt_id)
        try:
            os.close(_open_below(folder, checkpoint.path))
        except OSError:
            message = f"There is no {checkpoint.path} in the attempt's folder: write it first."
            raise Conflict(message) from None

    def accepted(self, workload: Workload) -> None:
        """Publish; jobs drop old checkpoints themselves, those of earlier attempts go here."""
        publish_latest(self._storage, workload)
        for attempt_id in superseded(workload):
            remove(self._attempt(attempt_id) / "checkpoints")

    def work_files(self, workload: Workload, attempt: Attempt) -> list[models.DownloadView] | None:
        """They lie there."""
        return None

    def keep(self, workload: Workload, attempt: Attempt, kept: models.KeptReport) -> None:
        """They lie there."""

    def results(self, attempt_id: AttemptId, since: Baseline) -> Iterator[ResultFile]:
        """Regular files below ``results``, then what changed in the working folder.

        Raises
        ------
        TooLarge
            When there are more folders in one another than a walk may go through.
        """
        yield from self._called_results(attempt_id)
        for file in changes(
            self._attempt(attempt_id) / WORK, since, max_files=MAX_MEMBERS + 1
        ).files:
            yield ResultFile(
                path=file.path,
                size_bytes=file.size_bytes,
                chunks=partial(self._read, attempt_id, f"{WORK}/{file.path}"),
            )

    def _called_results(self, attempt_id: AttemptId) -> Iterator[ResultFile]:
        try:
            top = _open_below(self._attempt(attempt_id), "results")
        except OSError:
            return
        try:
            for folder, below, names, descriptor in os.fwalk(
                ".", dir_fd=top, follow_symlinks=False
            ):
                if below and folder.count("/") >= MAX_DEPTH:
                    message = f"Nothing is sent: {too_deep(below[0])}."
                    raise TooLarge(message)
                for name in sorted(names):
                    found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode):
                        path = os.path.normpath(f"{folder}/{name}")
                        yield ResultFile(
                            path=path,
                            size_bytes=found.st_size,
                            chunks=partial(self._read, attempt_id, f"results/{path}"),
                        )
        finally:
            os.close(top)

    def _read(self, attempt_id: AttemptId, path: str) -> Iterator[bytes]:
        folder, _, name = path.rpartition("/")
        with _opened(self._attempt(attempt_id), folder) as descriptor:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
        with os.fdopen(file, "rb") as reading:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return
            while chunk := reading.read(_CHUNK_BYTES):
                yield chunk

    def prune(self, *, needed: Callable[[str], bool], before_s: float) -> int:
        """By the time an attempt's folder last changed."""
        removed = 0
        with suppress(FileNotFoundError):
            for entry in list(os.scandir(self.root / "attempts")):
                old = entry.stat(follow_symlinks=False).st_mtime < before_s
                if old and entry.is_dir(follow_symlinks=False) and not needed(entry.name):
                    remove(Path(entry.path))
                    removed += 1
        return removed


def _open_below(folder: Path, path: str) -> int:
    """Open a folder below another step by step, following no link."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    for part in path.split("/"):
        if part in ("", "."):
            continue
        try:
            if part == "..":
                raise NotADirectoryError(path)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


@contextmanager
def _opened(folder: Path, path: str) -> Iterator[int]:
    descriptor = _open_below(folder, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
