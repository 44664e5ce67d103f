"""What jobs away from their notebooks keep: one contract for a shared volume and a bucket.

Attempt N writes only below ``attempts/<its id>/``; what a job's newest complete checkpoint is, is
published by the scheduler alone, as ``jobs/<job id>/latest``, and only forward.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Checkpoint, Workload
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.file_storage.base import Changed, Storage
from gpucommons.scheduler.working_folder.changes import Baseline

#: Whoever loses so many races with itself is in trouble.
_TRIES = 5
#: So many attempts back something may have been left over.
LOOKED_BACK = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultFile:
    """One file of a job's results."""

    path: str
    size_bytes: int
    chunks: Callable[[], Iterator[bytes]]


class JobFiles(Protocol):
    """Checkpoints and results of jobs whose pods come and go."""

    def ready(self, workload: Workload, attempt: Attempt) -> None:
        """Make what the attempt's pods find when they start; repeating it is harmless."""
        ...

    def checkpoint_files(self, checkpoint: Checkpoint) -> list[models.DownloadView] | None:
        """Links to a checkpoint's files; None where its folder is there without any."""
        ...

    def uploads(self, attempt_id: AttemptId, request: models.UploadRequest) -> models.UploadList:
        """Links with which this attempt, and it alone, hands files over.

        Raises
        ------
        Misconfigured
            Where there is nothing to upload to: files are written to the volume.
        """
        ...

    def check(self, checkpoint: Checkpoint) -> None:
        """See that a checkpoint is there, whole, before its receipt counts.

        Raises
        ------
        Conflict
            When it is not.
        """
        ...

    def accepted(self, workload: Workload) -> None:
        """Publish the workload's newest checkpoint and drop those that it need not keep."""
        ...

    def work_files(self, workload: Workload, attempt: Attempt) -> list[models.DownloadView] | None:
        """Links to what earlier attempts changed in the working folder; None where it is there."""
        ...

    def keep(self, workload: Workload, attempt: Attempt, kept: models.KeptReport) -> None:
        """The attempt has handed over what it changed in its working folder: see that it is there.

        Raises
        ------
        Conflict
            When it is not.
        """
        ...

    def results(self, attempt_id: AttemptId, since: Baseline) -> Iterator[ResultFile]:
        """The files of an attempt's results, and those of its working folder that are not as before."""
        ...

    def prune(self, *, needed: Callable[[str], bool], before_s: float) -> int:
        """Drop attempts older than that and not needed; returns how many."""
        ...


def version_of(path: str) -> int:
    """Which one of a step it is: 0 of ``checkpoints/step-5``, 7 of ``checkpoints/step-5.7``."""
    said = path.rpartition(".")[2]
    return int(said) if said.isascii() and said.isdecimal() else 0


def attempt_folder(attempt_id: AttemptId) -> str:
    """The one folder that an attempt may write."""
    return f"attempts/{attempt_id}"


def publish_latest(storage: Storage, workload: Workload) -> bool:
    """Say which checkpoint is the job's newest, unless a newer one was published; True if it was us.

    For a moment two schedulers may believe that they lead. The one that is behind either sees a
    newer checkpoint here and leaves it, or is refused by the condition and looks again.
    """
    checkpoint = workload.checkpoint
    if checkpoint is None:
        return False
    key = f"jobs/{workload.workload_id}/latest"
    numbers = {attempt.attempt_id: attempt.number for attempt in workload.attempts}
    document = {
        "attempt": numbers.get(checkpoint.attempt_id, 0),
        "step": checkpoint.step,
        "path": f"{attempt_folder(checkpoint.attempt_id)}/{checkpoint.path}",
        "size_bytes": checkpoint.size_bytes,
        "sha256": checkpoint.sha256,
    }
    for _ in range(_TRIES):
        found = storage.read(key)
        known = None if found is None else json.loads(found[0])
        if known is not None and (known == document or _order(known) > _order(document)):
            return False
        try:
            storage.write(
                key, json.dumps(document).encode(), version=None if found is None else found[1]
            )
        except Changed:
            continue
        return True
    message = f"The newest checkpoint of {workload.spec.name} could not be published; try again."
    raise Unavailable(message)


def _order(document: Mapping[str, Any]) -> list[int]:
    return [int(document["attempt"]), int(document["step"]), version_of(document["path"])]


def superseded(workload: Workload) -> tuple[AttemptId, ...]:
    """Recent attempts whose checkpoints nobody resumes from any more, the older ones being gone."""
    kept: set[AttemptId] = set()
    if workload.checkpoint is not None:
        kept.add(workload.checkpoint.attempt_id)
    current = workload.current
    if current is not None:
        kept.add(current.attempt_id)
        if current.resumed_from is not None:
            kept.add(current.resumed_from.attempt_id)
    return tuple(a.attempt_id for a in workload.attempts[-LOOKED_BACK:] if a.attempt_id not in kept)
