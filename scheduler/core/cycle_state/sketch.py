"""What is worked out of a cluster once and then kept up to date from cycle to cycle.

It says nothing that the cluster does not: without it the next cycle works everything out again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpucommons.scheduler.core.capacity.room import Room
from gpucommons.scheduler.core.cycle_state.register import Register
from gpucommons.scheduler.core.model.clock import Clock
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.core.quota import quota


@dataclass(frozen=True, slots=True)
class Settled:
    """Until when, and under which rules, nothing is to be decided unless something happens."""

    until_ms: int
    rules: tuple[object, ...]


@dataclass(slots=True)
class Sketch:
    """What is worked out of a cluster: true for all workloads but the stale ones."""

    room: Room = field(default_factory=lambda: Room({}))
    register: Register = field(default_factory=Register)
    clock: Clock = field(default_factory=Clock)
    #: As of the cluster from which the draft was begun.
    uses: quota.Uses = field(default_factory=dict)
    #: Changed since the room last looked at them.
    stale: set[WorkloadId] = field(default_factory=set)

    #: Of the cycle that made it.
    settled: Settled | None = None

    @classmethod
    def of(cls, cluster: Cluster) -> Sketch:
        """Work it out anew."""
        sketch = cls(uses=quota.uses(cluster.nodes, cluster.workloads.values()))
        sketch.room = Room.of(cluster.nodes.values(), cluster.workloads.values(), cluster.blocks)
        sketch.register.look(cluster.workloads, cluster.workloads)
        sketch.clock.fresh = set(cluster.workloads)
        return sketch
