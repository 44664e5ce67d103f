"""A job's files as one tar on a pipe, for whoever fetches them with a command."""

from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path
from typing import IO

from gpucommons.scheduler.files.confined_files import MAX_MEMBERS, Refused
from gpucommons.scheduler.working_folder.changes import Baseline
from gpucommons.scheduler.working_folder.giving_back import opened, sources


def send(run: Path, since: Baseline, to: IO[bytes], *, max_bytes: int, only: str = "") -> None:
    """Write all files that :func:`give_back` would copy; ``only`` one of them, however large it is.

    Raises
    ------
    Refused
        When they are more than are sent, or there is no such file; nothing was written then.
    """
    found, _, more = sources(run, since, max_files=MAX_MEMBERS)
    total = sum(source.file.size_bytes for source in found)
    if only:
        found = [source for source in found if source.file.path == only]
        if not found:
            message = f"there is no file {only!r} among what it wrote"
            raise Refused(message)
    elif more or total > max_bytes:
        message = (
            f"these are more files than are sent, {len(found):,} of {total >> 20:,} MiB or more; at"
            f" most {MAX_MEMBERS:,} of {max_bytes >> 20:,} MiB"
        )
        raise Refused(message)
    with tarfile.open(fileobj=to, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for source in found:
            with os.fdopen(opened(source.root, source.file.path), "rb") as file:
                status = os.fstat(file.fileno())
                if stat.S_ISREG(status.st_mode):
                    member = tarfile.TarInfo(source.file.path)
                    member.size, member.mode = status.st_size, 0o644
                    archive.addfile(member, file)
