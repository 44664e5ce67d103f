"""Another size for a job that waits, checked as if it were submitted with it."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.scheduler.core.events.job_size import as_submitted, size_of, with_size
from gpucommons.scheduler.core.model.demand import WhyNoSlices
from gpucommons.scheduler.core.model.going_on import Size
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Spec, Workload
from gpucommons.scheduler.errors import BadRequest, Misconfigured
from gpucommons.scheduler.intake.could_ever_run import able_pools, check_can_run
from gpucommons.scheduler.intake.gpu_memory import smallest
from gpucommons.scheduler.intake.jobs import asked_of, check_commands
from gpucommons.scheduler.intake.leases import host_share
from gpucommons.scheduler.intake.own_arguments import check_own_arguments
from gpucommons.scheduler.intake.team_rules import check_policies
from gpucommons.scheduler.models import JobSize


def resized_spec(
    workload: Workload, asked: JobSize, cluster: Cluster, why_not: WhyNoSlices
) -> Spec:
    """The job's request at the size that is asked for.

    Raises
    ------
    BadRequest, Misconfigured, PolicyRefused
        With a sentence that names the field or the rule, and what is possible.
    """
    if asked.milli_gpu is None and asked.workers is None:
        message = (
            f"Say another size for {workload.spec.name}: GPUs per worker (--gpus 2), workers"
            " (--workers 2), or both."
        )
        raise BadRequest(message)
    had = workload.spec.roles[0].milli_gpu
    if asked.milli_gpu is not None and bool(asked.milli_gpu) != bool(had):
        message = (
            f"{workload.spec.name} {'runs on GPUs' if had else 'asks for no GPU'}: that cannot change"
            " while it waits. Submit it anew instead."
        )
        raise BadRequest(message)
    memory_mib = workload.spec.roles[0].gpu_memory_mib
    if memory_mib and asked.milli_gpu is not None:
        least = smallest(
            memory_mib, workload.spec.roles[0].gpu_kind, workload.spec.pools, cluster, why_not
        )
        if asked.milli_gpu < least:
            message = (
                f"{workload.spec.name} asks for {memory_mib / 1024:.1f} GiB of GPU memory:"
                f" {format_gpus(least)} is the smallest slice that has it."
            )
            raise Misconfigured(message)
    size = _size(workload, asked, cluster)
    spec = with_size(workload.spec, size)
    check_commands(spec)
    check_own_arguments(spec)
    team = cluster.teams.get(spec.team)
    if team is not None:  # else the cycle says so
        check_policies(asked_of(spec), team, cluster.policy)
    check_can_run(spec, cluster)
    able_pools(spec, why_not, chosen=True)  # its pools stay as they are
    return spec


def _size(workload: Workload, asked: JobSize, cluster: Cluster) -> Size:
    now = size_of(workload.spec)
    milli_gpu = now.milli_gpu if asked.milli_gpu is None else asked.milli_gpu
    submitted = size_of(as_submitted(workload))
    base = submitted if milli_gpu == submitted.milli_gpu else now
    cpu_milli, memory_mib = base.cpu_milli, base.memory_mib
    if milli_gpu and milli_gpu < base.milli_gpu:
        # Fewer GPUs come with fewer processors: a node's other GPUs keep theirs.
        cpu_milli = max(
            1, min(cpu_milli, host_share(workload.spec.pools[0], cluster, milli_gpu)[0])
        )
    workers = now.workers if asked.workers is None else asked.workers
    low, high = now.min_workers, now.max_workers
    return replace(
        base,
        milli_gpu=milli_gpu,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        workers=workers,
        min_workers=None if low is None else min(low, workers),
        max_workers=None if high is None else max(high, workers),
    )
