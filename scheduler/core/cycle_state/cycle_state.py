"""The next cluster while it is being made: what one step of the scheduler has changed so far.

:mod:`.advance` starts a cycle state from the last committed cluster, the steps of the cycle write into
it, and its outcome is again an immutable value. A cycle state that is thrown away has done nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.capacity_arrays import asked
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact, Memo
from gpucommons.scheduler.core.cycle_state.next_deadlines import Clock
from gpucommons.scheduler.core.cycle_state.parts import (
    Carried,
    ChangeLog,
    CountedUses,
    DerivedState,
    Rules,
    Told,
    Turns,
)
from gpucommons.scheduler.core.cycle_state.workload_index import WorkloadIndex
from gpucommons.scheduler.core.model.demand import must_have
from gpucommons.scheduler.core.model.resources import Block, Node, Policy, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import Cluster, Event
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    Millis,
    NodeId,
    Nomination,
    PoolName,
    Spec,
    TeamName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.quota import fair_share, quota


@dataclass(slots=True)
class CycleState:
    """A cluster in the making."""

    before: Cluster
    now_ms: Millis
    new_ids: Iterator[str]
    workloads: dict[WorkloadId, Workload]
    nodes: dict[NodeId, Node]
    rules: Rules
    carried: Carried
    derived: DerivedState
    log: ChangeLog
    turns: Turns = field(default_factory=Turns)
    told: Told = field(default_factory=Told)
    memo: Memo[CycleState] = field(init=False)

    def __post_init__(self) -> None:
        """Remember nothing yet."""
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
            nodes=dict(cluster.nodes),
            rules=Rules.of(cluster),
            carried=Carried.of(cluster),
            derived=derived,
            log=ChangeLog(CountedUses(cluster, derived.uses)),
        )

    def again(self) -> CycleState:
        """Return a new cycle state of the same cluster, as if this one had never been."""
        derived = self.derived
        derived.index.look(self.before.workloads, self.log.changed)
        derived.clock.fresh.update(self.log.changed)
        derived.stale.update(self.log.changed)
        return self._with(self.before, derived, self.now_ms, self.new_ids)

    @property
    def capacity(self) -> Capacity:
        """What is held and free; true after :meth:`refresh`."""
        return self.derived.capacity

    @property
    def uses(self) -> quota.Uses:
        """What teams hold or were promised; true after :meth:`refresh`."""
        return self.log.counted.uses

    @property
    def teams(self) -> dict[TeamName, Team]:
        """All teams, by name."""
        return self.rules.teams

    @property
    def pools(self) -> dict[PoolName, Pool]:
        """All pools, by name."""
        return self.rules.pools

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Where fixed quota lies."""
        return self.rules.blocks

    @property
    def policy(self) -> Policy:
        """The policy for all teams."""
        return self.rules.policy

    @property
    def clock(self) -> Clock:
        """Deadlines of all workloads."""
        return self.derived.clock

    @property
    def index(self) -> WorkloadIndex:
        """Who stands where, now."""
        if self.log.unread:
            self.derived.index.look(self.workloads, self.log.unread)
            self.log.unread = set()
        return self.derived.index

    def among(self, workload_ids: Iterable[WorkloadId]) -> list[Workload]:
        """Return these workloads, in one fixed order."""
        return [self.workloads[workload_id] for workload_id in sorted(workload_ids)]

    def holders(self, workload_ids: Iterable[WorkloadId]) -> list[tuple[Workload, Attempt]]:
        """Those of them that have a current attempt, with it, in one fixed order."""
        found = self.among(workload_ids)
        return [(one, attempt) for one in found if (attempt := one.current) is not None]

    def promised(self) -> list[tuple[Workload, Nomination]]:
        """Who holds nothing and was promised devices, with the promise, in one fixed order."""
        return [
            (one, promise)
            for one in self.among(self.index.nominated)
            if (promise := one.nomination) is not None and one.current is None
        ]

    def put(self, workload: Workload) -> Workload:
        """Replace (or add) a workload; :attr:`capacity` and :attr:`uses` stay true if they were."""
        workload_id = workload.workload_id
        before = self.workloads.get(workload_id)
        self.workloads[workload_id] = workload
        self._note(workload_id, before, workload)
        if self.log.versions.refreshed:
            self.follow(before, workload)
        return workload

    def follow(self, before: Workload | None, after: Workload) -> None:
        """Reckon as if a workload, until now as before, were as after: what it holds, and its team."""
        if self.capacity.follow(before, after):
            quota.count_change(self.uses, self.nodes, before, after)

    def forget(self, workload_id: WorkloadId) -> None:
        """Leave a workload out."""
        self._note(workload_id, self.workloads.pop(workload_id), None)

    @property
    def state(self) -> tuple[int, int]:
        """Equal as long as no workload and no node has changed."""
        return self.log.versions.workloads, self.capacity.changes

    def _note(
        self, workload_id: WorkloadId, before: Workload | None, after: Workload | None
    ) -> None:
        """Count which facts have changed with a workload, and touch the nodes that look otherwise now."""
        self.log.changed[workload_id] = None
        self.log.unread.add(workload_id)
        self.derived.stale.add(workload_id)
        self.derived.clock.fresh.add(workload_id)
        nodes = self.capacity.nodes
        for changed in self.log.versions.note(before, after):
            holder = self.holder_of(changed)
            attempt = None if holder is None else holder.current
            for one in () if attempt is None else attempt.placements:
                if one.node_id in nodes:
                    nodes[one.node_id].touch()

    def arrived(self, workload: Workload) -> None:
        """Learn from a new job what work comes to the pool it likes most."""
        spec = workload.spec
        asks = (asked(worker) for worker in must_have(spec))
        self.carried.arrivals.setdefault(spec.pools[0], []).extend(asks)

    def holder_of(self, attempt_id: AttemptId) -> Workload | None:
        """The workload whose current attempt this is."""
        # Whose an attempt is never changes: what the index knew before the last changes mostly does.
        known = self.derived.index.attempts.get(attempt_id)
        found = None if known is None else self.workloads.get(known)
        if found is not None and found.current and found.current.attempt_id == attempt_id:
            return found
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
        self.told.tell(
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

    def refresh(self) -> None:
        """Look at the devices anew: after this, :attr:`capacity` and :attr:`uses` are true."""
        self.log.versions.refreshed += 1
        derived = self.derived
        if derived.capacity.has_same_nodes(self.nodes):
            derived.capacity.update(self.workloads, derived.stale, self.rules.blocks)
        else:
            derived.capacity = Capacity.of(
                self.nodes.values(), self.workloads.values(), self.rules.blocks
            )
        derived.stale.clear()
        demand = self.carried.learn()
        derived.capacity.known = {pool: learned.known for pool, learned in demand.items()}
        self.count_uses()

    def begin_round(self) -> None:
        """Nobody has asked for another round yet, and no place is kept for a guarantee: step 4 decides anew."""
        self.turns.asked_again = False
        self.capacity.unreserve()

    def ask_for_another_round(self) -> None:
        """Who has had its turn gets another: somebody lost a promise, or more is cleared than was asked for.

        Else the next cycle would decide otherwise on the same facts.
        """
        self.turns.asked_again = True

    def count_uses(self) -> quota.Uses:
        """Count uses anew, and look at no device: enough for a step that decides nothing."""
        return self.log.counted.count(self.nodes, self.workloads, self.log.changed)

    def use(self, team: TeamName, pool: PoolName) -> quota.Use:
        """What a team holds or was promised in a pool."""
        return self.uses.get((team, pool), quota.NO_USE)

    def quota_of(self, team: TeamName, pool: PoolName) -> Quota:
        """What a team may hold in a pool."""
        return quota.quota_of(self.teams, team, pool)

    def pools_of(self, spec: Spec) -> list[PoolName]:
        """The pools that somebody asks for, without those that are gone."""
        return [pool for pool in spec.pools if pool in self.pools]

    def pool_of(self, attempt: Attempt) -> Pool:
        """The pool in which an attempt lies."""
        name = quota.pool_name_of(self.nodes, attempt.placements) or PoolName("unknown")
        return self.pools.get(name) or Pool(name=name)

    def accounts(self, pool: PoolName, uses: quota.Uses) -> fair_share.Accounts:
        """What teams had and have of a pool's surplus; the same ones while nothing changes."""
        found = self.memo.get(_ACCOUNTS, pool)
        if found is None:
            half_life_ms, usage = fair_share.half_life_of(self.rules.pools, pool), self.usage_now()
            found = fair_share.Accounts(self.rules.teams, pool, half_life_ms, usage, dict(uses))
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


#: What teams had and have of a pool's surplus; brought up to date by whoever asks.
_ACCOUNTS: Entry[PoolName, fair_share.Accounts] = Entry("accounts", Fact.REFRESHED)
#: It is the cluster's from which the cycle began: nothing changes it.
_USAGE: Entry[None, dict[tuple[TeamName, PoolName], int]] = Entry("usage now")

#: How each fact is recognised: by something that stays equal until it changes.
_READS: dict[Fact, Callable[[CycleState], object]] = {
    Fact.REFRESHED: lambda cycle: cycle.log.versions.refreshed,
    Fact.WORKLOADS: lambda cycle: cycle.log.versions.workloads,
    Fact.PROMISES: lambda cycle: cycle.log.versions.promises,
    Fact.ENDING_NOTEBOOKS: lambda cycle: cycle.log.versions.ending_notebooks,
    Fact.WITHDRAWALS: lambda cycle: cycle.log.versions.withdrawals,
    Fact.BORROWERS: lambda cycle: cycle.index.borrowed_changes,
    Fact.CAPACITY: lambda cycle: cycle.capacity.changes,
    Fact.FREED: lambda cycle: cycle.capacity.freed,
    Fact.HELD_FROM_BORROWERS: lambda cycle: cycle.capacity.ledger.borrower_changes,
    Fact.BLOCKS: lambda cycle: cycle.rules.blocks,
    Fact.RELEASED: lambda cycle: cycle.carried.released,
    Fact.FAIR_SHARE_CLAIMS: lambda cycle: cycle.turns.fair_share_claims,
}
