"""Commands about jobs."""

from __future__ import annotations

import argparse
import os
import sys
import uuid
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from gpucommons.gpu.slices import format_milli_gpu, parse_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import clock, printable, show, table
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.submission import FileJob, request_for_file
from gpucommons.scheduler.errors import BadRequest

FINAL = frozenset({"succeeded", "failed", "cancelled"})
#: How long one request for new log lines may wait.
FOLLOW_S = 20.0


def describe(job: models.JobView) -> str:
    """One job in a few lines."""
    lines = [f"{job.name}  {job.state}" + (f" · {job.hold_class}" if job.hold_class else "")]
    lines.append(
        f"  team {job.team} · {job.workers} × {format_milli_gpu(job.milli_gpu // job.workers)} GPU"
        f" · submitted {clock(job.submitted_ms)} by {job.owner or 'somebody'}"
    )
    if job.reason is not None:
        place = f"position {job.position}: " if job.position else ""
        lines.append(f"  {place}{job.reason.text}")
        if job.reason.unblock:
            lines.append(f"  {job.reason.unblock}")
    if job.progress is not None:
        of = f" of {job.progress.total_steps}" if job.progress.total_steps else ""
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in job.progress.metrics.items())
        lines.append(f"  step {job.progress.step}{of}  {numbers}")
    for attempt in job.attempts:
        ended = attempt.ended_text or attempt.state
        resumed = f", from step {attempt.resumed_from_step}" if attempt.resumed_from_step else ""
        lines.append(
            f"  attempt {attempt.number} on {', '.join(attempt.nodes) or '?'}{resumed}: {ended}"
        )
    if job.ended_text:
        lines.append(f"  {job.ended_text}")
    return "\n".join(lines)


def _role(arguments: argparse.Namespace) -> dict[str, object]:
    role: dict[str, object] = {
        "count": arguments.workers,
        "milli_gpu": parse_milli_gpu(arguments.gpus),
        "cpu_milli": arguments.cpu_milli,
        "memory_mib": arguments.memory_mib,
    }
    return role | ({"gpu_kind": arguments.gpu_kind} if arguments.gpu_kind else {})


def _options(arguments: argparse.Namespace) -> dict[str, object]:
    named = {
        "name": arguments.name,
        "team": arguments.team,
        "pools": arguments.pool,
        "priority": arguments.priority,
        "launcher": arguments.launcher,
        "max_run_s": arguments.max_run_s,
        "min_workers": arguments.min_workers,
        "max_workers": arguments.max_workers,
        "after": arguments.after,
        "results_to": arguments.results_to,
        "env": _pairs(arguments.env, "--env"),
        "secrets": _pairs(arguments.secret, "--secret"),
        "over_quota": False if arguments.guaranteed_only else None,
        "kind": "retrain" if arguments.retrain else None,
    }
    return {name: value for name, value in named.items() if value not in (None, [], {})}


def _pairs(items: list[str], option: str) -> dict[str, str]:
    pairs = [item.partition("=") for item in items]
    for name, equals, _ in pairs:
        if not equals:
            message = f"{option} {name} must be written NAME=VALUE."
            raise BadRequest(message)
    return {name: value for name, _, value in pairs}


def request_from_yaml(path: Path, *, max_bytes: int) -> tuple[models.JobRequest, bytes | None]:
    """Read a job's YAML: the fields of the API, and ``run: FILE`` for a script beside it.

    Raises
    ------
    BadRequest
        When the file is no mapping or names no script that exists.
    """
    try:
        document = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        message = f"{path} is not YAML: {error}"
        raise BadRequest(message) from None
    if not isinstance(document, dict):
        message = f"{path} must be a mapping of fields (name, roles, …)."
        raise BadRequest(message)
    run = document.pop("run", None)
    if run is None:
        return models.JobRequest.model_validate(document), None
    if not isinstance(run, str):
        message = f"{path}: run must be the name of a script or notebook."
        raise BadRequest(message)
    arguments = [str(item) for item in document.pop("arguments", None) or ()]
    roles = document.pop("roles", None) or [{}]
    if not isinstance(roles, list) or len(roles) != 1 or not isinstance(roles[0], dict):
        message = f"{path}: with run there is exactly one role (or none, for the defaults)."
        raise BadRequest(message)
    job = FileJob(root=path.resolve().parent, path=run, arguments=tuple(arguments))
    request, packed = request_for_file(job, document, roles[0], max_bytes=max_bytes)
    return request, packed.content


