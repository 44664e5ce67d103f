"""What a finished cycle state leaves: the next cluster, and what the store is to write for it."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.parts import Settled
from gpucommons.scheduler.core.model.lifecycle import is_remembered
from gpucommons.scheduler.core.model.state import Changes, Cluster, Derived
from gpucommons.scheduler.core.model.types import PoolName, TeamName, WorkloadId
from gpucommons.scheduler.core.quota import quota

_Usage = dict[tuple[TeamName, PoolName], int]
_NEVER_MS = 1 << 62


def finish(cycle: CycleState, wake_ms: int | None) -> tuple[Cluster, Changes]:
    """Return the next cluster and what to write for it. The cycle state is spent.

    Without an event nothing is to be decided before ``wake_ms``; None = never.
    """
    rules, derived, uses = cycle.rules, cycle.derived, cycle.count_uses()
    usage = _usage_to_write(cycle, uses)
    changes = _changes(cycle, usage)
    for workload_id in _forgotten(cycle):
        cycle.forget(workload_id)
    derived.index.look(cycle.workloads, cycle.log.unread)
    derived.uses = uses
    derived.settled = Settled(
        _NEVER_MS if wake_ms is None else wake_ms,
        (rules.teams, rules.pools, rules.blocks, rules.policy),
    )
    cycle.memo.forget()
    return _next_cluster(cycle, usage), changes


def _changes(cycle: CycleState, usage: _Usage | None) -> Changes:
    before, rules, carried = cycle.before, cycle.rules, cycle.carried
    changed = ((i, cycle.workloads.get(i)) for i in sorted(cycle.log.changed))
    return Changes(
        now_ms=cycle.now_ms,
        workloads=tuple(w for i, w in changed if w is not None and w != before.workloads.get(i)),
        teams=tuple(t for n, t in rules.teams.items() if before.teams.get(n) != t),
        removed_teams=tuple(n for n in before.teams if n not in rules.teams),
        pools=tuple(p for n, p in rules.pools.items() if before.pools.get(n) != p),
        nodes=tuple(one for i, one in cycle.nodes.items() if before.nodes.get(i) != one),
        removed_nodes=tuple(n for n in before.nodes if n not in cycle.nodes),
        blocks=rules.blocks if rules.blocks != before.blocks else None,
        policy=rules.policy if rules.policy != before.policy else None,
        usage=usage,
        demand={p: d for p, d in carried.demand.items() if before.demand.get(p) is not d},
        badges={k: b for k, b in carried.badges.items() if before.badges.get(k) is not b},
        removed_badges=tuple(sorted(before.badges.keys() - carried.badges.keys())),
        verdicts=tuple(cycle.told.verdicts),
        events=cycle.told.events,
    )


def _next_cluster(cycle: CycleState, usage: _Usage | None) -> Cluster:
    before, rules, carried = cycle.before, cycle.rules, cycle.carried
    return replace(
        before,
        pools=rules.pools,
        nodes=cycle.nodes,
        teams=rules.teams,
        workloads=cycle.workloads,
        blocks=rules.blocks,
        policy=rules.policy,
        usage=before.usage if usage is None else usage,
        usage_at_ms=before.usage_at_ms if usage is None else cycle.now_ms,
        released=carried.released,
        pending_resizes=carried.pending_resizes,
        fair_share_reservations=carried.fair_share_reservations,
        demand=carried.demand,
        badges=carried.badges,
        now_ms=cycle.now_ms,
        derived=Derived(cycle.derived, (cycle.workloads, cycle.nodes)),
    )


def _usage_to_write(cycle: CycleState, uses: quota.Uses) -> _Usage | None:
    """Use is written down only when what is borrowed changes: between, it can be computed."""
    held = cycle.derived.uses
    changed = any(
        held.get(key, quota.NO_USE).borrowed != uses.get(key, quota.NO_USE).borrowed
        for key in held.keys() | uses.keys()
    )
    return cycle.usage_now() if changed else None


def _forgotten(cycle: CycleState) -> set[WorkloadId]:
    """Final workloads, but those that a live one depends on and those that are remembered."""
    index = cycle.index
    if not index.final:
        return set()
    needed = {after for i in index.dependent for after in cycle.workloads[i].spec.after}
    final = index.final - needed
    return {i for i in final if not is_remembered(cycle.workloads[i], cycle.now_ms)}
