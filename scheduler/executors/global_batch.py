"""What a script is told, so that its global batch stays whatever number of workers it got.

Of the batch that each process was written for, at the size that was submitted: fewer processes take
several micro-steps for a step (gradient accumulation), more take a part of it each.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.elastic.gain import workers_of
from gpucommons.scheduler.core.model.demand import elastic
from gpucommons.scheduler.core.model.types import Attempt, Workload


def variables(workload: Workload, attempt: Attempt) -> Mapping[str, str]:
    """Nothing for a job that has the size it was submitted with, and always will."""
    first, resized = workload.spec.roles[0], workload.resized
    asked, asked_milli = first.count, first.milli_gpu
    if resized is not None:
        asked, asked_milli = resized.submitted.workers, resized.submitted.milli_gpu
    if resized is None and not elastic(workload.spec):
        return {}
    submitted = asked * _processes(asked_milli)
    now = workers_of(workload, attempt) * _processes(first.milli_gpu)
    micro_steps = -(-submitted // now)
    return {
        "GPUCOMMONS_ACCUMULATION": str(micro_steps),
        "GPUCOMMONS_BATCH_SCALE": f"{submitted / (now * micro_steps):.6g}",
    }


def _processes(milli_gpu: int) -> int:
    """Of a worker: one for each whole GPU."""
    return max(1, milli_gpu // WHOLE_MILLI_GPU)
