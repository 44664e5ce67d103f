"""One cycle: everything that waits gets its turn, in eight steps.

The order of the steps is the policy. Each step works on what the earlier ones left; nothing is
tried twice for the same shape, so a long line costs little.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from gpucommons.scheduler.core import deadlines
from gpucommons.scheduler.core.cycle_state import stops
from gpucommons.scheduler.core.cycle_state.draft import Draft, Guarantees
from gpucommons.scheduler.core.events import leases, observations
from gpucommons.scheduler.core.explain import reasons
from gpucommons.scheduler.core.model.demand import elastic, shape
from gpucommons.scheduler.core.model.types import AttemptId, HoldClass, Reason, Workload, WorkloadId
from gpucommons.scheduler.core.passes import (
    consolidation,
    growing,
    guarantee,
    notebooks,
    preemption,
    surplus,
    turns,
)
from gpucommons.scheduler.core.placement import proportions
from gpucommons.scheduler.core.placement.admission import (
    admit_cleared,
    nominate,
    unpromise,
    withdraw,
)
from gpucommons.scheduler.core.queue import eligibility, headroom, lending, ordering, second_turns

#: Who loses a promise, or could have a part of what is cleared, after its turn gets another turn.
_ROUNDS = 5


def decide(draft: Draft, *, explain: bool = True) -> None:
    """Decide one cycle on a draft; without ``explain`` nobody who waits is told why."""
    # 1 Expire and requeue: deadlines, fenced nodes, nominees whose victims have all ended.
    deadlines.expire(draft)
    observations.end_on_fenced_nodes(draft)
    draft.survey()
    admit_cleared(draft)
    # 2 Eligibility: who is in line at all.
    obstacles = eligibility.obstacles(draft)
    for workload in draft.among(obstacles.keys() & draft.register.nominated):
        withdraw(draft, workload)
    for _ in range(_ROUNDS):
        before = (draft.withdrawn, draft.left_over)
        draft.begin_round()
        _turns(draft, obstacles)
        if before != (draft.withdrawn, draft.left_over):
            continue  # somebody lost a promise, or could have more, after its own turn
        if guarantee.reserves_in_vain(draft):
            continue  # others may have that place
        # Who is stopped for nobody any more goes on, and what it was to move to is free again.
        if _spare_the_unneeded(draft):
            continue
        _keep_back(draft)
        if not turns.decide(draft, obstacles, surplus.may_borrow):
            break
    else:
        _spare_the_unneeded(draft)
        _keep_back(draft)
        turns.decide(draft, obstacles, surplus.may_borrow)
    # What is idle then, elastic jobs that run may take.
    growing.grow(draft)
    # 8 Reasons for everyone still waiting.
    if explain:
        reasons.explain(draft, obstacles)


def _turns(draft: Draft, obstacles: dict[WorkloadId, Reason]) -> None:
    usage = draft.usage_now()
    # 3 Notebooks within fixed quota, oldest first; then what is left of headroom is kept.
    tickets = draft.among(draft.register.tickets - obstacles.keys())
    for workload in sorted(tickets, key=ordering.by_age):
        notebooks.admit_or_reclaim(draft, draft.workloads[workload.workload_id])
    _redeem(draft)
    _keep_headroom(draft)
    # 4 In-guarantee work by priority, share and age; borrowers that now fit are upgraded in turn.
    guarantees = guarantee.in_force(draft)
    entitled = partial(guarantee.entitled, draft)
    borrowers = guarantee.upgradable(draft, guarantees)
    borrow = partial(_borrow_what_is_idle, draft, obstacles)
    for workload in ordering.for_guarantee(draft, usage, obstacles, entitled, borrowers):
        guarantee.consider(draft, workload, guarantees, borrow)
    _keep_back(draft)
    turns.decide(draft, obstacles, surplus.may_borrow)
    # 5 Over-quota work by weighted fair share; elastic jobs just admitted take more workers.
    for workload in ordering.for_surplus(draft, usage, obstacles):
        surplus.consider(draft, workload)
    for workload in ordering.by_standing(draft, usage, _just_admitted(draft)):
        surplus.grow(draft, workload)
    # 6 Preempt inside a team, by priority.
    claims = draft.register.nominated.copy()
    hopeful = preemption.below(draft).hopeful
    for workload in ordering.by_priority(draft, obstacles, hopeful):
        _preempt(draft, workload, guarantees)
    # 7 Move a few jobs where only fragmentation keeps one waiting.
    consolidation.consolidate(draft, obstacles, guarantees)
    if draft.register.nominated - claims:
        second_turns.after_a_notice(draft)  # what is being cleared for them may do for others, too


def _borrow_what_is_idle(
    draft: Draft, obstacles: dict[WorkloadId, Reason], workload: Workload
) -> bool:
    """Start a job on what borrowers may have now, before anybody is stopped for it."""
    _keep_back(draft)
    turns.decide(draft, obstacles, surplus.may_borrow)
    return surplus.borrow(draft, workload)


def _keep_back(draft: Draft) -> None:
    """What was placed may have moved the headroom: speak of what the next cycle finds."""
    _keep_headroom(draft)
    lending.hold_back(draft, guarantee.in_force(draft))


def _keep_headroom(draft: Draft) -> None:
    for pool in draft.pools.values():
        headroom.keep(draft, pool.name, pool.headroom_milli_gpu)


def _redeem(draft: Draft) -> None:
    for workload_id in sorted(draft.redeeming):
        leases.redeem(draft, draft.workloads[workload_id])


def _just_admitted(draft: Draft) -> list[Workload]:
    return [one for one in draft.among(draft.admitted) if elastic(one.spec)]


def _preempt(draft: Draft, workload: Workload, guarantees: Guarantees) -> None:
    spec = workload.spec
    if workload.nomination is not None:
        return
    for pool in spec.pools:
        ways = []
        if guarantee.entitled(draft, workload) and proportions.may_be_kept(draft, spec, pool):
            ways.append(HoldClass.GUARANTEED)
        if spec.over_quota and surplus.may_borrow(draft, spec.team, pool):
            ways.append(HoldClass.OVER_QUOTA)
        for hold_class in ways:
            miss = ("priority", hold_class, shape(spec), pool, spec.team, spec.priority)
            if miss in draft.misses:
                continue
            saved = guarantees.get(pool, {}).get(spec.team, 0)
            plan = preemption.for_priority(draft, workload, pool, hold_class, saved)
            if plan is not None:
                nominate(draft, workload, plan)
                return
            draft.misses.add(miss)


def _spare_the_unneeded(draft: Draft) -> bool:
    stopping = draft.among(draft.register.stopping)
    if not stopping:
        return False
    spared = False
    needed: dict[AttemptId, dict[WorkloadId, Workload]] = defaultdict(dict)
    for workload in draft.among(draft.register.nominated):
        if workload.nomination is not None and workload.current is None:
            for attempt_id in workload.nomination.victims:
                needed[attempt_id][workload.workload_id] = workload
    for workload in stopping:
        attempt = workload.current
        if attempt is None or attempt.stop is None:
            continue
        if attempt.attempt_id in needed:
            stops.hand_over(draft, workload, needed[attempt.attempt_id])
            continue
        # After SIGTERM it ends in any case, and a job that is moved needs its new place all the more.
        if attempt.stop.why in stops.FOR_OTHERS and not attempt.stop.signalled:
            unpromise(draft, workload)
            stops.spare(draft, workload)
            draft.searches.clear()
            draft.misses.clear()
            spared = True
    return spared
