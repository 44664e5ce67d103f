"""One cycle: everything that waits gets its turn, in ten steps.

The order of the steps is the policy. Each step works on what the earlier ones left. Steps 3 to 7 are a
round: it is run one to five times, again as long as somebody whose turn is over could have more. Steps
3 to 6 may stop running work for work that waits. Step 7 moves running jobs. Steps 8 and 9 stop a job for
its own sake. A search that found nothing is remembered until the end of the cycle (`cycle_state.memo`): it is
repeated for the same kind of job only after something that it depends on has changed, so a long queue costs
little.

A nomination is a promise of devices that others still have to leave; a ticket is a notebook that waits for its
slice, and redeems it when its server starts (`docs/explanation/words.md`).
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
    over_quota,
    preemption,
)
from gpucommons.scheduler.core.placement.admission import admit_cleared, withdraw
from gpucommons.scheduler.core.placement.narrowed_pools import narrow_pools
from gpucommons.scheduler.core.queue import eligibility, ordering, unused_quota
from gpucommons.scheduler.core.stopping import notice

#: At most so many; why there is another one: :func:`_is_settled`.
_ROUNDS = 5


def decide(cycle: CycleState, *, explain: bool = True) -> None:
    """Decide one cycle: change the cycle state in place; ``outcome.finish`` makes the next cluster of it.

    Without ``explain`` step 10 is left out. Nothing is decided by what it tells, in this cycle or the next.
    """
    # 1 Expire and requeue: grants that nobody took lapse. Jobs that ran or started too long, and those whose
    #   notice is over, get SIGTERM. Attempts end that ran only on fenced nodes.
    deadlines.expire(cycle)
    cordon_and_fence.end_on_fenced_nodes(cycle)
    cycle.refresh()
    #   A waiting job asks only for pools that can wake its saved processes and cost no more than it pays.
    #   Where none can wake them it asks for all again. Where each of those costs more, it asks for them all
    #   the same, and step 2 finds that it waits for the price. A promise in a pool that it asks for no longer
    #   is withdrawn.
    narrow_pools(cycle)
    #   A promise is kept once all who held its devices have ended, and withdrawn if its place is gone.
    admit_cleared(cycle)
    # 2 Eligibility: who is considered at all. An obstacle is why somebody is not: who has one loses its
    #   promise of devices.
    obstacles = cycle.turns.obstacles = eligibility.obstacles(cycle)
    for workload in cycle.among(obstacles.keys() & cycle.index.nominated):
        withdraw(cycle, workload)
    # 3 to 7 Everybody has a turn. There is another round if somebody could have more after its turn.
    for _ in range(_ROUNDS):
        # Step 4 decides anew for whom a place is kept; fair-share reservations stay.
        cycle.begin_round()
        _take_turns(cycle)
        if _is_settled(cycle):
            break
    else:
        # The last round stands. Still, nobody is stopped for somebody who needs it no more.
        _spare_the_unneeded(cycle)
        over_quota.update_hold_backs(cycle)
    # 8 Elastic sizes: in each pool at most one elastic job at a time is stopped to come back with another
    #   size: with more workers on GPUs that nobody waits for, or with fewer that were measured to be
    #   faster. Nothing is promised to it: it waits in line like any other.
    elastic_sizes.change(cycle)
    # 9 Drills: in each pool where nobody waits, at most one borrowing job at a time is stopped, to see
    #   that it can go on.
    drill_selection.drill(cycle)
    # 10 A reason for everybody who still waits, for people alone.
    if explain:
        reasons.explain(cycle)


def _take_turns(cycle: CycleState) -> None:
    # 3 Notebooks within fixed quota, oldest first. The devices of a fixed block may have been lent: if as
    #   many others are idle, the block takes those instead, and no borrower is stopped. Else borrowers are
    #   stopped for notebooks that wait. A server that starts right now takes the slice that it was granted,
    #   or a free one: nobody is stopped for it.
    tickets = cycle.among(cycle.index.tickets - cycle.turns.obstacles.keys())
    for workload in sorted(tickets, key=ordering.by_age):
        notebooks.admit_or_reclaim(cycle, cycle.workloads[workload.workload_id])
    _redeem(cycle)
    # 4 In-guarantee work by priority, then by what its team has used of the surplus lately, then by age. A
    #   running borrower that fits its team's guarantee by now is counted inside it, before any waiting job of
    #   its priority gets that part of the guarantee. For a waiting job that finds nothing free it is worked
    #   out which borrowers would have to stop. Where some would do, it first borrows what is idle outside its
    #   guarantee, if that is enough, and nobody is stopped; else they are. Where none would do, a place is
    #   kept for it: other work inside guarantees may not have it, borrowers may; the job itself may still
    #   borrow in step 5. At the end it is worked out what borrowers may not have: headroom, what was won
    #   back or given up just now (lending pauses), what a pool does not lend, and fair-share claims.
    entitled = partial(unused_quota.entitled, cycle)
    for workload in ordering.for_guarantee(cycle, entitled, guarantee.upgradable(cycle)):
        guarantee.consider(cycle, workload)
    over_quota.update_hold_backs(cycle)
    _lend(cycle)
    # 6 Preemption: inside a team, higher priority stops lower.
    promised = cycle.index.nominated.copy()
    for workload in ordering.by_priority(cycle, preemption.below(cycle).hopeful):
        preemption.consider(cycle, workload)
    # 7 Moves: a few jobs are moved where only fragmentation keeps another waiting.
    consolidation.consolidate(cycle)
    if cycle.index.nominated - promised:
        # Whoever was promised devices in steps 6 and 7: what is being cleared for them may do for others, too.
        cycle.ask_for_another_round()


def _lend(cycle: CycleState) -> None:
    # 5 What is idle goes to over-quota work by weighted fair share, and to work without a GPU. In each team
    #   first to who fits with all that it asks for, then to elastic jobs with fewer workers than they ask
    #   for. Where nothing idle fits, elastic jobs shrink for it: those of its own team, and of teams that
    #   have at least as much by their share. Where that is not enough, and the job has waited for the pool's
    #   `min_run_ms`, work of teams that borrow beyond their share is stopped. At the end elastic jobs that
    #   this cycle has admitted take more workers.
    for workload, is_second in ordering.for_surplus(cycle, over_quota.takes_fewer):
        turn = over_quota.consider if is_second else over_quota.consider_whole
        turn(cycle, workload)
    for workload in ordering.by_standing(cycle, _elastic_just_admitted(cycle)):
        over_quota.grow(cycle, workload)


def _is_settled(cycle: CycleState) -> bool:
    """See what the round turned out not to need; False: there must be another one.

    The checks run in order; the first that finds a need for another round returns. Two of them act: who is
    stopped for somebody that needs it no more goes on at once, and what borrowers may not have is worked out
    anew.
    """
    # Asked for since somebody lost a promise or needs it no more, steps 6 and 7 promised devices, a job found
    # another place than the one that was kept for it, or more is being cleared than was asked for.
    if cycle.turns.asked_again:
        return False
    # A place is kept for a job that cannot have it: others may. The next round gives it up.
    if guarantee.reserves_in_vain(cycle):
        return False
    if _spare_the_unneeded(cycle):
        return False
    # Another round is needed if fair-share claims are not as the turns took them to be; not if only headroom,
    # lending pauses or GPUs that the pool does not lend have changed.
    return not over_quota.update_hold_backs(cycle)


def _redeem(cycle: CycleState) -> None:
    """The end of step 3: servers that start right now get their granted slice in this cycle.

    Nobody is refused here. Where a server got none, ``advance`` refuses its start and decides the whole cycle
    again without that start.
    """
    for workload_id in sorted(cycle.turns.redeeming):
        leases.redeem(cycle, cycle.workloads[workload_id])


def _elastic_just_admitted(cycle: CycleState) -> list[Workload]:
    """Elastic jobs that this cycle has admitted."""
    return [one for one in cycle.among(cycle.turns.admitted) if elastic(one.spec)]


def _spare_the_unneeded(cycle: CycleState) -> bool:
    """Take back stops that nobody needs any more; True if there was one.

    Whoever was told to stop for somebody that found another place goes on. A stop that somebody else needs
    is handed over to them.
    """
    stopping = cycle.holders(cycle.index.stopping)
    if not stopping:
        return False
    spared = False
    needed: dict[AttemptId, dict[WorkloadId, Workload]] = defaultdict(dict)
    for workload, promise in cycle.promised():
        for attempt_id in promise.victims:
            needed[attempt_id][workload.workload_id] = workload
    for workload, attempt in stopping:
        if attempt.stop is None:
            continue
        if attempt.attempt_id in needed:
            notice.hand_over(cycle, workload, needed[attempt.attempt_id])
            continue
        # Not after SIGTERM: it ends in any case, and one that is being moved then needs its promised place,
        # which sparing it would give up.
        if attempt.stop.why in eviction_cause.FOR_OTHERS and not attempt.stop.signalled:
            notice.spare(cycle, workload)
            spared = True
    return spared
