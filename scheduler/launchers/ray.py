"""Ray: a cluster of the job's own workers, on which its script is the driver (``ray.init()``)."""

from __future__ import annotations

from gpucommons.scheduler.launchers.joined import cluster_start
from gpucommons.scheduler.launchers.launcher import Launcher, Start
from gpucommons.scheduler.launchers.worker_addresses import Gang


def _starts(gang: Gang) -> tuple[Start, ...]:
    return tuple(cluster_start("ray", gang, worker) for worker in gang.workers)


RAY = Launcher(
    name="ray",
    starts=_starts,
    variables=("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"),
    module="ray",
)
