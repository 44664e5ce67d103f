"""From what people write to steps: fan-out, names of inputs, and jobs that are checked as submitted now."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath

from gpucommons.scheduler import models
from gpucommons.scheduler.errors import Misconfigured, TooLarge
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL, PIPELINE_ORIGIN
from gpucommons.scheduler.models.jobs.pipelines import MAX_STEPS
from gpucommons.scheduler.pipelines.graph import in_order
from gpucommons.scheduler.pipelines.order import check_combinations
from gpucommons.scheduler.pipelines.pipeline import Input, Needs, Step, StepName
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.scripts.frameworks import script_in
from gpucommons.scheduler.service.jobs.environments import Reader, script_reader
from gpucommons.scheduler.service.jobs.jobs import check_labels, checked_in_time
from gpucommons.scheduler.service.jobs.submit_limits import check_hour
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.jobs import request_of

#: What belongs to a job alone, and not to one step of many.
_ALONE = ("after", "after_any", "after_failed", "not_before_ms", "parent", "resume_from", "user")
#: Where inputs come that say nothing else.
_INPUTS = "inputs"
_NAME_CHARACTERS = 40
#: Of all steps, and the bytes of all: a pipeline is read whole at each look.
MAX_INPUTS, MAX_BYTES = 1_000, 2 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class _Copy:
    """A step with the values that fan-out gives it."""

    name: StepName
    values: Mapping[str, str]


def steps_of(
    service: Service,
    principal: Principal,
    runs_as: Principal,
    pipeline: str,
    request: models.PipelineRequest,
) -> tuple[Step, ...]:
    """The steps of a pipeline, in order, each with the job that it will be.

    Raises
    ------
    SchedulerError
        With the step and what is wrong with it.
    """
    check_combinations([(step.name, step.each) for step in request.steps], most=MAX_STEPS)
    copies = {step.name: _copies(step) for step in request.steps}
    if len(copies) < len(request.steps):
        _refuse_names(request)
    _check_inputs(request, copies)
    bare = [_bare(step, copy, copies) for step in request.steps for copy in copies[step.name]]
    ordered = {step.name: step for step in in_order(bare)}
    wanted = {copy.name: (step, copy) for step in request.steps for copy in copies[step.name]}
    made: list[Step] = []
    size_bytes = 0
    read = _readers(service)
    for name, step in ordered.items():
        job = _job(principal, pipeline, request, wanted[name])
        spec = checked_in_time(service, runs_as, job, read(job))
        complete = request_of(spec).model_copy(update={"near": []})
        stored = complete.model_dump_json(exclude_defaults=True)
        made.append(replace(step, request=stored, snapshot=complete.snapshot))
        size_bytes += len(json.dumps(asdict(made[-1])))
        _check_size(size_bytes)
    # Each of them may be submitted within the hour, and so all of them.
    check_hour(service, runs_as.name, size_bytes=size_bytes)
    return tuple(made)


def _readers(service: Service) -> Callable[[models.JobRequest], Reader]:
    """Reads each script once, however many steps run it."""
    known: dict[tuple[str | None, str, str | None], Reader] = {}

    def reader(job: models.JobRequest) -> Reader:
        script = script_in(job.roles[0].command)
        key = (job.snapshot, job.working_dir, script)
        return known.setdefault(key, script_reader(service, job))

    return reader


def _check_inputs(request: models.PipelineRequest, copies: Mapping[str, Sequence[_Copy]]) -> None:
    """Before they are made: each copy reads of each copy."""
    count = sum(
        len(copies[step.name]) * len(_names(each.step, copies))
        for step in request.steps
        for each in step.inputs
    )
    if count > MAX_INPUTS:
        message = (
            f"inputs: these are {count:,} with all combinations of each, at most {MAX_INPUTS:,}: ask"
            " for folders instead of their files, or give steps fewer combinations."
        )
        raise Misconfigured(message)


def _check_size(size_bytes: int) -> None:
    if size_bytes > MAX_BYTES:
        message = (
            f"steps: with all combinations of each they are more than {MAX_BYTES >> 20} MiB: make"
            " their commands and variables shorter, or read what is long from a file."
        )
        raise TooLarge(message)


def _refuse_names(request: models.PipelineRequest) -> None:
    names = [step.name for step in request.steps]
    twice = next(name for name in names if names.count(name) > 1)
    message = f"steps: there are two called {twice}. Give each a name of its own."
    raise Misconfigured(message)


def _copies(step: models.StepRequest) -> list[_Copy]:
    if not step.each:
        return [_Copy(name=StepName(step.name), values={})]
    return [
        _Copy(
            name=StepName(f"{step.name}-{number}"), values=dict(zip(step.each, values, strict=True))
        )
        for number, values in enumerate(itertools.product(*step.each.values()), 1)
    ]


def _bare(step: models.StepRequest, copy: _Copy, copies: Mapping[str, Sequence[_Copy]]) -> Step:
    """A step without its job: what it needs."""
    inputs = tuple(_inputs(step, copies))
    after = {
        each: Needs(needs) for name, needs in step.after.items() for each in _names(name, copies)
    }
    # What is read must be there.
    after |= {each.step: Needs.OK for each in inputs}
    return Step(name=copy.name, request="", after=after, inputs=inputs)


def _inputs(step: models.StepRequest, copies: Mapping[str, Sequence[_Copy]]) -> Iterator[Input]:
    _check_apart(step)
    taken: dict[str, str] = {}
    for wanted in step.inputs:
        sources = _names(wanted.step, copies)
        for source in sources:
            to = _place(wanted, source, is_one=len(sources) == 1 and source == wanted.step)
            if to in taken:
                message = (
                    f"{step.name}: inputs: {source} and {taken[to]} would both come to {to}: give"
                    " one of them another place (to)."
                )
                raise Misconfigured(message)
            taken[to] = source
            yield Input(step=source, path=str(PurePosixPath(wanted.path)), to=to)


def _check_apart(step: models.StepRequest) -> None:
    """Of one step's results no file may be asked for twice: they are read once, from front to back."""
    for one, other in itertools.permutations(step.inputs, 2):
        inside = other.path == "." or PurePosixPath(one.path).is_relative_to(other.path)
        if one.step == other.step and inside:
            message = (
                f"{step.name}: inputs: {one.path} of {one.step} is asked for twice (the other time as"
                f" {other.path}). One file can be put at one place only: remove one of the two."
            )
            raise Misconfigured(message)


