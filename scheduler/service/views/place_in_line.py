"""Where a workload stands in line.

Places are worked out when somebody asks: stored, each start would rewrite all who follow.
"""

from __future__ import annotations

from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Workload
from gpucommons.scheduler.core.queue.ordering import places
from gpucommons.scheduler.service.of_newest_cluster import OfNewestCluster

_places = OfNewestCluster(lambda cluster: places(cluster.workloads))


def position(workload: Workload, cluster: Cluster) -> int | None:
    """Place in line within its team and pool, from 1; None when it is not in line."""
    return _places.of(cluster).get(workload.workload_id)
