"""What is said to who may win nothing back for a while: too many of their turns came to nothing."""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.lifecycle import WITHDRAWALS_REMEMBERED_MS, is_lease
from gpucommons.scheduler.core.model.types import Reason, ReasonClass, Workload
from gpucommons.scheduler.core.passes import guarantee, notebooks
from gpucommons.scheduler.core.queue import reclaim_cooldown
from gpucommons.scheduler.core.queue.eligibility import duration

_HOUR = duration(WITHDRAWALS_REMEMBERED_MS // 1000)


def reason(cycle: CycleState, workload: Workload) -> Reason | None:
    """Why it wins nothing back though its quota would let it; None where something else is in the way."""
    spec = workload.spec
    held = reclaim_cooldown.on_cooldown(cycle)
    ends = [held[spec.owner, pool] for pool in spec.pools if (spec.owner, pool) in held]
    if not ends or not _would_win_back(cycle, workload):
        return None
    # Counted from the submit: a sentence that changes by itself would be written every second.
    after = duration(max(1, -(-(min(ends) - workload.submitted_ms) // 1000)))
    text = (
        f"{spec.owner} left the line, or did not start, {reclaim_cooldown.MOST} times within {_HOUR} after"
        " others' work had been stopped for it: this waits for GPUs that are free, and wins none back until"
        f" {after} after it was submitted."
    )
    return Reason(code=ReasonClass.SHARE, text=text)


def _would_win_back(cycle: CycleState, workload: Workload) -> bool:
    if is_lease(workload):
        return notebooks.could_reclaim(cycle, workload)
    guarantees = guarantee.in_force(cycle)
    pools = (pool for pool in workload.spec.pools if pool in cycle.pools)
    return any(guarantee.covers(cycle, workload, guarantees, pool) for pool in pools)
