"""The parts of a cycle's state: rules, what is carried on, changes, turns, and what is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpucommons.scheduler.core.capacity.hold_back import FairShareClaim
from gpucommons.scheduler.core.cycle_state.counted_uses import CountedUses
from gpucommons.scheduler.core.cycle_state.versions import Versions
from gpucommons.scheduler.core.model.holds import FairShareReservation
from gpucommons.scheduler.core.model.resources import Block, Policy, Pool, Team
from gpucommons.scheduler.core.model.state import (
    Cluster,
    Event,
    Released,
    Spare,
    Verdict,
)
from gpucommons.scheduler.core.model.types import (
    PoolName,
    Reason,
    TeamName,
    WorkloadId,
)
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.learning import LearnedDemand


@dataclass(slots=True)
class Rules:
    """What admins have decided, and where fixed quota lies by it."""

    teams: dict[TeamName, Team]
    pools: dict[PoolName, Pool]
    blocks: tuple[Block, ...]
    policy: Policy

    @classmethod
    def of(cls, cluster: Cluster) -> Rules:
        """Those of a cluster, to be changed."""
        return cls(dict(cluster.teams), dict(cluster.pools), cluster.blocks, cluster.policy)


@dataclass(slots=True)
class Carried:
    """What the next cycle has to know beside workloads, nodes and rules."""

    demand: dict[PoolName, LearnedDemand]
    #: What guarantees gave up a moment ago and nobody may borrow yet.
    released: tuple[Released, ...]
    spare: dict[WorkloadId, Spare]
    fair_share_reservations: dict[tuple[TeamName, PoolName], FairShareReservation]
    #: What came in this cycle and has not been learned from.
    arrivals: dict[PoolName, list[Ask]] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: Cluster) -> Carried:
        """What the last cycle left."""
        return cls(
            dict(cluster.demand),
            cluster.released,
            dict(cluster.spare),
            dict(cluster.fair_share_reservations),
        )

    def arrived(self, pool: PoolName, asks: Iterable[Ask]) -> None:
        """Remember what work comes to a pool."""
        self.arrivals.setdefault(pool, []).extend(asks)

    def learn(self) -> Mapping[PoolName, LearnedDemand]:
        """What work comes to each pool, with all that came in this cycle."""
        for pool, asks in self.arrivals.items():
            self.demand[pool] = self.demand.get(pool, LearnedDemand()).after(*asks)
        self.arrivals.clear()
        return self.demand


@dataclass(slots=True)
class ChangeLog:
    """Which workloads have changed since the cycle began, and what follows them."""

    counted: CountedUses
    #: Workloads put so far, and those of them that the index has not looked at.
    changed: dict[WorkloadId, None] = field(default_factory=dict)
    unread: set[WorkloadId] = field(default_factory=set)
    versions: Versions = field(default_factory=Versions)


@dataclass(slots=True)
class Turns:
    """How far the cycle has come: who had what in its turn, and what is kept for whom till its end."""

    #: Who is not considered in this cycle, and why.
    obstacles: Mapping[WorkloadId, Reason] = field(default_factory=dict)
    #: Jobs admitted in this cycle; leases that must start in it or not at all.
    admitted: set[WorkloadId] = field(default_factory=set)
    redeeming: set[WorkloadId] = field(default_factory=set)
    #: Somebody lost a promise, or more is being cleared than was asked for: who has had its turn gets
    #: another, or the next cycle would decide otherwise on the same facts.
    another_round: bool = False
    #: Whose turn it is on the surplus, and after how many changes of workloads that was seen.
    fair_share_claims: tuple[FairShareClaim, ...] = ()
    claims_at: int = -1
    #: In which pool a team, for so much, has left a place to another, for so much.
    left: set[tuple[PoolName, tuple[TeamName, int, TeamName, int]]] = field(default_factory=set)


@dataclass(slots=True)
class Told:
    """What goes out with the outcome: answers to those who asked, and events for everybody."""

    verdicts: list[Verdict] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
