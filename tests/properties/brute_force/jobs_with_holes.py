"""A cluster on which some jobs have ended, and workers for a gang that looks for its place between the rest."""

from __future__ import annotations

from collections.abc import Sequence

from builders import World, a_job, a_team

from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import Cluster


def after(nodes: Sequence[Node], jobs: Sequence[tuple[int, bool]]) -> Cluster:
    """Run these jobs and end those that do not stay, so that holes are left."""
    world = World(*nodes, teams=[a_team(guaranteed_milli_gpu=0)])
    running = [
        (world.submit(a_job(f"job-{i}", size)), stays) for i, (size, stays) in enumerate(jobs)
    ]
    for workload_id, stays in running:
        if not stays and world.get(workload_id).current is not None:
            world.start(workload_id)
            world.end(workload_id)
    return world.cluster


def workers_of(gang: Sequence[int]) -> tuple[Worker, ...]:
    """One of each size."""
    return tuple(Worker(f"role-{size}", i, size, None, 100, 100) for i, size in enumerate(gang))
