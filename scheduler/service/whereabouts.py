"""Who runs, or ran, an attempt."""

from __future__ import annotations

from gpucommons.scheduler.core.lifecycle import is_final
from gpucommons.scheduler.core.state import Cluster
from gpucommons.scheduler.core.types import Attempt, Workload

#: Jobs of this executor run away from their notebooks' folders.
AWAY = "kubernetes"


def executor_of(cluster: Cluster, workload: Workload, attempt: Attempt) -> str | None:
    """Who ran an attempt, also when its node is gone."""
    nodes = (cluster.nodes.get(placement.node_id) for placement in attempt.placements)
    names = [node.pool for node in nodes if node is not None]
    found = (cluster.pools.get(name) for name in (*names, *workload.spec.pools))
    return next((pool.executor for pool in found if pool is not None), None)


def results_are_away(cluster: Cluster, workload: Workload) -> bool:
    """Whether its owner has yet to fetch what the job made, however it ended."""
    if not is_final(workload) or not workload.attempts:
        return False
    return executor_of(cluster, workload, workload.attempts[-1]) == AWAY
