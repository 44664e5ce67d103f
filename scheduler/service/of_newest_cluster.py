"""What follows from a cluster, worked out once for all rows of a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from gpucommons.scheduler.core.model.state import Cluster

T = TypeVar("T")


class OfNewestCluster(Generic[T]):
    """Keeps the answer for the cluster that was asked about last."""

    def __init__(self, work_out: Callable[[Cluster], T]) -> None:
        self._work_out = work_out
        self._known: tuple[Cluster, T] | None = None

    def of(self, cluster: Cluster) -> T:
        """May be asked by any thread."""
        known = self._known
        if known is None or known[0] is not cluster:
            # Read and written whole, so that threads see one or the other.
            known = self._known = (cluster, self._work_out(cluster))
        return known[1]
