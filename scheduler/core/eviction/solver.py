"""The one search for who has to go: whatever the policy, nobody is stopped who need not be.

What cannot succeed is refused by adding up amounts, before any device is looked at.
"""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.eviction import feasibility, moves
from gpucommons.scheduler.core.eviction.policies import EvictionPolicy
from gpucommons.scheduler.core.eviction.search import Search
from gpucommons.scheduler.core.eviction.victims import cheapest
from gpucommons.scheduler.core.model.demand import must_have
from gpucommons.scheduler.core.model.holds import Load
from gpucommons.scheduler.core.model.types import PoolName, Spec
from gpucommons.scheduler.core.placement.admission import EvictionCandidate, Plan
from gpucommons.scheduler.core.quota.layout import Region


def solve(cycle: CycleState, spec: Spec, pool: PoolName, policy: EvictionPolicy) -> Plan | None:
    """Return the cheapest irreducible set of victims and the place they leave; None: nothing helps."""
    workers, budget = must_have(spec), policy.budget
    if budget is not None and not feasibility.could_fit(cycle, pool, workers, budget):
        return None
    search = Search.of(cycle, spec, pool, policy)
    if policy.within_team and not feasibility.could_fit_without(search):
        return None
    found = cheapest(search)
    if found is None:
        return None
    victims, placements = found
    return Plan(placements, policy.hold_class, victims, policy.cause)


def solve_by_moves(
    cycle: CycleState, spec: Spec, pool: PoolName, policy: EvictionPolicy, most: int
) -> Plan | None:
    """Return the smallest set of jobs, no more than ``most``, that make room by going on elsewhere."""
    return moves.find(Search.of(cycle, spec, pool, policy), most)


def victims_in(
    cycle: CycleState, spec: Spec, policy: EvictionPolicy, area: Region, need: Load
) -> tuple[EvictionCandidate, ...] | None:
    """Return who must go so that just this area and this load are free; None: they cannot be."""
    node = cycle.capacity.nodes[area.node_id]
    search = Search.of(cycle, spec, node.node.pool, policy)
    return search.trial(node).area(dict.fromkeys(area.device_ids, area.mask), need)
