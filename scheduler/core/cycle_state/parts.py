"""The parts of a cycle's state: rules, what is carried on and derived, changes, turns, what is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.hold_back import FairShareClaim
from gpucommons.scheduler.core.cycle_state.next_deadlines import Clock
from gpucommons.scheduler.core.cycle_state.versions import Versions
from gpucommons.scheduler.core.cycle_state.workload_index import WorkloadIndex
from gpucommons.scheduler.core.model.going_on import Badge, BadgeKey
from gpucommons.scheduler.core.model.holds import FairShareReservation
from gpucommons.scheduler.core.model.intents import Verdict
from gpucommons.scheduler.core.model.resources import Block, Node, Policy, Pool, Team
from gpucommons.scheduler.core.model.state import Cluster, Event, PendingResize, Released
from gpucommons.scheduler.core.model.types import (
    NodeId,
    PoolName,
    Reason,
    TeamName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.learning import LearnedDemand
from gpucommons.scheduler.core.quota import quota


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
    pending_resizes: dict[WorkloadId, PendingResize]
    fair_share_reservations: dict[tuple[TeamName, PoolName], FairShareReservation]
    badges: dict[BadgeKey, Badge]
    #: What came in this cycle and has not been learned from.
    arrivals: dict[PoolName, list[Ask]] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: Cluster) -> Carried:
        """What the last cycle left."""
        return cls(
            dict(cluster.demand),
            cluster.released,
            dict(cluster.pending_resizes),
            dict(cluster.fair_share_reservations),
            dict(cluster.badges),
        )

    def learn(self) -> Mapping[PoolName, LearnedDemand]:
        """What work comes to each pool, with all that came in this cycle."""
        for pool, asks in self.arrivals.items():
            self.demand[pool] = self.demand.get(pool, LearnedDemand()).after(*asks)
        self.arrivals.clear()
        return self.demand


class CountedUses:
    """What teams hold while a cycle goes on: only workloads that have changed are counted again."""

    def __init__(self, before: Cluster, uses: quota.Uses) -> None:
        """``uses``: those of the cluster from which the cycle began."""
        self._before = before
        #: Follows each workload as it is put.
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
                quota.count_change(self._counted, nodes, before, now)
        self.uses = dict(self._counted)
        return self.uses


@dataclass(frozen=True, slots=True)
class Settled:
    """Until when, and under which rules, nothing is to be decided unless something happens."""

    until_ms: int
    rules: tuple[object, ...]


@dataclass(slots=True)
class DerivedState:
    """What is worked out of a cluster once and then kept up to date from cycle to cycle.

    It says nothing that the cluster does not, and is true for all workloads but the stale ones:
    without it the next cycle works everything out again.
    """

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
    #: Another round was asked for in this one (:meth:`.CycleState.ask_for_another_round`).
    asked_again: bool = False
    #: Whose turn it is on the surplus, and after how many changes of workloads that was seen.
    fair_share_claims: tuple[FairShareClaim, ...] = ()
    claims_at: int = -1
    #: In which pool a team, for so much, has left a place to another, for so much.
    left: set[tuple[PoolName, tuple[TeamName, int, TeamName, int]]] = field(default_factory=set)


@dataclass(slots=True)
class Told:
    """What goes out with the outcome: answers to those who asked, and events for everybody."""

    verdicts: list[Verdict] = field(default_factory=list)
    #: None where an event was taken back: the places of the others stay as they are.
    _events: list[Event | None] = field(default_factory=list)
    #: Where a workload's events of one kind are. Each admission asks for them, so no search would do.
    _places: dict[tuple[str, WorkloadId], list[int]] = field(default_factory=dict)

    @property
    def events(self) -> tuple[Event, ...]:
        """What was told and not taken back, in its order."""
        return tuple(event for event in self._events if event is not None)

    def tell(self, event: Event) -> None:
        """Add an event."""
        if event.workload_id is not None:
            self._places.setdefault((event.kind, event.workload_id), []).append(len(self._events))
        self._events.append(event)

    def take_back(self, kind: str, workload_id: WorkloadId) -> bool:
        """Leave out what was told of a decision that this cycle changes; False where nothing was."""
        places = self._places.get((kind, workload_id), [])
        while places:
            place = places.pop()
            if self._events[place] is not None:
                self._events[place] = None
                return True
        return False

    def mark(self) -> int:
        """Where :meth:`take_back_since` begins."""
        return len(self._events)

    def take_back_since(self, mark: int) -> None:
        """Leave out all that was told since a mark."""
        self._events[mark:] = [None] * (len(self._events) - mark)
