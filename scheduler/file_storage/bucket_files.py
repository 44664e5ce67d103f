"""Jobs' files in a bucket: pods get links, never credentials.

A link is for one object and made only for keys below the asking attempt's own folder, so what one
job may write is decided here and nowhere else. A checkpoint is there when all its parts are; their
sizes are compared with its receipt, its hash when somebody resumes from it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Checkpoint, Workload
from gpucommons.scheduler.errors import BadRequest, Conflict, TooLarge, Unavailable
from gpucommons.scheduler.file_storage.base import Changed, Storage, Stored, checked_key
from gpucommons.scheduler.file_storage.job_files import (
    LOOKED_BACK,
    ResultFile,
    attempt_folder,
    publish_latest,
    superseded,
    version_of,
)
from gpucommons.scheduler.files.confined_files import MAX_MEMBERS
from gpucommons.scheduler.working_folder.changes import CACHES, Baseline

#: Larger files go in parts: S3 takes 5 GB at once, and a part must travel within a link's hour.
PART_BYTES = 1 << 30
#: Links of one request; making them all takes a moment of the scheduler's.
MAX_PARTS = 2_000
#: Of one checkpoint, parts counted: their links come in one answer when somebody resumes from it.
MAX_CHECKPOINT_FILES = 10_000
_PART = ".gpucommons-part-"
#: The second number tells those of one step from each other; the later is the higher.
_STEP = re.compile(r"^checkpoints/step-(\d{1,16})(?:\.(\d{1,16}))?/")
_FOLDER = re.compile(r"^(results|work|checkpoints/step-\d{1,16}(\.\d{1,16})?)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketFiles:
    """See :class:`gpucommons.scheduler.file_storage.job_files.JobFiles`."""

    storage: Storage
    part_bytes: int = PART_BYTES
    upload_headers: Mapping[str, str] = field(default_factory=dict)

    def ready(self, workload: Workload, attempt: Attempt) -> None:
        """A bucket needs nothing."""

    def checkpoint_files(self, checkpoint: Checkpoint) -> list[models.DownloadView] | None:
        """Links to every part of every file."""
        return self._downloads(f"{attempt_folder(checkpoint.attempt_id)}/{checkpoint.path}")

    def _downloads(self, root: str) -> list[models.DownloadView]:
        files = self._files(root, most=MAX_CHECKPOINT_FILES)
        links = iter(self._links("GET", [part.key for parts in files.values() for part in parts]))
        return [
            models.DownloadView(
                path=path,
                size_bytes=sum(part.size_bytes for part in parts),
                links=[next(links) for _ in parts],
            )
            for path, parts in files.items()
        ]

    def _files(self, root: str, *, most: int = MAX_MEMBERS) -> dict[str, list[Stored]]:
        """Paths below a folder, each with its parts in order."""
        found: dict[str, list[Stored]] = defaultdict(list)
        for stored in sorted(self._below(root, most), key=lambda one: one.key):
            inside = stored.key.removeprefix(f"{root}/")
            found[inside.partition(f"/{_PART}")[0]].append(stored)
        return dict(found)

    def _below(self, root: str, most: int) -> list[Stored]:
        found = list(islice(self.storage.below(root), most + 1))
        if len(found) > most:
            message = f"{root} holds more than {most:,} files: pack them into fewer."
            raise TooLarge(message)
        return found

    def _links(self, method: str, keys: list[str]) -> list[str]:
        links = self.storage.links("PUT" if method == "PUT" else "GET", keys)
        if links is None:
            raise Unavailable("The jobs' storage makes no links: use S3, GCS or Azure with keys.")
        return links

    def uploads(self, attempt_id: AttemptId, request: models.UploadRequest) -> models.UploadList:
        """Links below the attempt's own folder."""
        if not _FOLDER.match(request.folder):
            message = (
                f"{request.folder!r} is no folder of an attempt: upload results, or a complete"
                " checkpoint (checkpoints/step-N)."
            )
            raise BadRequest(message)
        root = f"{attempt_folder(attempt_id)}/{request.folder}"
        wanted = sum(self._parts(file) for file in request.files)
        if wanted > MAX_PARTS:
            message = (
                f"These files go in {wanted:,} parts of {self.part_bytes:,} bytes; at most"
                f" {MAX_PARTS:,} are asked for at once: ask for fewer files."
            )
            raise TooLarge(message)
        keys = [self._keys(root, file) for file in request.files]
        links = iter(self._links("PUT", [key for parts in keys for key in parts]))
        return models.UploadList(
            files=[
                models.UploadView(
                    path=file.path,
                    links=[next(links) for _ in parts],
                    part_bytes=self.part_bytes,
                )
                for file, parts in zip(request.files, keys, strict=True)
            ],
            headers=dict(self.upload_headers),
        )

    def _keys(self, root: str, file: models.FileSize) -> list[str]:
        if any(part.startswith(_PART) for part in file.path.split("/")):
            message = f"{file.path!r} is a name of ours: rename the file."
            raise BadRequest(message)
        key = checked_key(f"{root}/{file.path}")
        if file.size_bytes <= self.part_bytes:
            return [key]
        return [f"{key}/{_PART}{number:05d}" for number in range(self._parts(file))]

    def _parts(self, file: models.FileSize) -> int:
        return max(1, -(-file.size_bytes // self.part_bytes))

    def check(self, checkpoint: Checkpoint) -> None:
        """Compare sizes: parts appear whole or not at all."""
        root = f"{attempt_folder(checkpoint.attempt_id)}/{checkpoint.path}"
        if not _STEP.match(f"{checkpoint.path}/"):
            message = f"{checkpoint.path!r} is no complete checkpoint: name it checkpoints/step-N."
            raise BadRequest(message)
        stored = sum(one.size_bytes for one in self._below(root, MAX_CHECKPOINT_FILES))
        if stored != checkpoint.size_bytes:
            message = (
                f"The checkpoint of step {checkpoint.step} has {checkpoint.size_bytes:,} bytes, but"
                f" {stored:,} are stored: upload all its files before its receipt."
            )
            raise Conflict(message)

    def accepted(self, workload: Workload) -> None:
        """Publish, then keep the newest ``checkpoints_kept``."""
        publish_latest(self.storage, workload)
        checkpoint = workload.checkpoint
        if checkpoint is None:
            return
        self._keep_newest(checkpoint, kept=workload.spec.checkpoints_kept)
        for attempt_id in superseded(workload):
            self._drop(f"{attempt_folder(attempt_id)}/checkpoints")

    def _keep_newest(self, checkpoint: Checkpoint, *, kept: int) -> None:
        """Count accepted ones only: what is later than the receipt's may be on its way."""
        root = attempt_folder(checkpoint.attempt_id)
        accepted = (checkpoint.step, version_of(checkpoint.path))
        keys: dict[tuple[int, int], list[str]] = defaultdict(list)
        for stored in self.storage.below(f"{root}/checkpoints"):
            found = _STEP.match(stored.key.removeprefix(f"{root}/"))
            if found is not None:
                keys[int(found[1]), int(found[2] or 0)].append(stored.key)
        there = sorted(one for one in keys if one <= accepted)
        # Of each step the one that was saved last.
        newest = dict(there)
        stays = set(list(newest.items())[-kept:])
        for one in there:
            if one not in stays:
                self.storage.delete(keys[one])

    def _drop(self, folder: str) -> None:
        self.storage.delete([stored.key for stored in self.storage.below(folder)])

    def work_files(self, workload: Workload, attempt: Attempt) -> list[models.DownloadView] | None:
        """Links to what the newest attempt changed whose files are all here."""
        for before in reversed(workload.attempts):
            is_earlier = before.number < attempt.number
            if is_earlier and self.storage.head(_kept(before.attempt_id)) is not None:
                return self._downloads(f"{attempt_folder(before.attempt_id)}/work")
        return []

    def keep(self, workload: Workload, attempt: Attempt, kept: models.KeptReport) -> None:
        """Compare sizes; then this is what the next attempt begins with, and the earlier ones go."""
        root = f"{attempt_folder(attempt.attempt_id)}/work"
        stored = sum(one.size_bytes for one in self._below(root, MAX_CHECKPOINT_FILES + MAX_PARTS))
        if stored != kept.size_bytes:
            message = (
                f"The working folder has {kept.size_bytes:,} bytes, but {stored:,} are stored: upload"
                " all its files first."
            )
            raise Conflict(message)
        with suppress(Changed):  # told before
            content = kept.model_dump_json().encode()
            self.storage.write(_kept(attempt.attempt_id), content, version=None)
        for before in workload.attempts[-LOOKED_BACK:]:
            if before.number < attempt.number:
                self._drop(f"{attempt_folder(before.attempt_id)}/work")
                self.storage.delete([_kept(before.attempt_id)])

    def results(self, attempt_id: AttemptId, since: Baseline) -> Iterator[ResultFile]:
        """Files and their parts; of the working folder only what changed was handed over."""
        root = attempt_folder(attempt_id)
        for folder in ("results", "work"):
            for path, parts in self._files(f"{root}/{folder}").items():
                if not CACHES.intersection(path.split("/")):
                    yield ResultFile(
                        path=path,
                        size_bytes=sum(part.size_bytes for part in parts),
                        chunks=partial(self._joined, parts),
                    )

    def _joined(self, parts: list[Stored]) -> Iterator[bytes]:
        for part in parts:
            yield from self.storage.chunks(part.key)

    def prune(self, *, needed: Callable[[str], bool], before_s: float) -> int:
        """By the newest object of each attempt."""
        newest: dict[str, float] = {}
        keys: dict[str, list[str]] = defaultdict(list)
        for stored in self.storage.below("attempts"):
            name = stored.key.split("/")[1]
            newest[name] = max(stored.modified_s, newest.get(name, 0.0))
            keys[name].append(stored.key)
        old = [name for name, at_s in newest.items() if at_s < before_s and not needed(name)]
        for name in old:
            self.storage.delete(keys[name])
        return len(old)


def _kept(attempt_id: AttemptId) -> str:
    """There once all that an attempt changed in its working folder is."""
    return f"{attempt_folder(attempt_id)}/work-is-kept"
