"""Inside one team: work of higher priority takes the place of work of lower priority.

Only jobs, only after their minimum run time, and again the fewest with the least work lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.eviction import policies, solver
from gpucommons.scheduler.core.eviction.policies import QuotaShortfall, may_be_stopped
from gpucommons.scheduler.core.model.demand import HIGHEST, PRIORITIES, Shape, priority, shape
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.types import HoldClass, PoolName, TeamName, Workload
from gpucommons.scheduler.core.placement import guaranteed_host_resources
from gpucommons.scheduler.core.placement.admission import nominate
from gpucommons.scheduler.core.placement.eviction_plan import EvictionPlan
from gpucommons.scheduler.core.queue import unused_quota
from gpucommons.scheduler.core.quota.quota import pool_name_of

#: Who cannot be made room for by work of its team below it.
_NOBODY_BELOW: Entry[tuple[HoldClass, Shape, PoolName, TeamName, int], bool] = Entry(
    "nobody below", Fact.REFRESHED, Fact.FREED, Fact.HELD_FROM_BORROWERS, Fact.PROMISES
)


@dataclass(frozen=True, slots=True)
class Below:
    """Who has work that a job of its own team may be put above."""

    #: The lowest priority of a job that holds or was promised devices, by team.
    held: dict[TeamName, int]
    #: The same, of jobs that may be stopped now.
    stoppable: dict[TeamName, int]
    #: Pools in which something ends anyway: it may be had whoever it belongs to.
    ending: frozenset[PoolName | None]

    def hopeful(self, workload: Workload) -> bool:
        """Its team runs something below it, and that, or another that ends, can make room."""
        mine, team = priority(workload), workload.spec.team
        if mine <= self.held.get(team, HIGHEST):
            return False
        can_stop = mine > self.stoppable.get(team, HIGHEST)
        return can_stop or not self.ending.isdisjoint(workload.spec.pools)


def below(cycle: CycleState) -> Below:
    """Look at who holds or was promised devices; what is stopped or too young gives nothing."""
    index = cycle.index
    held = {team: min(priorities) for team, priorities in index.holders.items() if priorities}
    above = {
        key.team
        for key in index.equivalence_classes
        if PRIORITIES[key.priority] > held.get(key.team, HIGHEST)
    }
    # Tens of thousands may hold something: they are gone through only for a team that has such work.
    stoppable: dict[TeamName, int] = {}
    for workload_id in index.holding | index.nominated if above else ():
        workload = cycle.workloads[workload_id]
        team, mine = workload.spec.team, priority(workload)
        if team not in above or is_lease(workload):
            continue
        if mine < stoppable.get(team, HIGHEST) and may_be_stopped(cycle, workload):
            stoppable[team] = mine
    stopping = (cycle.workloads[i].current for i in cycle.index.stopping)
    ending = frozenset(
        pool_name_of(cycle.nodes, one.placements) for one in stopping if one is not None
    )
    return Below(held, stoppable, ending)


def consider(cycle: CycleState, workload: Workload) -> None:
    """Give one workload its turn: inside the guarantee, else as a borrower."""
    spec = workload.spec
    if workload.nomination is not None:
        return
    for pool in spec.pools:
        ways = []
        if guaranteed_host_resources.may_be_inside(cycle, workload, pool):
            ways.append(HoldClass.GUARANTEED)
        if spec.over_quota and unused_quota.may_borrow(cycle, spec.team, pool):
            ways.append(HoldClass.OVER_QUOTA)
        for hold_class in ways:
            saved = unused_quota.guarantees(cycle, pool).get(spec.team, 0)
            plan = for_priority(cycle, workload, pool, hold_class, saved)
            if plan is not None:
                nominate(cycle, workload, plan)
                return


def for_priority(
    cycle: CycleState, workload: Workload, pool: PoolName, hold_class: HoldClass, saved: int
) -> EvictionPlan | None:
    """Find lower-priority jobs of the same team whose devices and quota let this one start."""
    spec = workload.spec
    asked = (hold_class, shape(spec), pool, spec.team, priority(workload))
    if cycle.memo.get(_NOBODY_BELOW, asked):
        return None
    inside = hold_class is HoldClass.GUARANTEED
    shortfall = QuotaShortfall.of(cycle, spec, pool, saved if inside else None)
    policy = policies.for_priority(cycle, workload, hold_class, shortfall)
    plan = solver.solve(cycle, spec, pool, policy)
    if plan is None:
        cycle.memo.keep(_NOBODY_BELOW, asked, value=True)
    return plan if plan is not None and plan.candidates else None
