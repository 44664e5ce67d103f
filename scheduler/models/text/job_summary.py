"""What a job is, in a few words, where schedules and pipelines are listed."""

from __future__ import annotations

import shlex

from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.scheduler.models.jobs.jobs import JobRequest, RoleRequest

_CHARACTERS = 200


def what_runs(request: JobRequest) -> str:
    """``2 × ½ GPU: python train.py``, of its first role."""
    text = _size_and_command(request.roles[0])
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"


def all_that_runs(request: JobRequest) -> list[str]:
    """The same of every role, whole: what somebody agrees to."""
    named = len(request.roles) > 1
    return [
        f"{role.name}: {_size_and_command(role)}" if named else _size_and_command(role)
        for role in request.roles
    ]


def _size_and_command(role: RoleRequest) -> str:
    """Whole, however long."""
    each = format_gpus(role.milli_gpu) if role.milli_gpu else "CPU only"
    size = each if role.count == 1 else f"{role.count} × {each}"
    return f"{size}: {shlex.join(role.command)}"
