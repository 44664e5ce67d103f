"""The next cluster while it is being made: what one step of the scheduler has changed so far.

:mod:`.advance` starts a cycle state from the last committed cluster, the steps of the cycle write into
it, and its outcome is again an immutable value. A cycle state that is thrown away has done nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.views import asked
from gpucommons.scheduler.core.cycle_state.counted_uses import CountedUses
from gpucommons.scheduler.core.cycle_state.derived_state import DerivedState, Settled
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact, Memo
from gpucommons.scheduler.core.cycle_state.versions import Versions
from gpucommons.scheduler.core.cycle_state.workload_index import WorkloadIndex
from gpucommons.scheduler.core.model.clock import Clock
from gpucommons.scheduler.core.model.demand import must_have
from gpucommons.scheduler.core.model.lifecycle import is_remembered
from gpucommons.scheduler.core.model.resources import Block, Node, Policy, Pool, Team
from gpucommons.scheduler.core.model.state import (
    Changes,
    Cluster,
    Derived,
    Event,
    FairShareClaim,
    FairShareReservation,
    Released,
    Spare,
    Verdict,
)
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    Millis,
    NodeId,
    PoolName,
    TeamName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.learning import LearnedDemand
from gpucommons.scheduler.core.quota import fair_share, quota

#: Guarantees in force, per pool and team.
Guarantees = dict[PoolName, dict[TeamName, int]]


@dataclass(slots=True)
class CycleState:
    """A cluster in the making."""

    before: Cluster
    now_ms: Millis
    new_ids: Iterator[str]
    workloads: dict[WorkloadId, Workload]
    teams: dict[TeamName, Team]
    pools: dict[PoolName, Pool]
    nodes: dict[NodeId, Node]
    blocks: tuple[Block, ...]
    policy: Policy
    derived: DerivedState
    demand: dict[PoolName, LearnedDemand]
    verdicts: list[Verdict] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    #: Jobs admitted in this cycle; leases that must start in it or not at all.
    admitted: set[WorkloadId] = field(default_factory=set)
    redeeming: set[WorkloadId] = field(default_factory=set)
    uses: quota.Uses = field(default_factory=dict)
    #: Places kept for in-guarantee work that waits for other such work.
    reservations: dict[WorkloadId, tuple[WorkerPlacement, ...]] = field(default_factory=dict)
    #: What guarantees gave up a moment ago and nobody may borrow yet.
    released: tuple[Released, ...] = ()
    spare: dict[WorkloadId, Spare] = field(default_factory=dict)
    fair_share_reservations: dict[tuple[TeamName, PoolName], FairShareReservation] = field(
        default_factory=dict
    )
    #: Whose turn it is, and after how many changes of workloads that was seen.
    fair_share_claims: tuple[FairShareClaim, ...] = ()
    claims_at: int = -1
    #: In which pool a team, for so much, has left a place to another, for so much.
    left: set[tuple[PoolName, tuple[TeamName, int, TeamName, int]]] = field(default_factory=set)
    #: Somebody lost a promise, or more is being cleared than was asked for: all get another turn.
    another_round: bool = False
    #: What came in this cycle and has not been learned from.
    arrivals: dict[PoolName, list[Ask]] = field(default_factory=dict)
    #: Workloads put so far, and those of them that the index has not looked at.
    changed: dict[WorkloadId, None] = field(default_factory=dict)
    unread: set[WorkloadId] = field(default_factory=set)
    _counted: CountedUses = field(init=False)
    versions: Versions = field(default_factory=Versions)
    memo: Memo[CycleState] = field(init=False)

    def __post_init__(self) -> None:
        """Remember nothing yet."""
        self._counted = CountedUses(self.before, self.derived.uses)
        self.memo = Memo(self, _READS)

    @classmethod
    def of(cls, cluster: Cluster, now_ms: Millis, new_ids: Iterator[str]) -> CycleState:
        """Start from the last committed cluster. Time never goes back."""
        found = cluster.derived.take((cluster.workloads, cluster.nodes))
        derived = found if isinstance(found, DerivedState) else DerivedState.of(cluster)
        return cls._with(cluster, derived, max(now_ms, cluster.now_ms), new_ids)

    @classmethod
    def _with(
        cls, cluster: Cluster, derived: DerivedState, now_ms: Millis, new_ids: Iterator[str]
    ) -> CycleState:
        return cls(
            before=cluster,
            now_ms=now_ms,
            new_ids=new_ids,
            workloads=dict(cluster.workloads),
            teams=dict(cluster.teams),
            pools=dict(cluster.pools),
            nodes=dict(cluster.nodes),
            blocks=cluster.blocks,
            policy=cluster.policy,
            released=cluster.released,
            spare=dict(cluster.spare),
            fair_share_reservations=dict(cluster.fair_share_reservations),
            derived=derived,
            demand=dict(cluster.demand),
        )

    def again(self) -> CycleState:
        """Return a new cycle state of the same cluster, as if this one had never been."""
        derived = self.derived
        derived.index.look(self.before.workloads, self.changed)
        derived.clock.fresh.update(self.changed)
        derived.stale.update(self.changed)
        return self._with(self.before, derived, self.now_ms, self.new_ids)

    @property
    def capacity(self) -> Capacity:
        """What is held and free; true after :meth:`survey`."""
        return self.derived.capacity

    @property
    def clock(self) -> Clock:
        """Deadlines of all workloads."""
        return self.derived.clock

    @property
    def index(self) -> WorkloadIndex:
        """Who stands where, now."""
        if self.unread:
            self.derived.index.look(self.workloads, self.unread)
            self.unread = set()
        return self.derived.index

    def among(self, workload_ids: Iterable[WorkloadId]) -> list[Workload]:
        """Return these workloads, in one fixed order."""
        return [self.workloads[workload_id] for workload_id in sorted(workload_ids)]

    def put(self, workload: Workload) -> Workload:
        """Replace (or add) a workload."""
        workload_id = workload.workload_id
        before = self.workloads.get(workload_id)
        self.workloads[workload_id] = workload
        self._changed(workload_id)
        self._note(before, workload)
        return workload

    def forget(self, workload_id: WorkloadId) -> None:
        """Leave a workload out."""
        before = self.workloads.pop(workload_id)
        self._changed(workload_id)
        self._note(before, None)

    @property
    def state(self) -> tuple[int, int]:
        """Equal as long as no workload and no node has changed."""
        return self.versions.workloads, self.capacity.changes

    def _note(self, before: Workload | None, after: Workload | None) -> None:
        """Count which facts have changed with a workload, and touch the nodes that look otherwise now."""
        for changed in self.versions.note(before, after):
            holder = self.holder_of(changed)
            attempt = None if holder is None else holder.current
            for one in () if attempt is None else attempt.placements:
                if one.node_id in self.capacity.nodes:
                    self.capacity.nodes[one.node_id].touch()

    def _changed(self, workload_id: WorkloadId) -> None:
        self.versions.workloads += 1
        self.changed[workload_id] = None
        self.unread.add(workload_id)
        self.derived.stale.add(workload_id)
        self.derived.clock.fresh.add(workload_id)

    def arrived(self, workload: Workload) -> None:
        """Learn from a new job what work comes to the pool it likes most."""
        spec = workload.spec
        asks = (asked(worker) for worker in must_have(spec))
        self.arrivals.setdefault(spec.pools[0], []).extend(asks)

    def holder_of(self, attempt_id: AttemptId) -> Workload | None:
        """The workload whose current attempt this is."""
        workload_id = self.index.attempts.get(attempt_id)
        return None if workload_id is None else self.workloads[workload_id]

    def tell(  # noqa: PLR0913 - the fields of an event, all but two of them optional
        self,
        kind: str,
        text: str,
        workload: Workload | None = None,
        *,
        by: str = "scheduler",
        data: dict[str, Any] | None = None,
        attempt_id: AttemptId | None = None,
        team: TeamName | None = None,
    ) -> None:
        """Add an event."""
        attempt = None if workload is None else workload.current
        self.events.append(
            Event(
                at_ms=self.now_ms,
                kind=kind,
                by=by,
                text=text,
                workload_id=None if workload is None else workload.workload_id,
                attempt_id=attempt_id or (None if attempt is None else attempt.attempt_id),
                team=workload.spec.team if workload is not None else team,
                data=data or {},
            )
        )

    def survey(self) -> None:
        """Look at the devices anew: after this, :attr:`capacity` and :attr:`uses` are true."""
        self.versions.survey += 1
        self.reservations.clear()
        derived = self.derived
        if derived.capacity.lies_on(self.nodes):
            derived.capacity.follow(self.workloads, derived.stale, self.blocks)
        else:
            derived.capacity = Capacity.of(
                self.nodes.values(), self.workloads.values(), self.blocks
            )
        derived.stale.clear()
        for pool, asks in self.arrivals.items():
            self.demand[pool] = self.demand.get(pool, LearnedDemand()).after(*asks)
        self.arrivals.clear()
        derived.capacity.known = {pool: learned.known for pool, learned in self.demand.items()}
        self.uses = self._counted.now(self.nodes, self.workloads, self.changed)

    def begin_round(self) -> None:
        """Keep no places from before: each round keeps those that it finds nothing better for."""
        self.another_round = False
        self.reservations.clear()
        self.capacity.unreserve()

    def count(self) -> None:
        """Count uses anew, and look at no device: for a step that decides nothing."""
        self.uses = self._counted.now(self.nodes, self.workloads, self.changed)

    def use(self, team: TeamName, pool: PoolName) -> quota.Use:
        """What a team holds or was promised in a pool."""
        return self.uses.get((team, pool), quota.NO_USE)

    def accounts(
        self, pool: PoolName, usage: fair_share.Usage, uses: quota.Uses
    ) -> fair_share.Accounts:
        """What teams had and have of a pool's surplus; the same ones while nothing changes."""
        found = self.memo.get(_ACCOUNTS, pool)
        if found is None or found.usage is not usage:
            half_life_ms = fair_share.half_life_of(self.pools, pool)
            found = fair_share.Accounts(self.teams, pool, half_life_ms, usage, dict(uses))
        elif found.uses == uses:
            return found
        else:
            found = found.after(dict(uses))
        return self.memo.keep(_ACCOUNTS, pool, found)

    def usage_now(self) -> dict[tuple[TeamName, PoolName], int]:
        """Decayed use of the surplus up to now, from what was held since the last cycle."""
        before, held = self.before, self.derived.uses
        return self.memo.remember(
            _USAGE,
            None,
            lambda: fair_share.brought_up(
                before.usage, held, before.pools, before.usage_at_ms, self.now_ms
            ),
        )

    @property
    def settled(self) -> bool:
        """All was decided for the very same rules, and no deadline has passed since."""
        found = self.derived.settled
        before = self.before
        rules = (before.teams, before.pools, before.blocks, before.policy)
        return (
            found is not None
            and self.now_ms < found.until_ms
            and all(one is other for one, other in zip(found.rules, rules, strict=True))
        )

    def finish(self, wake_ms: int | None) -> tuple[Cluster, Changes]:
        """Return the next cluster and what to write for it. The cycle state is spent."""
        before = self.before
        uses = self._counted.now(self.nodes, self.workloads, self.changed)
        usage = self._usage_to_write(uses)
        changes = Changes(
            now_ms=self.now_ms,
            workloads=self._changed_workloads(),
            teams=tuple(t for n, t in self.teams.items() if before.teams.get(n) != t),
            removed_teams=tuple(n for n in before.teams if n not in self.teams),
            pools=tuple(p for n, p in self.pools.items() if before.pools.get(n) != p),
            nodes=self._changed_nodes(),
            removed_nodes=tuple(n for n in before.nodes if n not in self.nodes),
            blocks=self.blocks if self.blocks != before.blocks else None,
            policy=self.policy if self.policy != before.policy else None,
            usage=usage,
            demand={p: d for p, d in self.demand.items() if before.demand.get(p) is not d},
            verdicts=tuple(self.verdicts),
            events=tuple(self.events),
        )
        for workload_id in self._forgotten():
            self.forget(workload_id)
        self.derived.index.look(self.workloads, self.unread)
        self.derived.uses = uses
        self.derived.settled = Settled(
            1 << 62 if wake_ms is None else wake_ms,  # later than any time
            (self.teams, self.pools, self.blocks, self.policy),
        )
        cluster = replace(
            before,
            pools=self.pools,
            nodes=self.nodes,
            teams=self.teams,
            workloads=self.workloads,
            blocks=self.blocks,
            policy=self.policy,
            usage=before.usage if usage is None else usage,
            usage_at_ms=before.usage_at_ms if usage is None else self.now_ms,
            released=self.released,
            spare=self.spare,
            fair_share_reservations=self.fair_share_reservations,
            demand=self.demand,
            now_ms=self.now_ms,
            derived=Derived(self.derived, (self.workloads, self.nodes)),
        )
        self.memo.forget()
        return cluster, changes

    def _changed_workloads(self) -> tuple[Workload, ...]:
        before = self.before.workloads
        found = ((i, self.workloads.get(i)) for i in sorted(self.changed))
        return tuple(one for i, one in found if one is not None and one != before.get(i))

    def _changed_nodes(self) -> tuple[Node, ...]:
        before = self.before.nodes
        if self.nodes == before:
            return ()
        return tuple(node for node_id, node in self.nodes.items() if before.get(node_id) != node)

    def _usage_to_write(self, uses: quota.Uses) -> dict[tuple[TeamName, PoolName], int] | None:
        """Use is written down only when what is borrowed changes: between, it can be computed."""
        held = self.derived.uses
        changed = any(
            held.get(key, quota.NO_USE).borrowed != uses.get(key, quota.NO_USE).borrowed
            for key in held.keys() | uses.keys()
        )
        return self.usage_now() if changed else None

    def _forgotten(self) -> set[WorkloadId]:
        """Final workloads, but those that a live one depends on and those that are remembered."""
        index = self.index
        if not index.final:
            return set()
        needed = {after for i in index.dependent for after in self.workloads[i].spec.after}
        final = index.final - needed
        return {i for i in final if not is_remembered(self.workloads[i], self.now_ms)}


