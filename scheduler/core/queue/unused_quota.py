"""How much of its quota a team may still use in a pool: of its guarantee, and of what is borrowed."""

from __future__ import annotations

from collections.abc import Mapping

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.elastic import gain
from gpucommons.scheduler.core.model.demand import Worker, bounds, may_have, must_have, on_cpu_only
from gpucommons.scheduler.core.model.types import Attempt, Kind, PoolName, TeamName, Workload
from gpucommons.scheduler.core.quota import quota
from gpucommons.scheduler.core.quota.template_nodes import template_nodes

#: More than any cluster has: no limit.
UNLIMITED = 1 << 60
_GUARANTEES: Entry[PoolName, dict[TeamName, int]] = Entry("guarantees in force", Fact.REFRESHED)


def entitled(cycle: CycleState, workload: Workload) -> bool:
    """It may use its team's guarantee at all."""
    if on_cpu_only(workload.spec):
        return False
    if workload.spec.kind is Kind.RETRAIN:
        team = cycle.teams.get(workload.spec.team)
        return team is not None and team.policy.retrain_in_guarantee
    return workload.spec.kind is Kind.TRAINING


def guarantees(cycle: CycleState, pool: PoolName) -> Mapping[TeamName, int]:
    """The guarantees in force in a pool, by team: shrunk where nodes are lost."""
    if pool not in cycle.pools:
        return {}
    # Asked several times for each decision.
    found = cycle.memo.get(_GUARANTEES, pool)
    if found is None:
        nodes = (*cycle.nodes.values(), *template_nodes(cycle.pools[pool], cycle.nodes.values()))
        found = quota.effective_guarantees(nodes, cycle.blocks, cycle.teams, pool)
        cycle.memo.keep(_GUARANTEES, pool, found)
    return found


def of_guarantee(cycle: CycleState, team: TeamName, pool: PoolName) -> int:
    """How much of a team's guarantee is unused."""
    return guarantees(cycle, pool).get(team, 0) - cycle.use(team, pool).guaranteed


def of_fixed(cycle: CycleState, team: TeamName, pool: PoolName) -> int:
    """How much of a team's fixed quota no notebook holds; below 0 where it was lowered since."""
    fixed = cycle.quota_of(team, pool).fixed_milli_gpu
    return fixed - cycle.use(team, pool).fixed


def of_all_guarantees(cycle: CycleState, pool: PoolName) -> int:
    """How much guarantees may still ask for."""
    return sum(max(0, of_guarantee(cycle, team, pool)) for team in guarantees(cycle, pool))


def may_borrow(cycle: CycleState, team: TeamName, pool: PoolName) -> int:
    """How much more a team may borrow in a pool before its weight or limit stops it."""
    found = cycle.quota_of(team, pool)
    known = cycle.teams.get(team)
    if found.over_quota_weight == 0 or (known is not None and not known.may_borrow):
        return 0
    if found.limit_milli_gpu is None:
        return UNLIMITED
    return found.limit_milli_gpu - cycle.use(team, pool).training


def more_workers(cycle: CycleState, workload: Workload, attempt: Attempt) -> tuple[Worker, ...]:
    """Workers that it may borrow beyond those it has, and that make it faster by its own measure."""
    spec, has = workload.spec, len(attempt.placements)
    must = len(must_have(spec))
    low, high = bounds(spec)
    optional = may_have(spec)[has - must : gain.best_size(workload, high) - low]
    if on_cpu_only(spec):
        return optional
    pool = cycle.nodes[attempt.placements[0].node_id].pool
    room = may_borrow(cycle, spec.team, pool)
    return optional[: max(0, room) // max(1, spec.roles[0].milli_gpu)]
