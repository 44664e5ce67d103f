"""Places in line, worked out when somebody asks: stored, each start would rewrite all who follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Workload, WorkloadId
from gpucommons.scheduler.core.queue.ordering import places


@dataclass(slots=True)
class _Newest:
    """The cluster that was asked about last: lists ask once for every row."""

    of: tuple[Cluster, Mapping[WorkloadId, int]] | None = field(default=None)


_newest = _Newest()


def position(workload: Workload, cluster: Cluster) -> int | None:
    """Place in line within its team and pool, from 1; None when it is not in line."""
    known = _newest.of
    if known is None or known[0] is not cluster:
        # Read and written whole, so that threads see one or the other.
        known = _newest.of = (cluster, places(cluster.workloads))
    return known[1].get(workload.workload_id)
