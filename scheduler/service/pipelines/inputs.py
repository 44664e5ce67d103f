"""The files that a step runs from: its own, and what it reads of other steps' results.

They become a snapshot like any other, named by its content: the same inputs give the same bytes, so a
step that is begun anew runs from the same, and its job tells which version of the data it had.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO

from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.errors import Misconfigured, TooLarge
from gpucommons.scheduler.files.confined_files import MAX_MEMBERS, ShortHeaders
from gpucommons.scheduler.files.snapshots import Receiving
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.jobs import snapshots
from gpucommons.scheduler.service.jobs.results import results
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.working_folder.pieces import Pieces

_CHUNK_BYTES = 1 << 20
_NAMED = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A file or folder of a job's results, and where it comes."""

    job: WorkloadId
    #: The step, for people.
    step: str
    path: str
    to: str


def with_inputs(
    service: Service, owner: Principal, base: str | None, wanted: Sequence[Wanted]
) -> str:
    """The snapshot of what a step runs from; it is its owner's.

    Raises
    ------
    Misconfigured
        When a job has not left what is wanted of it.
    TooLarge
        When it is more than a job may bring along.
    Unavailable, TooManyRequests
        While it cannot be read or stored.
    """
    with tempfile.TemporaryFile() as file:
        writing = _Writing(file=file, max_bytes=service.snapshots.max_bytes)
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for job in dict.fromkeys(each.job for each in wanted):
                of_job = [each for each in wanted if each.job == job]
                writing.take(archive, results(service, owner, job), of_job)
            if base is not None:
                writing.add_own(archive, service.snapshots.chunks(base))
        return _stored(service, owner, file)


def _stored(service: Service, owner: Principal, file: IO[bytes]) -> str:
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type] # a file
    file.seek(0)
    with snapshots.receive(service, owner, digest) as taking:
        # What its owner brought before is only compared.
        is_new = isinstance(taking, Receiving)
        if is_new:
            size_bytes = os.fstat(file.fileno()).st_size
            service.uploads.check(owner.name, size_bytes, now_ms=service.now_ms())
        while chunk := file.read(_CHUNK_BYTES):
            taking.write(chunk)
        if is_new:
            service.uploads.take(owner.name, taking.size_bytes, now_ms=service.now_ms())
        snapshots.finish(service, owner, digest, taking)
    return digest


@dataclass(kw_only=True, slots=True)
class _Writing:
    """One archive under way: names are taken once, and there is a bound."""

    file: IO[bytes]
    max_bytes: int
    names: set[str] = field(default_factory=set)
    size_bytes: int = 0

    def take(
        self, archive: tarfile.TarFile, chunks: Iterator[bytes], wanted: Sequence[Wanted]
    ) -> None:
        """What is wanted of one job's results."""
        found: set[str] = set()
        seen: list[str] = []
        for member, content in _members(chunks, wanted[0].step):
            seen.append(member.name)
            # At most one: what is wanted of one job does not overlap.
            each = next((one for one in wanted if _is_in(member.name, one.path)), None)
            if each is not None:
                found.add(each.path)
                below = PurePosixPath(member.name).relative_to(each.path)
                self._add(archive, str(PurePosixPath(each.to, below)), member, content)
        missing = next((each for each in wanted if each.path not in found), None)
        if missing is not None:
            message = (
                f"{missing.step} left no {missing.path}. It left"
                f" {', '.join(sorted(seen)[:_NAMED]) or 'nothing'}."
            )
            raise Misconfigured(message)

    def add_own(self, archive: tarfile.TarFile, chunks: Iterator[bytes]) -> None:
        """The step's own files, but those in whose place an input came."""
        for member, content in _members(chunks, "the step"):
            if member.name not in self.names:
                self._add(archive, member.name, member, content)

    def _add(
        self, archive: tarfile.TarFile, name: str, member: tarfile.TarInfo, content: IO[bytes]
    ) -> None:
        self.size_bytes += member.size
        if self.size_bytes > self.max_bytes:
            message = (
                f"Its files and inputs are more than the {self.max_bytes >> 20} MiB that a job may"
                " bring along: read what is large from its own place instead."
            )
            raise TooLarge(message)
        header = tarfile.TarInfo(name)
        header.size, header.mode = member.size, member.mode & 0o755
        archive.addfile(header, content)
        self.names.add(name)


def _members(chunks: Iterator[bytes], whose: str) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """Regular files with names that stay below their folder; anybody may have made that archive."""
    stream = io.BufferedReader(Pieces(chunks))
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=ShortHeaders) as archive:
            for number, member in enumerate(archive):
                if number >= MAX_MEMBERS:
                    message = (
                        f"The files of {whose} are more than the {MAX_MEMBERS:,} that are read:"
                        " leave them as one archive."
                    )
                    raise TooLarge(message)
                parts = PurePosixPath(member.name).parts
                content = archive.extractfile(member) if member.isreg() else None
                if content is not None and parts and ".." not in parts and parts[0] != "/":
                    yield member, content
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        # Python raises a bare ValueError for some headers.
        message = f"The files of {whose} cannot be read ({type(error).__name__}): begin it anew."
        raise Misconfigured(message) from None


def _is_in(name: str, path: str) -> bool:
    return path == "." or PurePosixPath(name).is_relative_to(path)
