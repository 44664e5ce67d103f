"""Winning devices back from other teams: for fixed and guaranteed quota, and for a fair share.

Quota wins back whatever is borrowed, at once. A share is won back only from teams that borrow more
for their weight and still will afterwards, or that have had their turn; and only from work that has
had its minimum run time and was not stopped for the like within the last half-life.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.eviction import policies, solver
from gpucommons.scheduler.core.eviction.policies import QuotaShortfall
from gpucommons.scheduler.core.model.demand import milli_gpu, must_have
from gpucommons.scheduler.core.model.lifecycle import in_line_since_ms
from gpucommons.scheduler.core.model.types import HoldClass, PoolName, TeamName, Workload
from gpucommons.scheduler.core.placement.admission import Plan
from gpucommons.scheduler.core.quota.fair_share import Accounts, looked_at_ms


def for_guarantee(cycle: CycleState, workload: Workload, pool: PoolName) -> Plan | None:
    """Win back what a team's guarantee covers from whoever borrows it."""
    spec = workload.spec
    policy = policies.for_guarantee(spec.team, QuotaShortfall.of(cycle, spec, pool))
    return solver.solve(cycle, spec, pool, policy)


def for_share(cycle: CycleState, workload: Workload, pool: PoolName) -> Plan | None:
    """Take from teams that borrow more for their weight than is due to them."""
    spec = workload.spec
    # What ends anyway is nobody's loss: for that nobody need have waited.
    budget = _budget(cycle, workload, pool) if has_waited(cycle, workload, pool) else {}
    if not _gives_something(cycle, budget) and not cycle.index.leaving:
        return None  # nobody has too much, or only in larger parts, and nobody ends anyway
    return solver.solve(cycle, spec, pool, policies.for_share(cycle, spec.team, budget))


def has_waited(cycle: CycleState, workload: Workload, pool: PoolName) -> bool:
    """At the last look it had been in line as long as others may run undisturbed.

    Shares are a matter of hours: mostly something ends by itself before that, and goes first to
    the team that has had least, so that nobody need be stopped.
    """
    found = cycle.pools.get(pool)
    if found is None:
        return False
    looked_ms = looked_at_ms(cycle.now_ms, found.half_life_ms)
    since_ms = max(workload.since_ms, in_line_since_ms(workload, cycle.workloads))
    return since_ms + found.min_run_ms <= looked_ms


def _gives_something(cycle: CycleState, budget: Mapping[TeamName, int]) -> bool:
    """Somebody may lose as much as the smallest part of what they borrow."""
    parts = cycle.index.borrowed_parts
    return any(
        milli_gpu > 0 and min(parts.get(team) or (0,)) <= milli_gpu
        for team, milli_gpu in budget.items()
    )


def accounts(cycle: CycleState, pool: PoolName) -> Accounts:
    """What teams had and have; what one is losing already no longer counts as its own."""
    gone = cycle.index.leaving
    uses = dict(cycle.uses) if gone else cycle.uses
    for team, node_id, milli in gone.values():
        if (team, pool) in uses and cycle.nodes[node_id].pool == pool:
            uses[team, pool] = uses[team, pool].plus(HoldClass.OVER_QUOTA, -milli)
    return cycle.accounts(pool, cycle.usage_now(), uses)


def _budget(cycle: CycleState, workload: Workload, pool: PoolName) -> Mapping[TeamName, int]:
    """What each team may lose."""
    need = milli_gpu(must_have(workload.spec))
    return accounts(cycle, pool).budget(workload.spec.team, need)