def _place(wanted: models.InputRequest, source: StepName, *, is_one: bool) -> str:
    path = PurePosixPath(wanted.path)
    if wanted.to is None:
        return str(PurePosixPath(_INPUTS, source, path))
    # Of several copies each comes to a folder of its own.
    return str(PurePosixPath(wanted.to) if is_one else PurePosixPath(wanted.to, source, path.name))


def _names(name: str, copies: Mapping[str, Sequence[_Copy]]) -> list[StepName]:
    """The steps behind a name: all copies of one, one by its own name, or one that is not there."""
    found = copies.get(name)
    return [StepName(name)] if found is None else [copy.name for copy in found]


def _job(
    principal: Principal,
    pipeline: str,
    request: models.PipelineRequest,
    wanted: tuple[models.StepRequest, _Copy],
) -> models.JobRequest:
    step, copy = wanted
    job = step.job
    check_labels(principal, job)
    alone = [field for field in _ALONE if getattr(job, field)]
    if alone:
        message = (
            f"{step.name}: {', '.join(alone)} is of a job alone, and this is a step of many: leave it"
            " out. What a step needs stands in its own after and inputs."
        )
        raise Misconfigured(message)
    name = f"{request.name}-{copy.name}"[:_NAME_CHARACTERS].strip("-")
    return job.model_copy(
        update={
            "name": name,
            "team": job.team or request.team,
            "env": {**job.env, **copy.values},
            "labels": {**job.labels, ORIGIN_LABEL: f"{PIPELINE_ORIGIN}{pipeline}"},
        }
    )
