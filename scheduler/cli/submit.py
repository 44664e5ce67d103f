"""``gpucommons submit``: a script, a notebook or a YAML file becomes a job."""

from __future__ import annotations

import argparse
import sys
import uuid
from pathlib import Path

from gpucommons.gpu.slices import parse_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.documents import read_job
from gpucommons.scheduler.cli.follow import follow
from gpucommons.scheduler.cli.present import printable, show
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.client.snapshot import Packed
from gpucommons.scheduler.client.submission import FileJob, request_for_file
from gpucommons.scheduler.errors import BadRequest

#: More files that stayed behind are counted, not named.
_NAMED = 10
_KIB = 1024


def submit(arguments: argparse.Namespace) -> int:
    """Submit a script, notebook or YAML file."""
    request, packed = _wanted(arguments)
    with connect(arguments) as scheduler:
        if packed is not None and request.snapshot is not None:
            scheduler.send(calls.put_snapshot(request.snapshot, packed.content))
        if any(role.gpu_memory_mib for role in request.roles):
            # What it comes to, before anything is asked for.
            sys.stderr.write(printable(scheduler.send(calls.quote_job(request)).text) + "\n")
        view = scheduler.send(calls.submit(request, key=str(uuid.uuid4())))
        _say_shortened(request.name, view.name)
        show(view, f"{view.name} submitted", output=arguments.output)
        return follow(scheduler, view.id, rank=0) if arguments.follow else 0


def _wanted(arguments: argparse.Namespace) -> tuple[models.JobRequest, Packed | None]:
    max_bytes = arguments.max_mib << 20
    if (arguments.file is None) == (arguments.script is None):
        message = "Name one thing to run: a script or notebook, or a YAML file with -f."
        raise BadRequest(message)
    if arguments.file is not None:
        request, packed = read_job(arguments.file, max_bytes=max_bytes)
        if packed is not None:
            _say_packed(packed, arguments.file.resolve().parent)
        return request, packed
    script = arguments.script.resolve()
    job = FileJob(
        root=script.parent,
        path=script.name,
        arguments=tuple(arguments.arguments),
        function=arguments.function,
    )
    request, packed = request_for_file(
        job, _options(arguments), _role(arguments), max_bytes=max_bytes
    )
    _say_packed(packed, job.root)
    return request, packed


def _say_shortened(asked: str, given: str) -> None:
    """A name ends in a number; one that leaves no room for it is not what the job is called."""
    if not given.startswith(f"{asked}-"):
        text = f"{asked} is too long with a number behind it: everywhere, the job is called {given}"
        sys.stderr.write(printable(text) + "\n")


def _say_packed(packed: Packed, folder: Path) -> None:
    """What goes along and what is left behind: a job that misses a file fails far away and later."""
    excluded, count = packed.excluded, len(packed.files)
    size = _size(sum(file.size_bytes for file in packed.files))
    lines = [f"takes along: {count} file{'' if count == 1 else 's'} of {folder}, {size}"]
    lines += [f"left out: {file.path} {file.reason}" for file in excluded[:_NAMED]]
    if len(excluded) > _NAMED:
        lines.append(f"left out: {len(excluded) - _NAMED} more")
    sys.stderr.writelines(printable(line) + "\n" for line in lines)


def _size(size_bytes: int) -> str:
    """``812 B``, ``4.1 KiB``, ``12.0 MiB``."""
    if size_bytes < _KIB:
        return f"{size_bytes} B"
    kib = size_bytes / _KIB
    return f"{kib:.1f} KiB" if kib < _KIB else f"{kib / _KIB:.1f} MiB"


def _role(arguments: argparse.Namespace) -> dict[str, object]:
    role: dict[str, object] = {
        "count": arguments.workers,
        "milli_gpu": parse_milli_gpu(arguments.gpus),
        "memory_mib": arguments.memory_mib,
    }
    if arguments.gpu_memory is not None:
        if role["milli_gpu"]:
            message = (
                "Say --gpus or --gpu-memory, not both: a size, or the memory that it must have."
            )
            raise BadRequest(message)
        role["gpu_memory_mib"] = arguments.gpu_memory
    if arguments.cpu_milli is not None:
        role["cpu_milli"] = arguments.cpu_milli
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
        "near": arguments.near,
        "resume_from": arguments.resume_from,
        "data": arguments.data,
        "results_to": arguments.results_to,
        "notice_signal": arguments.notice_signal,
        "exit_after_signal": arguments.exit_after_signal,
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
