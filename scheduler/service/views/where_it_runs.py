"""Where an attempt runs or ran: its pool, its executor, and whether its files are away from its notebook."""

from __future__ import annotations

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Attempt, PoolName, Spec, Workload

#: Jobs of this executor run away from their notebooks' folders.
AWAY = "kubernetes"
#: Those of this one, on this machine: what became of their files is known.
HERE = "local"


def pool_of_attempt(cluster: Cluster, workload: Workload, attempt: Attempt) -> PoolName | None:
    """The pool of the nodes that it had; where none of them is known any more, the only one that it
    may have had. None = nobody can tell.
    """
    nodes = (cluster.nodes.get(placement.node_id) for placement in attempt.placements)
    known = next((node.pool for node in nodes if node is not None), None)
    pools = workload.spec.pools
    return pools[0] if known is None and len(pools) == 1 else known


def executor_of(cluster: Cluster, workload: Workload, attempt: Attempt) -> str | None:
    """Who ran an attempt, also when its node is gone."""
    pool = pool_of_attempt(cluster, workload, attempt)
    found = (cluster.pools.get(name) for name in ((pool,) if pool else workload.spec.pools))
    return next((pool.executor for pool in found if pool is not None), None)


def runs_away(cluster: Cluster, workload: Workload) -> bool:
    """Whether it ran, or may come to run, away from its notebook's folder."""
    if workload.attempts:
        return executor_of(cluster, workload, workload.attempts[-1]) == AWAY
    return may_run_away(cluster, workload.spec)


def may_run_away(cluster: Cluster, spec: Spec) -> bool:
    """Whether a job may come to run away from its notebook's folder."""
    names = spec.pools or tuple(cluster.pools)
    return AWAY in {cluster.pools[name].executor for name in names if name in cluster.pools}


def results_are_away(cluster: Cluster, workload: Workload) -> bool:
    """Whether its owner has yet to fetch what the job made, however it ended."""
    return is_final(workload) and bool(workload.attempts) and runs_away(cluster, workload)
