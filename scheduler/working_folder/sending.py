"""A job's files as one tar on a pipe, for whoever fetches them with a command."""

from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path
from typing import IO

from gpucommons.scheduler.files.confined_files import MAX_MEMBERS, Refused
from gpucommons.scheduler.working_folder.changes import Baseline
from gpucommons.scheduler.working_folder.giving_back import Source, opened, source_of, sources


def send(run: Path, since: Baseline, to: IO[bytes], *, max_bytes: int, only: str = "") -> None:
    """Write all files that :func:`give_back` would copy; ``only`` one of them, however large it is.

    Raises
    ------
    Refused
        When they are more than are sent, or there is no such file; nothing was written then.
    """
    found = _one(run, since, only) if only else _all(run, since, max_bytes)
    with tarfile.open(fileobj=to, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for source in found:
            with os.fdopen(opened(source.root, source.file.path), "rb") as file:
                status = os.fstat(file.fileno())
                if stat.S_ISREG(status.st_mode):
                    member = tarfile.TarInfo(source.file.path)
                    member.size, member.mode = status.st_size, 0o644
                    archive.addfile(member, file)


def _one(run: Path, since: Baseline, path: str) -> list[Source]:
    found = source_of(run, since, path)
    if found is None:
        message = f"there is no file {path!r} among what it wrote"
        raise Refused(message)
    return [found]


def _all(run: Path, since: Baseline, max_bytes: int) -> list[Source]:
    found, _, more = sources(run, since, max_files=MAX_MEMBERS)
    total = sum(source.file.size_bytes for source in found)
    if more or total > max_bytes:
        message = (
            f"these are more files than are sent, {len(found):,} of {total >> 20:,} MiB or more; at"
            f" most {MAX_MEMBERS:,} of {max_bytes >> 20:,} MiB"
        )
        raise Refused(message)
    return found