#: What teams had and have of a pool's surplus; brought up to date by whoever asks.
_ACCOUNTS: Entry[PoolName, fair_share.Accounts] = Entry("accounts", Fact.SURVEY)
#: It is the cluster's from which the cycle began: nothing changes it.
_USAGE: Entry[None, dict[tuple[TeamName, PoolName], int]] = Entry("usage now")

#: How each fact is recognised: by something that stays equal until it changes.
_READS: dict[Fact, Callable[[CycleState], object]] = {
    Fact.SURVEY: lambda cycle: cycle.versions.survey,
    Fact.WORKLOADS: lambda cycle: cycle.versions.workloads,
    Fact.PROMISES: lambda cycle: cycle.versions.promises,
    Fact.ENDING_NOTEBOOKS: lambda cycle: cycle.versions.ending_notebooks,
    Fact.WITHDRAWALS: lambda cycle: cycle.versions.withdrawals,
    Fact.BORROWERS: lambda cycle: cycle.index.lent_changes,
    Fact.CAPACITY: lambda cycle: cycle.capacity.changes,
    Fact.FREED: lambda cycle: cycle.capacity.freed,
    Fact.HEADROOM: lambda cycle: cycle.capacity.headroom_laid,
    Fact.BLOCKS: lambda cycle: cycle.blocks,
    Fact.RELEASED: lambda cycle: cycle.released,
    Fact.FAIR_SHARE_CLAIMS: lambda cycle: cycle.fair_share_claims,
}
