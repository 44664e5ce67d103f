"""Whether a waiting workload may be considered at all: each of ``reasons_not_eligible`` is asked, in order.

What is not eligible is not in line: it holds nobody up and reserves nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.types import (
    Reason,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.queue import reasons_not_eligible

Question = Callable[[CycleState, Workload], Reason | None]

QUESTIONS: tuple[Question, ...] = (
    reasons_not_eligible.known,
    reasons_not_eligible.paused,
    reasons_not_eligible.dependencies,
    reasons_not_eligible.schedule,
    reasons_not_eligible.back_off,
    reasons_not_eligible.policy,
    reasons_not_eligible.budget,
    reasons_not_eligible.price,
    reasons_not_eligible.saved_memory,
)


def obstacle(cycle: CycleState, workload: Workload) -> Reason | None:
    """The first reason why it is not in line; None when it is."""
    for question in QUESTIONS:
        reason = question(cycle, workload)
        if reason is not None:
            return reason
    return None


def obstacles(cycle: CycleState) -> dict[WorkloadId, Reason]:
    """Everyone who is not in line, with the reason; of those who are paused, whom it is to be told to."""
    index = cycle.index
    found: dict[WorkloadId, Reason] = {}
    for workload in cycle.among(_paused_untold(cycle) | index.tickets | index.hindered):
        reason = obstacle(cycle, workload)
        if reason is not None:
            found[workload.workload_id] = reason
    for waiting in index.equivalence_classes.values():
        # Rules look at what all of a line have in common, so one of them answers for all.
        first = cycle.workloads[waiting.members[0].workload_id]
        of_all = (
            reasons_not_eligible.known,
            reasons_not_eligible.policy,
            reasons_not_eligible.budget,
            reasons_not_eligible.price_of_team,
        )
        reason = next(filter(None, (question(cycle, first) for question in of_all)), None)
        if reason is not None:
            for one in waiting.members:
                found.setdefault(one.workload_id, reason)
    return found


def _paused_untold(cycle: CycleState) -> set[WorkloadId]:
    """Hundreds may be paused for days: what they were told stays true until they or the rules change."""
    index, before = cycle.index, cycle.before
    if cycle.teams.keys() != before.teams.keys() or cycle.pools.keys() != before.pools.keys():
        return index.paused
    return index.untold | index.paused.intersection(cycle.log.changed)
