"""From a script or notebook to a job: the one way, for panel, widget, CLI and YAML alike.

What runs is a snapshot of the file's folder taken now; the command inside it depends only on the
file's name. So the same choice at any door stores the same spec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from gpucommons.scheduler.client.snapshot import Packed, pack
from gpucommons.scheduler.errors import BadRequest, Misconfigured
from gpucommons.scheduler.models import JobRequest

NOTEBOOK_RUNNER = "gpucommons.scheduler.training.notebook"
SUFFIXES = (".ipynb", ".py", ".sh")


@dataclass(frozen=True, kw_only=True, slots=True)
class FileJob:
    """A file to run as a job."""

    #: Folder that becomes the snapshot.
    root: Path
    #: Below ``root``, with forward slashes.
    path: str
    arguments: tuple[str, ...] = ()
    #: A notebook's function that is called with the folder to resume.
    function: str | None = None


def command_for(job: FileJob) -> list[str]:
    """The command line inside the snapshot.

    Raises
    ------
    Misconfigured
        When the file is of a kind that cannot run as a job.
    """
    suffix = PurePosixPath(job.path).suffix
    if suffix == ".ipynb":
        function = ["--function", job.function] if job.function else []
        return ["python", "-m", NOTEBOOK_RUNNER, job.path, *function, *job.arguments]
    if suffix == ".py":
        return ["python", "-u", job.path, *job.arguments]
    if suffix == ".sh":
        return ["sh", job.path, *job.arguments]
    message = f"{job.path} cannot run as a job: choose a file that ends in {', '.join(SUFFIXES)}."
    raise Misconfigured(message)


def default_name(path: str) -> str:
    """A readable name made from a file's: ``train_digits.py`` → ``train-digits``."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in PurePosixPath(path).stem)
    return "-".join(part for part in kept.lower().split("-") if part)[:40].strip("-") or "job"


def results_below(home: Path, folder: Path) -> str | None:
    """Where results come back to: the file's folder, as seen from the owner's home.

    None where it lies elsewhere; results then come to the home folder itself.
    """
    home, folder = home.resolve(), folder.resolve()
    return folder.relative_to(home).as_posix() if folder.is_relative_to(home) else None


def request_for_file(
    job: FileJob,
    options: Mapping[str, Any],
    role: Mapping[str, Any],
    *,
    max_bytes: int,
    extra: Mapping[str, bytes] | None = None,
) -> tuple[JobRequest, Packed]:
    """Pack the folder and complete the request.

    Parameters
    ----------
    job
        What to run.
    options
        Fields of :class:`JobRequest` but ``roles`` and ``snapshot``.
    role
        Fields of its one role but ``command``.
    max_bytes
        Largest snapshot.
    extra
        Files that join the snapshot (a lock file of the notebook's packages).

    Raises
    ------
    BadRequest
        When the file is missing, cannot run, or the folder cannot be packed.
    """
    command = command_for(job)
    if not (job.root / job.path).is_file():
        message = (
            f"There is no file {job.root / job.path}: name a script or notebook that is there."
        )
        raise BadRequest(message)
    packed = pack(job.root, max_bytes=max_bytes, extra=extra)
    if job.path not in {file.path for file in packed.files}:
        message = f"{job.path} is not among the files of {job.root} that can be packed."
        raise BadRequest(message)
    below = results_below(Path.home(), job.root)
    beside = {} if below is None else {"results_to": below}
    fields = {"name": default_name(job.path), **beside, **options}
    roles: Sequence[Mapping[str, Any]] = [{**role, "command": command}]
    request = JobRequest.model_validate({**fields, "roles": roles, "snapshot": packed.sha256})
    return request, packed
