"""What a job is, in a few words, where schedules and pipelines are listed."""

from __future__ import annotations

import shlex

from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.scheduler.models.jobs.jobs import JobRequest

_CHARACTERS = 200


def what_runs(request: JobRequest) -> str:
    """``2 × ½ GPU: python train.py``."""
    role = request.roles[0]
    each = format_gpus(role.milli_gpu) if role.milli_gpu else "CPU only"
    size = each if role.count == 1 else f"{role.count} × {each}"
    return f"{size}: {shlex.join(role.command)}"[:_CHARACTERS]
