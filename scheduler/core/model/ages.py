"""Since when a job has been in line: places go by that, not by when it was submitted.

A job that may not start yet, by its schedule, its owner's pause or what it runs after, would otherwise
age where it costs nothing, and take the head place when it may. What others brought about (preempted,
lost, a back-off) costs no age.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucommons.scheduler.core.model.types import Workload, WorkloadId


def in_line_since_ms(workload: Workload, workloads: Mapping[WorkloadId, Workload]) -> int:
    """The last of: submitted, its time came, what it runs after ended, resumed."""
    spec = workload.spec
    since = max(workload.submitted_ms, spec.not_before_ms)
    if workload.pauses:
        since = max(since, workload.pauses[-1].to_ms)
    for before in spec.after:
        found = workloads.get(before)
        if found is not None and found.ended_ms is not None:
            since = max(since, found.ended_ms)
    return since
