"""Results where people look: a new folder ``results/JOB/`` beside what was submitted.

It appears whole, under a name that nobody had: nothing that lay there before is touched. Copied by the
job's user, following no link. A file in it says whose results they are, so that a repeated copy finds
the first one, and later snapshots leave it out.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Self

from gpucommons.scheduler.files.confined_files import MAX_MEMBERS, Refused, add_file, open_folder
from gpucommons.scheduler.working_folder import words
from gpucommons.scheduler.working_folder.changes import (
    Baseline,
    ChangedFile,
    LeftOut,
    change_at,
    changes,
)

#: Beside the notebook or script.
FOLDER = "results"
#: In each folder of results.
MARK = ".gpucommons-results"
#: More files are counted, not named.
NAMED = 500
#: A home that is filled to the last byte lets nobody log in.
LEFT_FREE_BYTES = 64 << 20
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Whose results go where."""

    job: str
    job_id: str
    home: Path
    #: Below the home: results go to ``below/results/JOB``.
    below: str
    max_bytes: int
    max_files: int = MAX_MEMBERS


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of a job's files; where ``problem`` is set, nothing was copied."""

    #: Below the home; None where there is no such folder.
    folder: str | None = None
    #: The home itself, on this machine.
    home: str = ""
    problem: str = ""
    count: int = 0
    size_bytes: int = 0
    files: tuple[ChangedFile, ...] = ()
    left_out_count: int = 0
    left_out: tuple[LeftOut, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For the supervisor."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Read it back."""
        files = tuple(ChangedFile(**file) for file in document.pop("files"))
        left_out = tuple(LeftOut(**one) for one in document.pop("left_out"))
        return cls(**document, files=files, left_out=left_out)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A file, and the folder that it is below."""

    root: Path
    file: ChangedFile


@dataclass(kw_only=True, slots=True)
class _Chosen:
    sources: list[Source] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    more: bool = False

    @property
    def size_bytes(self) -> int:
        return sum(source.file.size_bytes for source in self.sources)


def give_back(run: Path, since: Baseline, wanted: Wanted) -> Outcome:
    """Copy what an attempt left below ``run`` to its owner's folder."""
    chosen = _chosen(run, since, wanted)
    if not chosen.sources:
        return _outcome(chosen, folder=None)
    place = "/".join((*_parts(wanted.below), FOLDER))
    try:
        _check_room(chosen.size_bytes, wanted)
        results = open_folder(wanted.home, (*_parts(wanted.below), FOLDER))
        try:
            name = _copied(results, chosen, wanted)
        finally:
            os.close(results)
    except OSError as error:
        reason = error.strerror or str(error)
        return _outcome(chosen, folder=None, problem=f"{place} cannot be written: {reason}")
    except Refused as error:
        return _outcome(chosen, folder=None, problem=str(error))
    return replace(_outcome(chosen, folder=f"{place}/{name}"), home=str(wanted.home))


def sources(
    run: Path, since: Baseline, *, max_files: int
) -> tuple[list[Source], list[LeftOut], bool]:
    """What a job calls results first, then what it wrote in its working folder."""
    found: list[Source] = []
    left_out: list[LeftOut] = []
    more = False
    for root, known in _places(run, since):
        seen = changes(root, known, max_files=max_files)
        named = {source.file.path for source in found}
        found += (Source(root=root, file=file) for file in seen.files if file.path not in named)
        left_out += (
            LeftOut(path=file.path, reason=f"has the name of a file in {FOLDER}/, which was taken")
            for file in seen.files
            if file.path in named
        )
        left_out += seen.left_out
        more = more or seen.more
    return found, left_out, more


def source_of(run: Path, since: Baseline, path: str) -> Source | None:
    """That one of them alone, also where they are more than are looked at."""
    for root, known in _places(run, since):
        file = change_at(root, path, known)
        if file is not None:
            return Source(root=root, file=file)
    return None


def _places(run: Path, since: Baseline) -> tuple[tuple[Path, Baseline], ...]:
    return (run / FOLDER, {}), (run / "work", since)


def _chosen(run: Path, since: Baseline, wanted: Wanted) -> _Chosen:
    """All of them, or the smallest that are within the limits."""
    found, left_out, more = sources(run, since, max_files=wanted.max_files)
    chosen = _Chosen(left_out=left_out, more=more)
    left = wanted.max_bytes
    for source in sorted(found, key=lambda one: one.file.size_bytes):
        left -= source.file.size_bytes
        if left < 0 or len(chosen.sources) == wanted.max_files:
            size = words.size(source.file.size_bytes)
            reason = (
                f"({size}) is beyond the {words.size(wanted.max_bytes)} that are copied for a job;"
                f" {_how_to_fetch(wanted.job, source.file.path)}"
            )
            chosen.left_out.append(LeftOut(path=source.file.path, reason=reason))
        else:
            chosen.sources.append(source)
    if more:
        reason = f"not looked at: there are more than {wanted.max_files:,} files"
        chosen.left_out.append(LeftOut(path="…", reason=reason))
    return chosen


def _how_to_fetch(job: str, path: str) -> str:
    """With the command, where its name can be typed."""
    if path.isprintable():
        option = f"--file{'=' if path.startswith('-') else ' '}{shlex.quote(path)}"
        return f"it is still with the job: gpucommons results {job} {option} --to FOLDER"
    return "it is still with the job; its name cannot be typed in a command"


def _outcome(chosen: _Chosen, *, folder: str | None, problem: str = "") -> Outcome:
    files = sorted((source.file for source in chosen.sources), key=lambda file: file.path)
    return Outcome(
        folder=folder,
        problem=problem,
        count=len(files),
        size_bytes=chosen.size_bytes,
        files=tuple(files[:NAMED]),
        left_out_count=len(chosen.left_out),
        left_out=tuple(chosen.left_out[:NAMED]),
    )


def _check_room(size_bytes: int, wanted: Wanted) -> None:
    free = shutil.disk_usage(wanted.home).free
    if free < size_bytes + LEFT_FREE_BYTES:
        message = (
            f"the files take {size_bytes >> 20:,} MiB, and {free >> 20:,} MiB are free on the disk"
            " of the home folder"
        )
        raise Refused(message)


def _copied(results: int, chosen: _Chosen, wanted: Wanted) -> str:
    """Copy into a new folder and give it its name; returns the name."""
    there = _earlier_copy(results, wanted)
    if there is not None:
        return there
    partial = f".{wanted.job}.{wanted.job_id}.partial"
    _drop(results, partial)
    os.mkdir(partial, 0o755, dir_fd=results)
    try:
        folder = os.open(partial, _FOLDER, dir_fd=results)
        try:
            for source in chosen.sources:
                _copy(source, folder, wanted)
            write_mark(folder, job=wanted.job, job_id=wanted.job_id)
        finally:
            os.close(folder)
        return _named(results, partial, wanted.job)
    except BaseException:
        _drop(results, partial)
        raise


def _copy(source: Source, folder: int, wanted: Wanted) -> None:
    *parts, name = source.file.path.split("/")
    reading = opened(source.root, source.file.path)
    try:
        into = _below(folder, parts)
        try:
            left = source.file.size_bytes
            add_file(into, name, lambda size: os.read(reading, size), left=left, job=wanted.job)
        finally:
            os.close(into)
    finally:
        os.close(reading)


def opened(root: Path, path: str) -> int:
    """Open a file below a folder step by step, following no link."""
    folder, parts = os.open(root, _FOLDER), path.split("/")
    for number, part in enumerate(parts):
        flags = _OPEN if number == len(parts) - 1 else _FOLDER
        try:
            below = os.open(part, flags, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    return folder


def _below(folder: int, parts: Iterable[str]) -> int:
    descriptor = os.dup(folder)
    for part in parts:
        with suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=descriptor)
        try:
            below = os.open(part, _FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def write_mark(folder: int, *, job: str, job_id: str) -> None:
    """Say in a folder whose results it holds."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_TRUNC
    with os.fdopen(os.open(MARK, flags, 0o644, dir_fd=folder), "w") as file:
        json.dump({"job": job, "job_id": job_id}, file)


def read_mark(name: str, results: int) -> dict[str, str] | None:
    """Whose results a folder holds; None where it is no such folder."""
    try:
        descriptor = _opened_at(results, (name, MARK))
        with os.fdopen(descriptor, "rb") as file:
            document = json.loads(file.read(4096))
        return {"job": str(document["job"]), "job_id": str(document["job_id"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _opened_at(folder: int, parts: tuple[str, str]) -> int:
    below = os.open(parts[0], _FOLDER, dir_fd=folder)
    try:
        return os.open(parts[1], _OPEN, dir_fd=below)
    finally:
        os.close(below)


def _names(job: str) -> Iterable[str]:
    yield job
    yield from (f"{job}.{number}" for number in count(2))


def _earlier_copy(results: int, wanted: Wanted) -> str | None:
    """The folder of a copy that was whole before somebody was killed."""
    for name in _names(wanted.job):
        mark = read_mark(name, results)
        if mark is not None and mark["job_id"] == wanted.job_id:
            return name
        if not _is_taken(results, name):
            return None
    return None


def _named(results: int, partial: str, job: str) -> str:
    """Give the folder the first name that is free: a rename replaces no folder that holds anything."""
    for name in _names(job):
        if not _is_taken(results, name):
            try:
                os.rename(partial, name, src_dir_fd=results, dst_dir_fd=results)
            except (FileExistsError, NotADirectoryError, OSError) as error:
                if _is_taken(results, name):
                    continue  # taken in this moment
                raise error from None
            return name
    raise AssertionError("names do not end")


def _is_taken(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _drop(results: int, name: str) -> None:
    with suppress(OSError):
        shutil.rmtree(name, dir_fd=results)


def _parts(below: str) -> tuple[str, ...]:
    return tuple(part for part in below.split("/") if part not in ("", "."))
