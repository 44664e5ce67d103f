"""Results of jobs that ran away from their notebook: one tar, made while it is sent."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from itertools import islice

from gpucommons.scheduler.confined_files import MAX_MEMBERS
from gpucommons.scheduler.core.types import Attempt, State, Workload
from gpucommons.scheduler.errors import Conflict, TooLarge
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.attempt_files import files_of
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.principal import Principal
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.storage.job_files import ResultFile

#: As much as is copied for a job of this machine.
MAX_RESULTS_BYTES = 16 << 30
_BLOCK = tarfile.BLOCKSIZE


def results(service: Service, principal: Principal, ref: str) -> Iterator[bytes]:
    """The results of a succeeded job as a tar.

    Raises
    ------
    Conflict
        When it has not succeeded, or its results are on its machine already.
    TooLarge
        When there is more than anybody would want in one piece.
    """
    found = find_job(service, principal, ref)
    authorization.results(principal, found)
    attempt = _succeeded(found)
    files = files_of(service, found, attempt)
    if files is None:
        place = found.spec.results_to or "its own folder"
        message = f"{found.spec.name} ran on this machine: its results lie in {place} already."
        raise Conflict(message)
    return archive(checked(files.results(attempt.attempt_id), found.spec.name))


def _succeeded(found: Workload) -> Attempt:
    if found.state is not State.SUCCEEDED or not found.attempts:
        message = f"{found.spec.name} is {found.state}: results come when it has succeeded."
        raise Conflict(message)
    return found.attempts[-1]


def checked(
    results_of: Iterable[ResultFile], name: str, *, max_bytes: int = MAX_RESULTS_BYTES
) -> tuple[ResultFile, ...]:
    """The files, if they are not too many; no more than that are looked at."""
    files = tuple(islice(results_of, MAX_MEMBERS + 1))
    total = sum(file.size_bytes for file in files)
    if total > max_bytes or len(files) > MAX_MEMBERS:
        message = (
            f"The results of {name} are more than are sent, {len(files):,} files of"
            f" {total >> 20:,} MiB or more; at most {MAX_MEMBERS:,} of {max_bytes >> 20:,} MiB."
        )
        raise TooLarge(message)
    return files


def archive(files: tuple[ResultFile, ...]) -> Iterator[bytes]:
    """A tar whose headers keep their word, even if somebody writes to the files meanwhile."""
    for file in files:
        header = tarfile.TarInfo(file.path)
        header.size, header.mode = file.size_bytes, 0o644
        yield header.tobuf(tarfile.PAX_FORMAT)
        left = file.size_bytes
        for chunk in file.chunks():
            yield chunk[:left]
            left -= min(left, len(chunk))
            if not left:
                break
        yield b"\0" * (left + -file.size_bytes % _BLOCK)
    yield b"\0" * (2 * _BLOCK)
