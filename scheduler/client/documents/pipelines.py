"""``pipeline.yaml``: steps are written like jobs, with what they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from gpucommons.scheduler import models
from gpucommons.scheduler.client.documents.jobs import Bounds, request_of_mapping
from gpucommons.scheduler.client.documents.mappings import mapping_in, read_content
from gpucommons.scheduler.client.documents.packed_once import packed_once
from gpucommons.scheduler.client.snapshot import Packed
from gpucommons.scheduler.client.submission import FileJob
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.jobs.pipelines import MAX_STEPS
from gpucommons.scheduler.models.text.yaml_errors import field_sentences
from gpucommons.scheduler.pipelines.order import check_combinations, names_in_order

#: Of a step; all else is of its job.
_OF_STEP = ("after", "inputs", "each")
#: No single values.
_NESTED = (list, dict, set, tuple)
#: Of what was written, in a sentence about it.
_SHOWN = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """What goes along with steps."""

    packed: Packed
    #: The first that runs in it, and the job that this is.
    first: FileJob
    request: models.JobRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadPipeline:
    """What the file asks for, and the folders that go along, by their hash."""

    request: models.PipelineRequest
    folders: Mapping[str, Folder] = field(default_factory=dict)


def read_pipeline(path: Path, *, team: str | None = None, bounds: Bounds) -> ReadPipeline:
    """Read a pipeline; each step's ``run: FILE`` lies beside the file. ``team`` goes before the file's.

    Raises
    ------
    BadRequest
        With the step and what is wrong with it.
    """
    content = read_content(path)
    document = mapping_in(content, path, of="name and steps")
    bounds = replace(
        bounds, packing=packed_once(bounds.packing, most_bytes=bounds.most_bytes), beside=_OF_STEP
    )
    made: list[dict[str, Any]] = []
    folders: dict[str, Folder] = {}
    for name, step in _steps(document, path).items():
        where = f"{path}: step {_short(name)}"
        fields = {key: value for key, value in step.items() if key not in _OF_STEP}
        runs, job, packed = request_of_mapping(
            path, fields, where=where, at=("steps", name), bounds=bounds
        )
        if runs is not None and packed is not None:
            folders.setdefault(packed.sha256, Folder(packed=packed, first=runs, request=job))
        own = {
            "after": dict(_after(step.get("after") or {}, where)),
            "inputs": list(_inputs(step.get("inputs") or {}, where)),
            "each": _each(step.get("each") or {}, where),
        }
        made.append({"name": name, "job": job, **own})
    rest = {key: value for key, value in document.items() if key != "steps"}
    if team is not None:
        rest["team"] = team
    try:
        request = models.PipelineRequest.model_validate(
            {"name": path.resolve().parent.name, **rest, "steps": made}
        )
    except ValidationError as error:
        message = f"{path}: {field_sentences(content, error)}"
        raise BadRequest(message) from None
    return ReadPipeline(request=request, folders=folders)


def _steps(document: Mapping[str, Any], path: Path) -> Mapping[str, Mapping[str, Any]]:
    steps = document.get("steps")
    if not isinstance(steps, dict) or not steps:
        message = f"{path}: steps must be a mapping of names to what runs, as in clean: {{run: clean.py}}."
        raise BadRequest(message)
    if len(steps) > MAX_STEPS:
        message = f"{path}: steps: these are {len(steps)}, at most {MAX_STEPS}."
        raise BadRequest(message)
    for name, step in steps.items():
        if not isinstance(step, dict):
            message = (
                f"{path}: step {_short(name)} must be a mapping: run, or a job's fields, and after"
                " and inputs."
            )
            raise BadRequest(message)
    return steps


def steps_in_order(request: models.PipelineRequest) -> tuple[models.StepRequest, ...]:
    """Each step behind those that it needs; one with combinations (``each``) stands for all of them.

    Raises
    ------
    Misconfigured
        As the scheduler would refuse it: a name is not there, steps wait for each other, or they are
        none or too many with all combinations.
    """
    check_combinations([(step.name, step.each) for step in request.steps], most=MAX_STEPS)
    by_name = {step.name: step for step in request.steps}
    needs = {
        name: [_whole(each, by_name) for each in _needed(step)] for name, step in by_name.items()
    }
    order = names_in_order([step.name for step in request.steps], needs)
    return tuple(by_name[name] for name in order)


def _needed(step: models.StepRequest) -> Iterator[str]:
    yield from step.after
    yield from (each.step for each in step.inputs)


def _whole(name: str, by_name: Mapping[str, models.StepRequest]) -> str:
    """``train`` for one of its combinations, ``train-2``."""
    whole, _, number = name.rpartition("-")
    if name in by_name or whole not in by_name or not number.isdigit():
        return name
    step = by_name[whole]
    return whole if step.each and 1 <= int(number) <= step.combinations else name


def _after(value: object, where: str) -> Iterator[tuple[str, Any]]:
    """``clean``, ``[cnn, vit]``, or ``{train: failed}``."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        yield from ((each, "ok") for each in value)
    elif isinstance(value, dict):
        yield from ((str(name), needs) for name, needs in value.items())
    else:
        message = (
            f"{where}: after must be names of steps, or a mapping of them to ok, any or failed."
        )
        raise BadRequest(message)


def _inputs(value: object, where: str) -> Iterator[dict[str, Any]]:
    """``[cnn/model.pt]``, or ``{models/cnn.pt: cnn/model.pt}``: place, step and path there."""
    if isinstance(value, list):
        pairs: list[tuple[Any, Any]] = [(None, each) for each in value]
    elif isinstance(value, dict):
        pairs = list(value.items())
    else:
        pairs = [(None, value)]
    for to, source in pairs:
        step, slash, path = source.partition("/") if isinstance(source, str) else ("", "", "")
        if not step:
            given = "a list or mapping" if isinstance(source, _NESTED) else _short(repr(source))
            message = f"{where}: inputs: write STEP/PATH, as in clean/clean.parquet, not {given}."
            raise BadRequest(message)
        wanted = {"step": step, "path": str(PurePosixPath(path)) if slash and path else "."}
        yield wanted if to is None else {**wanted, "to": str(to)}


def _each(value: object, where: str) -> dict[str, Any]:
    """Values are taken as they are written: ``{SEED: [1, 2]}``."""
    if isinstance(value, dict) and all(
        isinstance(each, list) and not any(isinstance(one, _NESTED) for one in each)
        for each in value.values()
    ):
        return {str(name): [str(one) for one in each] for name, each in value.items()}
    message = f"{where}: each must be a mapping of variables to lists of values."
    raise BadRequest(message)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
