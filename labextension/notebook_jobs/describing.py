"""Our jobs and schedules as *Notebook Jobs* shows them; what only it asks is kept in labels."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from jupyter_scheduler.models import DescribeJob, DescribeJobDefinition, Status

from gpucommons.labextension.notebook_jobs.environments import DEFAULT, FORMATS, compute_type
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models import JobRequest, JobView, ScheduleRequest, ScheduleView
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL
from gpucommons.scheduler.scripts.parameters import as_text, parse_value

ORIGIN = "notebook job"
#: Labels: the notebook's file name, which marks a job as made here; what its user called it; …
FILE, TITLE, TAGS, WANTED = "notebook", "notebook-title", "notebook-tags", "notebook-formats"
#: … when a definition was made, and of which one a job is that was run by hand.
MADE_MS, DEFINITION = "notebook-made-ms", "notebook-definition"
_PARAMETERS = "--parameters"

_STATES = {
    "queued": Status.QUEUED, "nominated": Status.QUEUED, "admitted": Status.QUEUED,
    "starting": Status.QUEUED, "paused": Status.QUEUED, "running": Status.IN_PROGRESS,
    "preempting": Status.IN_PROGRESS, "pausing": Status.IN_PROGRESS,
    "cancelling": Status.STOPPING, "cancelled": Status.STOPPED, "succeeded": Status.COMPLETED,
    "failed": Status.FAILED,
}  # fmt: skip


def labels(asked: Any) -> dict[str, str]:
    """Of a job or definition as the form sends it."""
    return {
        ORIGIN_LABEL: ORIGIN,
        FILE: str(asked.input_filename),
        TITLE: str(asked.name),
        TAGS: json.dumps(asked.tags or []),
        WANTED: ",".join(one for one in asked.output_formats or () if one in FORMATS),
    }


def values(parameters: Mapping[str, str] | None) -> dict[str, Any]:
    """Values as one writes them in Python; what is none is a text."""
    return {name: _value(text) for name, text in (parameters or {}).items()}


def _value(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
        as_text({"": value})
    except (BadRequest, MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return parse_value(text)
    return value


def run_of(job: JobRequest, definition: str, parameters: Mapping[str, str] | None) -> JobRequest:
    """A definition's job run by hand, with other parameters where some are given."""
    role = job.roles[0]
    if parameters is not None:
        role = role.model_copy(update={"command": _with(role.command, values(parameters))})
    kept = {**job.labels, ORIGIN_LABEL: ORIGIN, DEFINITION: definition}
    return job.model_copy(update={"labels": kept, "roles": [role]})


def _with(command: Sequence[str], given: Mapping[str, Any]) -> list[str]:
    words = list(command)
    if _PARAMETERS in words:
        del words[words.index(_PARAMETERS) :]
    return [*words, _PARAMETERS, as_text(given)] if given else words


def _parameters(command: Sequence[str]) -> dict[str, str]:
    """As one writes them in Python."""
    words = list(command)
    text = words[words.index(_PARAMETERS) + 1] if _PARAMETERS in words[:-1] else "{}"
    return {name: repr(value) for name, value in json.loads(text).items()}


def made_here(request: JobRequest | None) -> JobRequest | None:
    """A request that came from *Notebook Jobs*; None for others.

    Labels are anybody's words, and two of these become paths: what is no mere name came from elsewhere.
    """
    if request is None or FILE not in request.labels:
        return None
    paths = (request.labels[FILE], request.labels.get(DEFINITION, "none"))
    return request if all(map(_is_name, paths)) else None


def _is_name(text: str) -> bool:
    return text.isprintable() and PurePosixPath(text).name == text != ".."


def _asked(request: JobRequest) -> dict[str, Any]:
    kept, role = request.labels, request.roles[0]
    return {
        "input_filename": kept[FILE],
        "runtime_environment_name": request.environment or DEFAULT,
        "output_formats": [one for one in kept.get(WANTED, "").split(",") if one in FORMATS],
        "parameters": _parameters(role.command),
        "tags": json.loads(kept.get(TAGS, "[]")),
        "name": kept.get(TITLE, request.name),
        "compute_type": compute_type(role.milli_gpu),
    }


def rewritten(found: ScheduleView, job: JobRequest, said: Mapping[str, Any]) -> ScheduleRequest:
    """The same schedule at other times."""
    fields = {
        "schedule": said.get("schedule", found.schedule),
        "time_zone": said.get("timezone", found.time_zone),
        "concurrency_policy": found.concurrency_policy,
        "starting_deadline_s": found.starting_deadline_s,
        "suspend": found.suspend,
        "kind": found.kind,
        "priority": job.priority,
        "job": job,
    }
    return ScheduleRequest.model_validate(fields)


def described_jobs(jobs: Sequence[JobView]) -> list[DescribeJob]:
    """Those that were made here."""
    asked = ((job, made_here(job.request)) for job in jobs)
    return [described_job(job, request) for job, request in asked if request is not None]


def described_job(job: JobView, request: JobRequest) -> DescribeJob:
    """A job of ours that was made here."""
    schedule = job.part_of.name if job.part_of and job.part_of.kind == "schedule" else None
    started = [one.started_ms for one in job.attempts if one.started_ms is not None]
    reason = job.reason.text if job.reason else None
    return DescribeJob(
        **_asked(request),
        job_id=job.id,
        job_definition_id=schedule or request.labels.get(DEFINITION),
        url=f"/jobs/{job.id}",
        create_time=job.submitted_ms,
        update_time=job.since_ms,
        start_time=min(started, default=None),
        end_time=job.ended_ms,
        status=_STATES.get(job.state, Status.CREATED),
        status_message=job.ended_text or reason,
    )


def described_definition(schedule: ScheduleView, request: JobRequest) -> DescribeJobDefinition:
    """A schedule of ours that was made here."""
    made_ms = int(request.labels.get(MADE_MS, "0"))
    return DescribeJobDefinition(
        **_asked(request),
        schedule=schedule.schedule,
        timezone=schedule.time_zone,
        job_definition_id=schedule.name,
        create_time=made_ms,
        update_time=made_ms,
        active=not schedule.suspend,
    )
