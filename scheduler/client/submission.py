"""From a script, notebook or command to a job: the one way, for panel, widget, CLI and YAML alike.

What runs is a snapshot of a folder taken now; the command inside it depends only on what was asked.
So the same choice in any interface stores the same spec.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from gpucommons.scheduler.client.snapshot import ExcludedFile, Packed, Packing, pack
from gpucommons.scheduler.environments.finding import grounds_of, resolve
from gpucommons.scheduler.environments.reading import NoEnvironment, packages_in
from gpucommons.scheduler.errors import BadRequest, Misconfigured
from gpucommons.scheduler.launchers.launcher import NOTEBOOK_RUNNER
from gpucommons.scheduler.models import JobRequest
from gpucommons.scheduler.scripts.parameters import as_text, check_parameters
from gpucommons.scheduler.working_folder.ignored_files import IGNORE_FILE

SUFFIXES = (".ipynb", ".py", ".sh")
#: As many as a job may name.
MAX_LINKS = 64
#: The packages of the environment at submit, in the form that pip reads: kept with the snapshot.
LOCK_FILE = "gpucommons-packages.txt"


@dataclass(frozen=True, kw_only=True, slots=True)
class FileJob:
    """A file, module or command to run as a job."""

    #: Folder that becomes the snapshot.
    root: Path
    #: A script or notebook below ``root``, with forward slashes; "" where a module or command runs.
    path: str = ""
    arguments: tuple[str, ...] = ()
    #: A notebook's function that is called with the folder to resume.
    function: str | None = None
    #: A notebook's, by name.
    parameters: Mapping[str, Any] = field(default_factory=dict)
    #: A package or module, run as ``python -m``.
    module: str | None = None
    #: Any command, word by word.
    command: tuple[str, ...] = ()
    #: Large files that stay behind are linked from the home; else the job goes without them.
    links_left_out: bool = False
    #: Files that go along besides those of ``root``, by their place in it.
    beside: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What the job is named after."""
        return (
            self.path
            or self.module
            or next((word for word in self.command if word.endswith(SUFFIXES)), self.command[0])
        )


def command_for(job: FileJob) -> list[str]:
    """The command line inside the snapshot.

    Raises
    ------
    Misconfigured
        When this cannot run as a job, or something that was given would not reach it.
    """
    suffix = PurePosixPath(job.path).suffix
    if suffix != ".ipynb":
        _refuse_parameters(job)
    if job.command:
        return [*job.command, *job.arguments]
    if job.module is not None:
        return ["python", "-u", "-m", job.module, *job.arguments]
    if suffix == ".ipynb":
        if job.arguments:
            message = (
                f"A notebook takes no arguments ({job.arguments[0]}): give it parameters by name"
                " (-p NAME VALUE), for its cell tagged parameters."
            )
            raise Misconfigured(message)
        function = ["--function", job.function] if job.function else []
        parameters = ["--parameters", as_text(job.parameters)] if job.parameters else []
        return ["python", "-m", NOTEBOOK_RUNNER, job.path, *function, *parameters]
    if suffix == ".py":
        return ["python", "-u", job.path, *job.arguments]
    if suffix == ".sh":
        return ["sh", job.path, *job.arguments]
    message = (
        f"{job.path} cannot run as a job: choose a file that ends in {', '.join(SUFFIXES)}, or give"
        " a command (gpucommons submit -- COMMAND …)."
    )
    raise Misconfigured(message)


def _refuse_parameters(job: FileJob) -> None:
    given = "a function" if job.function else "parameters" if job.parameters else None
    if given is not None:
        message = f"{job.label} is no notebook, so it takes no {given.removeprefix('a ')}."
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
    *roles: Mapping[str, Any],
    max_bytes: int,
    packing: Packing = pack,
) -> tuple[JobRequest, Packed]:
    """Pack the folder and complete the request.

    Parameters
    ----------
    job
        What to run.
    options
        Fields of :class:`JobRequest` but ``roles`` and ``snapshot``.
    roles
        Fields of its roles; one that has no ``command`` of its own runs what the job does.
    max_bytes
        Largest snapshot.
    packing
        What packs the folder: :func:`~.documents.packed_once.packed_once` where several jobs run in it.

    Raises
    ------
    BadRequest
        When the file is missing, cannot run, or the folder cannot be packed.
    """
    command = command_for(job)
    try:
        _check_there(job)
    except OSError as error:
        message = f"{job.label[:100]} cannot be looked for in {job.root}: {error.strerror}."
        raise BadRequest(message) from None
    lock = lock_file(str(options.get("environment", "")))
    extra = {**job.beside, **({LOCK_FILE: lock} if lock else {})}
    packed = packing(job.root, max_bytes=max_bytes, extra=extra)
    if job.path and job.path not in {file.path for file in packed.files}:
        message = f"{job.path} is not among the files of {job.root} that can be packed."
        raise BadRequest(message)
    below = results_below(Path.home(), job.root)
    beside = {} if below is None else {"results_to": below}
    fields = {"name": default_name(job.label), **beside, **options}
    if job.links_left_out:
        fields |= links_of(job.root, packed.excluded, Path.home())
    commanded = [{"command": command, **role} for role in roles]
    request = JobRequest.model_validate({**fields, "roles": commanded, "snapshot": packed.sha256})
    return request, packed


def links_of(root: Path, excluded: Sequence[ExcludedFile], home: Path) -> dict[str, Any]:
    """Fields that link what stays behind and can be linked.

    Raises
    ------
    Misconfigured
        When the folder does not lie in the home, or too much of it stays behind.
    """
    paths = [file.path for file in excluded if file.linkable]
    if not paths:
        return {}
    root, home = root.resolve(), home.resolve()
    if not root.is_relative_to(home):
        message = (
            f"{paths[0]} cannot be linked: {root} does not lie in your home folder. Move it there, or"
            " go without."
        )
        raise Misconfigured(message)
    if len(paths) > MAX_LINKS:
        message = (
            f"{len(paths)} files and folders stay behind, and at most {MAX_LINKS} can be linked: put"
            f" them into one folder, and name that in {IGNORE_FILE}, or go without."
        )
        raise Misconfigured(message)
    return {"links": paths, "links_from": root.relative_to(home).as_posix()}


def lock_file(environment: str) -> bytes:
    """The packages of the environment that a job gets; b"" where it is not one of this machine."""
    try:
        chosen = resolve(environment, grounds_of(Path.home()))
    except NoEnvironment:
        return b""
    found = packages_in(sys.prefix if chosen is None else chosen.path)
    return "".join(f"{name}=={found[name]}\n" for name in sorted(found)).encode()


def _check_there(job: FileJob) -> None:
    """What is to run is there: said before a folder is packed."""
    if job.module is not None:
        parts = job.module.split(".")
        places = (
            job.root.joinpath(*parts, "__main__.py"),
            job.root.joinpath(*parts).with_suffix(".py"),
        )
        # Other modules may be installed in the environment.
        if (job.root / parts[0]).is_dir() and not any(place.is_file() for place in places):
            message = f"{job.module} cannot be run: {job.root / parts[0]} has no {places[0].name}."
            raise BadRequest(message)
        return
    if job.command:
        program = job.command[0]
        if "/" in program and not program.startswith("/") and not (job.root / program).is_file():
            message = f"There is no program {program} in {job.root}: name one that is there."
            raise BadRequest(message)
        return
    file = job.root / job.path
    if not file.is_file():
        message = f"There is no file {file}: name a script or notebook that is there."
        raise BadRequest(message)
    check_parameters(job.path, file.read_bytes() if job.parameters else b"", job.parameters)