def submit(arguments: argparse.Namespace) -> int:
    """Submit a script, notebook or YAML file."""
    content: bytes | None
    if arguments.file is not None:
        if arguments.script is not None:
            message = "Name a script or -f FILE, not both."
            raise BadRequest(message)
        request, content = request_from_yaml(arguments.file, max_bytes=arguments.max_mib << 20)
    elif arguments.script is not None:
        script = arguments.script.resolve()
        job = FileJob(
            root=script.parent,
            path=script.name,
            arguments=tuple(arguments.arguments),
            function=arguments.function,
        )
        request, packed = request_for_file(
            job, _options(arguments), _role(arguments), max_bytes=arguments.max_mib << 20
        )
        content = packed.content
    else:
        message = "Name a script or notebook to run, or a YAML file with -f."
        raise BadRequest(message)
    with connect(arguments) as scheduler:
        if content is not None and request.snapshot is not None:
            scheduler.send(calls.put_snapshot(request.snapshot, content))
        view = scheduler.send(calls.submit(request, key=str(uuid.uuid4())))
        show(view, f"{view.name} submitted", output=arguments.output)
        return _follow(scheduler, view.id, 0) if arguments.follow else 0


def listing(arguments: argparse.Namespace) -> int:
    """List jobs."""
    with connect(arguments) as scheduler:
        answer = scheduler.send(
            calls.jobs(
                team=arguments.team,
                owner=arguments.owner,
                live=None if arguments.all else True,
                limit=arguments.limit,
            )
        )
    rows = (
        (
            job.name,
            job.team,
            job.owner,
            job.state,
            job.hold_class or "",
            format_milli_gpu(job.milli_gpu),
            clock(job.submitted_ms),
            job.reason.text if job.reason else "",
        )
        for job in answer.jobs
    )
    header = ("NAME", "TEAM", "OWNER", "STATE", "CLASS", "GPUS", "SUBMITTED", "WHY")
    show(answer, table(header, rows), output=arguments.output)
    return 0


def detail(arguments: argparse.Namespace) -> int:
    """Show one job."""
    with connect(arguments) as scheduler:
        job = scheduler.send(calls.job(arguments.job))
    show(job, describe(job), output=arguments.output)
    return 0


def why(arguments: argparse.Namespace) -> int:
    """Say why a job waits and what would start it."""
    with connect(arguments) as scheduler:
        job = scheduler.send(calls.job(arguments.job))
    if job.reason is None:
        text = f"{job.name} does not wait: it is {job.state}."
    else:
        text = f"{job.name} waits ({job.reason.code}): {job.reason.text}"
        text += f"\n{job.reason.unblock}" if job.reason.unblock else ""
    show(job.reason, text, output=arguments.output)
    return 0


def _follow(scheduler: SchedulerClient, ref: str, rank: int) -> int:
    """Print a job's log through all its attempts until it ends; exit like the job."""
    attempt, offset = 1, 0
    while True:
        # The cursor first: what happens while we look must end the wait below at once.
        seen = scheduler.send(calls.events(job=ref, newest=1)).last
        job = scheduler.send(calls.job(ref))
        if job.attempts:
            chunk = scheduler.send(
                calls.log(ref, attempt=attempt, rank=rank, offset=offset, wait_s=FOLLOW_S)
            )
            offset = chunk.next_offset
            for line in chunk.lines:
                sys.stdout.write(printable(line) + "\n")
            sys.stdout.flush()
            if not chunk.end:
                continue
            if attempt < len(job.attempts):
                attempt, offset = attempt + 1, 0
                continue
        if job.state in FINAL:
            sys.stderr.write(f"{job.name} {job.state}\n")
            return 0 if job.state == "succeeded" else 1
        scheduler.send(calls.events(after=seen, job=ref, wait_s=FOLLOW_S))


def logs(arguments: argparse.Namespace) -> int:
    """Print a job's log."""
    with connect(arguments) as scheduler:
        if arguments.follow:
            return _follow(scheduler, arguments.job, arguments.rank)
        offset, lines = 0, []
        while True:
            chunk = scheduler.send(
                calls.log(
                    arguments.job,
                    attempt=arguments.attempt,
                    rank=arguments.rank,
                    offset=offset,
                )
            )
            lines.extend(chunk.lines)
            if chunk.next_offset == offset:
                break
            offset = chunk.next_offset
    show(lines, "\n".join(lines), output=arguments.output)
    return 0


def act(arguments: argparse.Namespace) -> int:
    """Cancel, pause, resume a job, or run it again."""
    call = {
        "cancel": calls.cancel,
        "pause": calls.pause,
        "resume": calls.resume,
        "again": calls.again,
    }[arguments.command]
    with connect(arguments) as scheduler:
        job = scheduler.send(call(arguments.job))
    show(job, f"{job.name}  {job.state}", output=arguments.output)
    return 0


def put_secret(arguments: argparse.Namespace) -> int:
    """Keep a secret in the caller's own home, for jobs to refer to by name."""
    value = sys.stdin.readline().rstrip("\n")
    folder = Path.home() / ".gpucommons" / "secrets"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / TypeAdapter(models.Name).validate_python(arguments.name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(value)
    show(None, f"secret {arguments.name} kept in {folder}", output="text")
    return 0
