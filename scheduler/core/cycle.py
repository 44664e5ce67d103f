"""One cycle: everything that waits gets its turn, in ten steps.

The order of the steps is the policy. Each step works on what the earlier ones left. Steps 3 to 7 are a
round, and there are at most five. What was tried in vain is tried for the same shape only when something
that it depends on has changed, so a long line costs little. Steps 3 to 6 may have others stopped for who
waits, 7 has jobs moved, and 8 and 9 stop a job for its own sake.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from gpucommons.scheduler.core import deadlines
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events import leases
from gpucommons.scheduler.core.events.nodes import cordon_and_fence
from gpucommons.scheduler.core.explain import reasons
from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.demand import elastic
from gpucommons.scheduler.core.model.types import AttemptId, Workload, WorkloadId
from gpucommons.scheduler.core.passes import (
    consolidation,
    drill_selection,
    elastic_sizes,
    guarantee,
    notebooks,
    preemption,
    surplus,
)
from gpucommons.scheduler.core.placement.admission import admit_cleared, withdraw
from gpucommons.scheduler.core.placement.narrowed_pools import narrow_pools
from gpucommons.scheduler.core.queue import eligibility, ordering, unused_quota
from gpucommons.scheduler.core.stopping import notice

#: At most; why there is another one: :func:`_settle_round`.
_ROUNDS = 5


def decide(cycle: CycleState, *, explain: bool = True) -> None:
    """Decide one cycle on a cycle state; without ``explain`` nobody who waits is told why."""
    # 1 Expire and requeue: deadlines, fenced nodes, nominees whose victims have all ended.
    deadlines.expire(cycle)
    cordon_and_fence.end_on_fenced_nodes(cycle)
    cycle.refresh()
    # Who waits asks only for pools that can wake what is saved of it, and that it pays for.
    narrow_pools(cycle)
    admit_cleared(cycle)
    # 2 Eligibility: who is in line at all.
    obstacles = cycle.turns.obstacles = eligibility.obstacles(cycle)
    for workload in cycle.among(obstacles.keys() & cycle.index.nominated):
        withdraw(cycle, workload)
    # 3 to 7 Everybody's turn, and another one where somebody could have more after its own.
    for _ in range(_ROUNDS):
        cycle.begin_round()
        _take_turns(cycle)
        if _settle_round(cycle):
            break
    else:
        # The last round stands; all the same, nobody is stopped for nobody.
        _spare_the_unneeded(cycle)
        surplus.hold_back(cycle)
    # 8 In each pool at most one elastic job is stopped that returns with another number of workers: more
    #   of what is idle, or fewer where that was measured to be as fast.
    elastic_sizes.change(cycle)
    # 9 Drills: in each pool at most one job that borrows is stopped, to see that it can go on.
    drill_selection.drill(cycle)
    # 10 Reasons for everyone still waiting.
    if explain:
        reasons.explain(cycle)


def _take_turns(cycle: CycleState) -> None:
    # 3 Notebooks within fixed quota, oldest first; borrowers of their GPUs are stopped for them. Who was
    #   granted a slice has it as soon as its server starts.
    tickets = cycle.among(cycle.index.tickets - cycle.turns.obstacles.keys())
    for workload in sorted(tickets, key=ordering.by_age):
        notebooks.admit_or_reclaim(cycle, cycle.workloads[workload.workload_id])
    _redeem(cycle)
    # 4 In-guarantee work by priority, share and age; it wins back what others borrow, or has a place kept.
    #   Borrowers that now fit their team's guarantee are in line with it. Then what borrowers may not have
    #   of the rest is held back.
    entitled = partial(unused_quota.entitled, cycle)
    for workload in ordering.for_guarantee(cycle, entitled, guarantee.upgradable(cycle)):
        guarantee.consider(cycle, workload)
    surplus.hold_back(cycle)
    # 5 Over-quota work by weighted fair share; who borrows beyond its share is stopped for it, or shrinks.
    #   Elastic jobs just admitted take more workers.
    for workload in ordering.for_surplus(cycle):
        surplus.consider(cycle, workload)
    for workload in ordering.by_standing(cycle, _just_admitted(cycle)):
        surplus.grow(cycle, workload)
    # 6 Preempt inside a team, by priority.
    claims = cycle.index.nominated.copy()
    for workload in ordering.by_priority(cycle, preemption.below(cycle).hopeful):
        preemption.consider(cycle, workload)
    # 7 Move a few jobs where only fragmentation keeps one waiting.
    consolidation.consolidate(cycle)
    if cycle.index.nominated - claims:
        cycle.turns.another_round = True  # what is being cleared for them may do for others, too


def _settle_round(cycle: CycleState) -> bool:
    """Undo what the round turned out not to need; False where somebody could have more in another one.

    One reason for another round is enough, so what comes after it is left to that round.
    """
    return not (
        # A promise was lost, or more is being cleared than was asked for.
        cycle.turns.another_round
        # A place is kept for a job that could not have it: others may.
        or guarantee.reserves_in_vain(cycle)
        # Who is stopped for nobody any more goes on, and what it was to move to is free again.
        or _spare_the_unneeded(cycle)
        # What is held back from borrowers is not what it was.
        or surplus.hold_back(cycle)
    )


def _redeem(cycle: CycleState) -> None:
    """Servers that start right now get their granted slice in this cycle, or a refusal."""
    for workload_id in sorted(cycle.turns.redeeming):
        leases.redeem(cycle, cycle.workloads[workload_id])


def _just_admitted(cycle: CycleState) -> list[Workload]:
    return [one for one in cycle.among(cycle.turns.admitted) if elastic(one.spec)]


def _spare_the_unneeded(cycle: CycleState) -> bool:
    stopping = cycle.among(cycle.index.stopping)
    if not stopping:
        return False
    spared = False
    needed: dict[AttemptId, dict[WorkloadId, Workload]] = defaultdict(dict)
    for workload in cycle.among(cycle.index.nominated):
        if workload.nomination is not None and workload.current is None:
            for attempt_id in workload.nomination.victims:
                needed[attempt_id][workload.workload_id] = workload
    for workload in stopping:
        attempt = workload.current
        if attempt is None or attempt.stop is None:
            continue
        if attempt.attempt_id in needed:
            notice.hand_over(cycle, workload, needed[attempt.attempt_id])
            continue
        # After SIGTERM it ends in any case, and a job that is moved needs its new place all the more.
        if attempt.stop.why in eviction_cause.FOR_OTHERS and not attempt.stop.signalled:
            notice.spare(cycle, workload)
            spared = True
    return spared
