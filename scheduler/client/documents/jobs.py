"""Jobs in YAML files, and inside other files: what runs, the request, and the folder that goes along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpucommons.scheduler import models
from gpucommons.scheduler.client.documents.mappings import mapping_in, read_content
from gpucommons.scheduler.client.snapshot import Packed, Packing, pack
from gpucommons.scheduler.client.submission import FileJob, request_for_file
from gpucommons.scheduler.errors import BadRequest, TooLarge
from gpucommons.scheduler.models.text.yaml_errors import field_sentences

#: Of a job in a file, beside the API's.
OF_A_FILE = ("run", "module", "folder", "arguments", "function", "parameters", "left_out")
#: In a file: nothing goes along with a command.
NO_FOLDER = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What may be read for a job."""

    #: Largest folder that goes along.
    max_bytes: int
    #: Nothing outside of this folder, and no hidden folder in it, where one is given.
    within: Path | None = None
    #: All folders of a file together.
    most_bytes: int | None = None
    #: What packs a folder.
    packing: Packing = pack
    #: Fields that the file has beside the job's, and that were taken out.
    beside: tuple[str, ...] = ()


def read_job(
    path: Path,
    *,
    max_bytes: int,
    also: Mapping[str, Any] | None = None,
    left_out: str = "without",
) -> tuple[FileJob | None, models.JobRequest, Packed | None]:
    """Read a job: the fields of the API, and ``run: FILE`` for a script beside it, or ``module: NAME``.

    A TrainingJob's manifest is taken as its spec, and takes no files along. ``also`` are fields that the file may leave out;
    with ``run``, ``left_out`` is one of them.

    Returns
    -------
    What is to run from a folder, the request, and the packed folder.

    Raises
    ------
    BadRequest
        When the file is no mapping or names no script that exists.
    """
    content = read_content(path)
    document = mapping_in(content, path, of="a job's fields (name, run, roles, …)")
    is_manifest = "apiVersion" in document
    if is_manifest:
        # The same file for both: what kubectl applies, we submit.
        document = {"folder": NO_FOLDER, **spec_of(document)}
    document = {**(also or {}), **document}
    try:
        return _read(path, {"left_out": left_out, **document}, Bounds(max_bytes=max_bytes))
    except ValidationError as error:
        below = ("spec",) if is_manifest else ()
        message = f"{path}: {field_sentences(content, error, below=below, also=OF_A_FILE)}"
        raise BadRequest(message) from None


def request_of_mapping(
    path: Path,
    fields: dict[str, Any],
    *,
    where: str,
    at: tuple[str, ...] = (),
    bounds: Bounds,
) -> tuple[FileJob | None, models.JobRequest, Packed | None]:
    """A job that is written inside a file, as one in a file of its own.

    ``where`` names it in a sentence, ``at`` are the fields that lead to it.

    Returns
    -------
    See :func:`read_job`.

    Raises
    ------
    BadRequest
        See :func:`read_job`.
    """
    try:
        return _read(path, {"left_out": "without", **fields}, bounds)
    except ValidationError as error:
        content = read_content(path)
        said = field_sentences(content, error, below=at, also=(*OF_A_FILE, *bounds.beside))
        message = f"{where}: {said}"
        raise BadRequest(message) from None


