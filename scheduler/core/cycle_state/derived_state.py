"""What is worked out of a cluster once and then kept up to date from cycle to cycle.

It says nothing that the cluster does not: without it the next cycle works everything out again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.cycle_state.clock import Clock
from gpucommons.scheduler.core.cycle_state.workload_index import WorkloadIndex
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.core.quota import quota


@dataclass(frozen=True, slots=True)
class Settled:
    """Until when, and under which rules, nothing is to be decided unless something happens."""

    until_ms: int
    rules: tuple[object, ...]


@dataclass(slots=True)
class DerivedState:
    """What is worked out of a cluster: true for all workloads but the stale ones."""

    capacity: Capacity = field(default_factory=lambda: Capacity({}))
    index: WorkloadIndex = field(default_factory=WorkloadIndex)
    clock: Clock = field(default_factory=Clock)
    #: As of the cluster from which the cycle state was begun.
    uses: quota.Uses = field(default_factory=dict)
    #: Changed since the capacity last looked at them.
    stale: set[WorkloadId] = field(default_factory=set)

    #: Of the cycle that made it.
    settled: Settled | None = None

    @classmethod
    def of(cls, cluster: Cluster) -> DerivedState:
        """Work it out anew."""
        derived = cls(uses=quota.uses(cluster.nodes, cluster.workloads.values()))
        derived.capacity = Capacity.of(
            cluster.nodes.values(), cluster.workloads.values(), cluster.blocks
        )
        derived.index.look(cluster.workloads, cluster.workloads)
        derived.clock.fresh = set(cluster.workloads)
        return derived
