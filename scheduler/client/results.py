"""Results of a job that ran away from its notebook, brought to a folder of its owner's.

They are whatever the job's code wrote, so they are unpacked as the user, step by step, following no
link, regular files only, under a limit; nothing that lies there is replaced.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from gpucommons.scheduler.client.transport import SchedulerClient
from gpucommons.scheduler.errors import BadRequest, Conflict, Unavailable
from gpucommons.scheduler.files.confined_files import Refused, Selection, open_folder, unpack_into
from gpucommons.scheduler.files.job_file_limits import MAX_RESULTS_BYTES
from gpucommons.scheduler.models import JobView
from gpucommons.scheduler.working_folder.giving_back import write_mark
from gpucommons.scheduler.working_folder.pieces import Pieces

#: Who names a file wants it, however large it is: the disk is the limit.
_ANY_SIZE = 1 << 62


def fetch_results(
    scheduler: SchedulerClient,
    job: JobView,
    home: Path,
    below: str,
    *,
    max_bytes: int = MAX_RESULTS_BYTES,
) -> int:
    """Bring a job's results to ``home/below``; returns how many files.

    Raises
    ------
    SchedulerError
        When the scheduler refuses, the results do not come whole, or hold what is not taken.
    """
    with scheduler.stream(_path_of(job)) as chunks:
        return len(_unpacked(chunks, home, below, Selection(job=job.name, max_bytes=max_bytes)))


def fetch_one_result(scheduler: SchedulerClient, job: JobView, file: str, to: Path) -> str:
    """Bring one of them, also one that was too large for a copy; returns where it lies below ``to``.

    Raises
    ------
    SchedulerError
        As :func:`fetch_results` does, and when nothing came.
    """
    try:
        asked = quote(file, safe="")
    except UnicodeEncodeError:
        message = (
            f"{file!r} is not UTF-8, and a file can be asked for only by such a name. Bring all files"
            f" with: gpucommons results {job.name} --to FOLDER"
        )
        raise BadRequest(message) from None
    is_home = Path.home().exists() and to.samefile(Path.home())
    with scheduler.stream(f"{_path_of(job)}?file={asked}") as chunks:
        chosen = Selection(job=job.name, max_bytes=_ANY_SIZE, only=file, is_home=is_home)
        lie = _unpacked(chunks, to, ".", chosen)
    if not lie:
        message = f"{file} of {job.name} did not come: it is no regular file any more, or gone."
        raise Conflict(message)
    return lie[0]


def _path_of(job: JobView) -> str:
    return f"/v1/jobs/{quote(job.id, safe='')}/results"


def _unpacked(chunks: Iterator[bytes], home: Path, below: str, chosen: Selection) -> list[str]:
    try:
        return unpack_into(io.BufferedReader(Pieces(chunks)), home, below, chosen)
    except Refused as error:
        message = f"The results of {chosen.job} were not taken: {error}."
        raise BadRequest(message) from None
    except tarfile.TarError:
        message = (
            f"The results of {chosen.job} did not come whole: the connection broke, or a file changed"
            " while it was sent. Fetch them again."
        )
        raise Unavailable(message) from None
    except OSError as error:
        message = f"The results of {chosen.job} cannot be written to {below}: {error.strerror}."
        raise BadRequest(message) from None


def mark_results(home: Path, below: str, job: JobView) -> None:
    """Say that a folder is for this job's results alone: later snapshots leave it out."""
    parts = tuple(part for part in below.split("/") if part not in ("", "."))
    folder = open_folder(home, parts)
    try:
        write_mark(folder, job=job.name, job_id=job.id)
    finally:
        os.close(folder)