def spec_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The job of a TrainingJob's manifest as files have it: named by its object, unless it names itself.

    Raises
    ------
    BadRequest
        When it is no TrainingJob, or has no spec.
    """
    kind, spec = manifest.get("kind"), manifest.get("spec")
    meta = manifest.get("metadata")
    if kind != "TrainingJob" or not isinstance(spec, Mapping) or not isinstance(meta, Mapping):
        message = f"{kind} is no TrainingJob with metadata and spec: only those are jobs."
        raise BadRequest(message)
    return {"name": meta.get("name", "job"), **spec}


def _read(
    path: Path, document: dict[str, Any], bounds: Bounds
) -> tuple[FileJob | None, models.JobRequest, Packed | None]:
    folder = _folder(path, document)
    if "run" in document or "module" in document:
        job, roles, fields = _of_run(path, document, folder)
    elif folder is not None and _is_command(document):
        # As with ``submit -- COMMAND``: the folder goes along.
        job = FileJob(
            root=folder,
            command=tuple(document["roles"][0]["command"]),
            links_left_out=_choice(path, document.pop("left_out")),
        )
        roles, fields = document.pop("roles"), document
    else:
        del document["left_out"]
        return None, models.JobRequest.model_validate(document), None
    _check_places(path, job, bounds.within)
    try:
        return job, *request_for_file(
            job, fields, *roles, max_bytes=bounds.max_bytes, packing=bounds.packing
        )
    except TooLarge as error:
        if not job.command:
            raise
        message = f"{error} A command that needs no files has folder: none in {path.name}."
        raise TooLarge(message) from None


def _check_places(path: Path, job: FileJob, within: Path | None) -> None:
    """What is read can be looked for, and stays inside with every link followed."""
    for field, named in (("folder", job.root), ("run", job.root / job.path)):
        found = _resolved(path, field, named)
        if within is None:
            continue
        inside = within.resolve()
        if not found.is_relative_to(inside):
            message = (
                f"{path} names {named}, which is outside of {within}: name what lies inside it, or run"
                " this file from a terminal."
            )
            raise BadRequest(message)
        if any(part.startswith(".") for part in found.relative_to(inside).parts):
            message = (
                f"{path} names {named}, which is hidden: hidden files hold secrets more often than"
                " code, and do not go along. Name another, or run this file from a terminal."
            )
            raise BadRequest(message)


def _resolved(path: Path, field: str, named: Path) -> Path:
    """Where it lies, with every link followed, or would lie.

    Raises
    ------
    BadRequest
        Where no file can be called so, links lead in a circle, or nobody lets us look.
    """
    try:
        found = named.resolve()
        found.exists()  # which finds that a name is too long
    except (OSError, ValueError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        message = f"{path}: {field}: there is no such place ({why}): name one that is there."
        raise BadRequest(message) from None
    return found


def _is_command(document: Mapping[str, Any]) -> bool:
    """Each role says what it runs, and nothing else says which files there are."""
    roles = document.get("roles")
    return (
        "snapshot" not in document
        and isinstance(roles, list)
        and bool(roles)
        and all(
            isinstance(role, dict)
            and isinstance(command := role.get("command"), list)
            and command
            and all(isinstance(word, str) for word in command)
            for role in roles
        )
    )


def _folder(path: Path, document: dict[str, Any]) -> Path | None:
    """What goes along with a module or command: the file's own folder, the one it names, or none.

    Raises
    ------
    BadRequest
        Where it is no folder, or is given beside a script, whose place is beside the file.
    """
    here = path.resolve().parent
    if "folder" not in document:
        return here
    named = _text(path, document.pop("folder"), "folder", "a folder, or none")
    if "run" in document or (named == NO_FOLDER and "module" in document):
        message = (
            f"{path}: folder is for what has no file of its own to start: leave it out beside run,"
            " and beside module name the folder that the module is in."
        )
        raise BadRequest(message)
    if named == NO_FOLDER:
        return None
    found = _resolved(path, "folder", here / named)
    if not found.is_dir():
        message = f"{path}: folder: there is no folder {found}. Name one that is there, or none."
        raise BadRequest(message)
    return found


def _of_run(
    path: Path, document: dict[str, Any], folder: Path | None
) -> tuple[FileJob, list[dict[str, Any]], dict[str, Any]]:
    """What a file names to run, the roles that run it, and all other fields."""
    what = "run" if "run" in document else "module"
    named = {
        one: _text(path, document.pop(one), one, said)
        for one, said in (
            ("run", "the name of a script or notebook"),
            ("module", "a module's name"),
        )
        if one in document
    }
    if len(named) > 1:
        message = f"{path}: write either run or module, not both."
        raise BadRequest(message)
    job = FileJob(
        root=folder or path.resolve().parent,
        path=named.get("run", ""),
        module=named.get("module"),
        arguments=_arguments(path, document.pop("arguments", None) or []),
        function=_function(path, document.pop("function", None)),
        parameters=_parameters(path, document.pop("parameters", None) or {}),
        links_left_out=_choice(path, document.pop("left_out")),
    )
    roles = document.pop("roles", None) or [{}]
    if not isinstance(roles, list) or not all(isinstance(role, dict) for role in roles):
        message = f"{path}: roles must be a list of mappings (or left out, for the defaults)."
        raise BadRequest(message)
    for field, where in (("snapshot", document), *(("command", role) for role in roles)):
        if field in where:
            message = f"{path}: write either {what} or {field}, not both."
            raise BadRequest(message)
    return job, roles, document


def _text(path: Path, value: object, field: str, what: str) -> str:
    if not isinstance(value, str) or not value:
        message = f"{path}: {field} must be {what}."
        raise BadRequest(message)
    return value


def _arguments(path: Path, value: object) -> tuple[str, ...]:
    """Numbers are taken as they are written: ``[--epochs, 50]``."""
    if isinstance(value, list) and all(
        isinstance(item, str | int | float) and not isinstance(item, bool) for item in value
    ):
        return tuple(str(item) for item in value)
    message = f"{path}: arguments must be a list of texts and numbers."
    raise BadRequest(message)


def _parameters(path: Path, value: object) -> dict[str, Any]:
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return value
    message = f"{path}: parameters must be a mapping of names to values."
    raise BadRequest(message)


def _choice(path: Path, value: object) -> bool:
    if value in ("link", "without"):
        return value == "link"
    message = f"{path}: left_out must be link or without: what becomes of large files."
    raise BadRequest(message)


def _function(path: Path, value: object) -> str | None:
    return None if value is None else _text(path, value, "function", "the name of a function")
