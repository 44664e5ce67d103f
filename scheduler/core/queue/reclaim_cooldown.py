"""Who leaves the line after others were stopped for it, again and again: it may stop nobody for a while.

A grant that nobody takes up, or a start that comes to nothing, is a try in vain (:mod:`.giving_up`), and so is
leaving once the work in the way has been told to stop: that work is stopped all the same, for nothing. All
are noted on the workload and remembered, so neither another ticket nor a restart of the scheduler forgets a
try.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.lifecycle import WITHDRAWALS_REMEMBERED_MS
from gpucommons.scheduler.core.model.types import Millis, PoolName, UserName, Workload
from gpucommons.scheduler.core.queue import giving_up

#: So often, within the time that it is remembered, one may leave what others were stopped for.
MOST = 3
_ON_COOLDOWN: Entry[None, dict[tuple[UserName, PoolName], Millis]] = Entry(
    "who is on cooldown", Fact.REFRESHED, Fact.WITHDRAWALS
)


def noted(cycle: CycleState, workload: Workload) -> Workload:
    """Return a workload that leaves the line, is paused, lets its turn pass, or does not start, with a note
    if others were stopped for it.
    """
    last = workload.attempts[-1] if workload.attempts else None
    if workload.nomination is None and (last is None or giving_up.ran(last)):
        return workload
    stopped = cycle.index.stopped_for.get(workload.workload_id)
    if not stopped or max(stopped.values()) < _since_ms(workload):
        return workload
    withdrawn = (*workload.withdrawn_ms, cycle.now_ms)[-MOST:]
    return evolve(workload, withdrawn_ms=withdrawn)


def _since_ms(workload: Workload) -> int:
    """Who was stopped for it before that has served, or has been noted."""
    ran = [one.ended_ms or 0 for one in workload.attempts if giving_up.ran(one)]
    return max((*ran, *workload.withdrawn_ms), default=0)


def on_cooldown(cycle: CycleState) -> Mapping[tuple[UserName, PoolName], Millis]:
    """Who may win nothing back for now, where, and until when."""
    return cycle.memo.remember(_ON_COOLDOWN, None, lambda: _on_cooldown(cycle))


def _on_cooldown(cycle: CycleState) -> dict[tuple[UserName, PoolName], Millis]:
    left: dict[tuple[UserName, PoolName], list[int]] = defaultdict(list)
    for workload in cycle.among(cycle.index.withdrawn):
        for pool in workload.spec.pools:
            left[workload.spec.owner, pool].extend(workload.withdrawn_ms)
    until = {
        whose: Millis(sorted(times)[-MOST] + WITHDRAWALS_REMEMBERED_MS)
        for whose, times in left.items()
        if len(times) >= MOST
    }
    return {whose: at for whose, at in until.items() if at > cycle.now_ms}


def may_win_back(cycle: CycleState, workload: Workload, pool: PoolName) -> bool:
    """Its owner has not left too often what was won back."""
    return (workload.spec.owner, pool) not in on_cooldown(cycle)


def answers_for_its_class(cycle: CycleState, workload: Workload) -> bool:
    """Where it gets nothing, nobody who asks for the same would: no cooldown of its own is in the way."""
    return not on_cooldown(cycle) or all(
        may_win_back(cycle, workload, pool) for pool in workload.spec.pools
    )
