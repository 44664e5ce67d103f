"""The next cluster while it is being made: what one step of the scheduler has changed so far.

:mod:`.advance` starts a draft from the last committed cluster, the steps of the cycle write into
it, and its outcome is again an immutable value. A draft that is thrown away has done nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from gpucommons.scheduler.core import fair_share, quota
from gpucommons.scheduler.core.demand import shape
from gpucommons.scheduler.core.lifecycle import LEASES_REMEMBERED_MS, is_final
from gpucommons.scheduler.core.resources import Block, Node, Policy, Pool, Team
from gpucommons.scheduler.core.room import Room
from gpucommons.scheduler.core.state import Changes, Cluster, Event, Released, Verdict
from gpucommons.scheduler.core.types import (
    AttemptId,
    Kind,
    Millis,
    NodeId,
    PoolName,
    TeamName,
    Workload,
    WorkloadId,
)

#: Guarantees in force, per pool and team.
Guarantees = dict[PoolName, dict[TeamName, int]]


@dataclass(slots=True)
class Draft:
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
    verdicts: list[Verdict] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    #: Leases that must start in this cycle or not at all.
    redeeming: set[WorkloadId] = field(default_factory=set)
    room: Room = field(default_factory=lambda: Room({}))
    uses: quota.Uses = field(default_factory=dict)
    #: Searches of this cycle that found nothing: rooms only shrink, so asking again is useless.
    misses: set[tuple[object, ...]] = field(default_factory=set)
    #: What searches of this cycle keep for the next ones; gone when promises are taken back.
    searches: dict[tuple[object, ...], object] = field(default_factory=dict)
    #: What guarantees are worth with the nodes there are; None until somebody asks.
    guarantees: Guarantees | None = None
    _usage: dict[tuple[TeamName, PoolName], int] | None = None
    #: What guarantees gave up a moment ago and nobody may borrow yet.
    released: list[Released] = field(default_factory=list)
    #: How many promises were taken back.
    withdrawn: int = 0
    #: How many promises clear more than they need.
    left_over: int = 0

    @classmethod
    def of(cls, cluster: Cluster, now_ms: Millis, new_ids: Iterator[str]) -> Draft:
        """Start from the last committed cluster. Time never goes back."""
        return cls(
            before=cluster,
            now_ms=max(now_ms, cluster.now_ms),
            new_ids=new_ids,
            workloads=dict(cluster.workloads),
            teams=dict(cluster.teams),
            pools=dict(cluster.pools),
            nodes=dict(cluster.nodes),
            blocks=cluster.blocks,
            policy=cluster.policy,
            released=list(cluster.released),
        )

    def put(self, workload: Workload) -> Workload:
        """Replace (or add) a workload."""
        self.workloads[workload.workload_id] = workload
        return workload

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
        """Look at the devices anew: after this, :attr:`room` and :attr:`uses` are true."""
        self.misses.clear()
        self.searches.clear()
        self.guarantees = None
        self.room = Room.of(self.nodes.values(), self.workloads.values(), self.blocks)
        self.uses = quota.uses(self.nodes, self.workloads.values())

    def use(self, team: TeamName, pool: PoolName) -> quota.Use:
        """What a team holds or was promised in a pool."""
        return self.uses.get((team, pool), quota.Use())

    def has_no_place(self, kind: str, workload: Workload) -> bool:
        """A nominee finds nothing better: its like found nothing, and its promise hides nothing."""
        if workload.nomination is None or self.room.hides(workload.workload_id):
            return False
        asked = shape(workload.spec)
        return all((kind, asked, pool) in self.misses for pool in workload.spec.pools)

    def accounts(self, pool: PoolName) -> fair_share.Accounts:
        """What teams had and have of a pool's surplus."""
        half_life_ms = fair_share.half_life_of(self.pools, pool)
        return fair_share.Accounts(self.teams, pool, half_life_ms, self.usage_now(), self.uses)

    def usage_now(self) -> dict[tuple[TeamName, PoolName], int]:
        """Decayed use of the surplus up to now, from what was held since the last cycle."""
        if self._usage is None:
            self._usage = self._brought_up()
        return self._usage

    def _brought_up(self) -> dict[tuple[TeamName, PoolName], int]:
        held = quota.uses(self.before.nodes, self.before.workloads.values())
        return fair_share.brought_up(
            self.before.usage, held, self.before.pools, self.before.usage_at_ms, self.now_ms
        )

    def finish(self) -> tuple[Cluster, Changes]:
        """Return the next cluster and what to write for it."""
        before = self.before
        changed = tuple(
            workload
            for workload_id, workload in self.workloads.items()
            if before.workloads.get(workload_id) is not workload
            and before.workloads.get(workload_id) != workload
        )
        usage = self._usage_to_write()
        changes = Changes(
            now_ms=self.now_ms,
            workloads=changed,
            teams=tuple(t for n, t in self.teams.items() if before.teams.get(n) != t),
            removed_teams=tuple(n for n in before.teams if n not in self.teams),
            pools=tuple(p for n, p in self.pools.items() if before.pools.get(n) != p),
            nodes=tuple(o for n, o in self.nodes.items() if before.nodes.get(n) != o),
            blocks=self.blocks if self.blocks != before.blocks else None,
            policy=self.policy if self.policy != before.policy else None,
            usage=usage,
            verdicts=tuple(self.verdicts),
            events=tuple(self.events),
        )
        cluster = replace(
            before,
            pools=self.pools,
            nodes=self.nodes,
            teams=self.teams,
            workloads=self._remembered(),
            blocks=self.blocks,
            policy=self.policy,
            usage=before.usage if usage is None else usage,
            usage_at_ms=before.usage_at_ms if usage is None else self.now_ms,
            released=tuple(self.released),
            now_ms=self.now_ms,
        )
        return cluster, changes

    def _usage_to_write(self) -> dict[tuple[TeamName, PoolName], int] | None:
        """Use is written down only when what is borrowed changes: between, it can be computed."""
        held = quota.uses(self.before.nodes, self.before.workloads.values())
        holds = quota.uses(self.nodes, self.workloads.values())
        changed = any(
            held.get(key, quota.Use()).borrowed != holds.get(key, quota.Use()).borrowed
            for key in held.keys() | holds.keys()
        )
        return self.usage_now() if changed else None

    def _remembered(self) -> dict[WorkloadId, Workload]:
        """Live workloads, final ones that a live one depends on, and leases that just ended."""
        live = {i: w for i, w in self.workloads.items() if not is_final(w)}
        needed = {after for workload in live.values() for after in workload.spec.after}
        since = self.now_ms - LEASES_REMEMBERED_MS
        needed |= {
            i
            for i, w in self.workloads.items()
            if w.spec.kind is Kind.NOTEBOOK and w.ended_ms is not None and w.ended_ms > since
        }
        return {i: w for i, w in self.workloads.items() if i in live or i in needed}
