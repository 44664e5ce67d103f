"""What teams hold while a cycle goes on: only workloads that have changed are counted again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import NodeId, Workload, WorkloadId
from gpucommons.scheduler.core.quota import quota


class CountedUses:
    """Uses as of the last count, and those that whoever gives devices keeps up to date since."""

    def __init__(self, before: Cluster, uses: quota.Uses) -> None:
        """``uses``: those of the cluster from which the cycle began."""
        self._before = before
        #: Kept up to date by whoever gives and takes devices; also what is promised for a moment.
        self.uses: quota.Uses = {}
        self._counted = dict(uses)
        self._as: dict[WorkloadId, Workload | None] = {}

    def count(
        self,
        nodes: Mapping[NodeId, Node],
        workloads: Mapping[WorkloadId, Workload],
        changed: Iterable[WorkloadId],
    ) -> quota.Uses:
        """Who holds what, from what it was before and what has changed since."""
        if nodes != self._before.nodes:
            self.uses = quota.uses(nodes, workloads.values())
            return self.uses
        for workload_id in changed:
            known = self._as if workload_id in self._as else self._before.workloads
            before = known.get(workload_id)
            now = self._as[workload_id] = workloads.get(workload_id)
            if now is not before:
                for workload, sign in ((before, -1), (now, 1)):
                    if workload is not None:
                        quota.count_workload(self._counted, nodes, workload, sign=sign)
        self.uses = dict(self._counted)
        return self.uses
