"""How long a job may run, all its attempts together."""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.resources import policies_of
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Workload


def run_limit(cycle: CycleState | Cluster, workload: Workload) -> int | None:
    """Longest run of a job, all attempts together: the smallest of what it and its policies say."""
    limits = [
        workload.spec.max_run_ms,
        *(p.max_run_ms for p in policies_of(workload.spec.team, cycle.teams, cycle.policy)),
    ]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def run_left(cycle: CycleState | Cluster, workload: Workload) -> int | None:
    """How long its attempt may run, the one there is or the next; earlier ones have had their part."""
    limit = run_limit(cycle, workload)
    return None if limit is None else max(0, limit - _ran_before(workload))


def _ran_before(workload: Workload) -> int:
    return sum(
        one.ended_ms - one.started_ms
        for one in workload.attempts
        if one.started_ms is not None and one.ended_ms is not None
    )
