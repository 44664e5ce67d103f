"""What would happen to a job if it were submitted now: the quota line of the panel.

One cycle is played on a copy with the job submitted, so a quote can never promise what the scheduler
would not do. Of one that runs already: why it borrows, where that is not seen from what its team uses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.explain import host_resources
from gpucommons.scheduler.core.explain.draining import would_stop
from gpucommons.scheduler.core.explain.offered_size import as_made, without_size
from gpucommons.scheduler.core.explain.reasons import whole_milli_gpu_free
from gpucommons.scheduler.core.model.demand import (
    WhyNoSlices,
    borrowing_class,
    milli_gpu,
    must_have,
    pools_that_make,
    with_milli_gpu,
)
from gpucommons.scheduler.core.model.intents import Intent, Submit
from gpucommons.scheduler.core.model.reason import CANNOT_START, ReasonClass
from gpucommons.scheduler.core.model.state import Cluster, Outcome
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    IntentId,
    Millis,
    PoolName,
    Reason,
    Spec,
    State,
    Workload,
)
from gpucommons.scheduler.core.placement import guaranteed_host_resources
from gpucommons.scheduler.core.queue import unused_quota
from gpucommons.scheduler.core.quota import quota
from gpucommons.scheduler.core.whatif.next_shares import (
    HYPOTHETICAL,
    hypothetical_ids,
)
from gpucommons.scheduler.errors import SchedulerError, error_classes

#: Who waits for one of these gets no GPUs, borrowed or guaranteed, until somebody acts or gives some back.
_BARRED = CANNOT_START | {ReasonClass.LIMIT}


@dataclass(frozen=True, kw_only=True, slots=True)
class Quoted:
    """What would happen to a job if it were submitted now."""

    hold_class: HoldClass
    #: For people: whether others could stop it, and whether it would start.
    text: str
    #: The part of it that is so whenever it starts: whose GPUs it takes.
    quota_text: str
    starts_now: bool
    #: Why it would not start now; None when it would.
    reason: Reason | None
    guaranteed_milli_gpu: int
    guaranteed_used_milli_gpu: int
    #: Free for this job's class in the pool it would use, whole GPUs.
    free_milli_gpu: int


def quote(cluster: Cluster, spec: Spec, now_ms: Millis, why_not: WhyNoSlices) -> Quoted:
    """Say under which quota a job would run, and whether at once.

    Raises SchedulerError where a submit would be refused, with the same sentence.
    """
    outcome, job = _submitted(cluster, spec, now_ms)
    job = replace(job, reason=as_made(job.reason, spec, why_not))
    reason = _reason(cluster, outcome.cluster, job, now_ms)
    cycle = _refreshed(cluster, now_ms)
    pool = _pool_held_or_asked(outcome.cluster, job)
    hold_class = _class(cycle, job, pool)
    use = cycle.use(spec.team, pool)
    guaranteed = unused_quota.guarantees(cycle, pool).get(spec.team, 0)
    left = max(0, guaranteed - use.guaranteed)
    made_there = pools_that_make(spec.pools, (left,), why_not) == spec.pools
    # Of what it may not have it is not said that it borrows it, or that nobody could take it back.
    quota_words = (
        ()
        if reason is not None and reason.code in _BARRED
        else (
            _share(cycle, job, pool, hold_class),
            _guaranteed_with(cluster, cycle, job, pool, left) if made_there else "",
        )
    )
    return Quoted(
        hold_class=hold_class,
        text=" ".join(part for part in (*quota_words, _when(job, reason)) if part),
        quota_text=" ".join(part for part in quota_words if part),
        starts_now=job.state is State.STARTING,
        reason=reason,
        guaranteed_milli_gpu=guaranteed,
        guaranteed_used_milli_gpu=use.guaranteed,
        free_milli_gpu=sum(whole_milli_gpu_free(cycle, pool, hold_class)),
    )


def why_borrowed(cluster: Cluster, job: Workload, now_ms: Millis) -> str:
    """Why a running job borrows though its team's guarantee has room for it.

    "" where it does not borrow or there is no such room.
    """
    attempt = job.current
    if attempt is None or attempt.hold_class is not HoldClass.OVER_QUOTA:
        return ""
    cycle = _refreshed(cluster, now_ms)
    pool = _pool_held_or_asked(cluster, job)
    room = unused_quota.of_guarantee(cycle, job.spec.team, pool)
    if room < milli_gpu(must_have(job.spec)):
        return ""
    return _share(cycle, job, pool, HoldClass.OVER_QUOTA, runs=True)


def _submitted(cluster: Cluster, spec: Spec, now_ms: Millis) -> tuple[Outcome, Workload]:
    intent = Intent(
        intent_id=IntentId(HYPOTHETICAL),
        action=Submit(workload_id=HYPOTHETICAL, spec=spec),
        by=spec.owner,
        at_ms=now_ms,
    )
    outcome = advance(cluster.apart(), (intent,), (), now_ms=now_ms, new_ids=hypothetical_ids())
    (verdict,) = outcome.changes.verdicts
    if verdict.error is not None:
        raise error_classes()[verdict.error](verdict.text)
    return outcome, next(w for w in outcome.changes.workloads if w.workload_id == HYPOTHETICAL)


def _reason(before: Cluster, after: Cluster, job: Workload, now_ms: Millis) -> Reason | None:
    """Why it would wait. What is not so before it is submitted is not said as if it were."""
    reason = job.reason
    if reason is None:
        return None
    if job.nomination is not None:
        return replace(reason, text=would_stop(before, after, job, job.nomination) or reason.text)
    size = reason.startable_milli_gpu
    at_size = None if size is None else _at(before, job, size, now_ms)
    if size is None or (at_size is not None and at_size.state is State.STARTING):
        return reason
    return without_size(reason)


def _at(cluster: Cluster, job: Workload, milli_gpu: int, now_ms: Millis) -> Workload | None:
    """What would become of it at another size; None where that would be refused."""
    try:
        return _submitted(cluster, with_milli_gpu(job, milli_gpu).spec, now_ms)[1]
    except SchedulerError:
        return None


def _guaranteed_with(
    cluster: Cluster, cycle: CycleState, job: Workload, pool: PoolName, left_milli_gpu: int
) -> str:
    """The smaller size that no other team could stop, where a quote of it would say so."""
    workers = must_have(job.spec)
    if len(workers) > 1 or not 0 < left_milli_gpu < milli_gpu(workers):
        return ""
    smaller = _at(cluster, job, left_milli_gpu, cycle.now_ms)
    if smaller is None or _class(cycle, smaller, pool) is not HoldClass.GUARANTEED:
        return ""
    return f"With {format_milli_gpu(left_milli_gpu)} no other team could stop it."


def _refreshed(cluster: Cluster, now_ms: Millis) -> CycleState:
    cycle = CycleState.of(cluster.apart(), now_ms, hypothetical_ids())
    cycle.refresh()
    return cycle


def _pool_held_or_asked(cluster: Cluster, job: Workload) -> PoolName:
    held = job.current or job.nomination
    found = None if held is None else quota.pool_name_of(cluster.nodes, held.placements)
    return found or job.spec.pools[0]


def _class(cycle: CycleState, job: Workload, pool: PoolName) -> HoldClass:
    held = job.current or job.nomination
    if held is not None:
        return held.hold_class
    found = borrowing_class(job.spec)
    if found is HoldClass.CPU:
        return found
    inside = guaranteed_host_resources.guarantee_covers(cycle, job, pool)
    return HoldClass.GUARANTEED if inside else found


def _when(job: Workload, reason: Reason | None) -> str:
    if job.state is State.STARTING:
        return "It would start now."
    if reason is None:
        return ""
    fewer = reason.unblock if reason.startable_milli_gpu else None
    return f"{reason.text} {fewer or ''}".rstrip()


def _share(
    cycle: CycleState, job: Workload, pool: PoolName, hold_class: HoldClass, *, runs: bool = False
) -> str:
    """Of which quota it takes, or ``runs`` on, GPUs, and whether others can stop it."""
    team = job.spec.team
    saved = unused_quota.guarantees(cycle, pool).get(team, 0)
    used = cycle.use(team, pool).guaranteed
    if hold_class is HoldClass.OVER_QUOTA and saved and not unused_quota.entitled(cycle, job):
        return _beside_guarantee(job)
    beyond = host_resources.beyond_its_part(cycle, job.spec, pool)
    if hold_class is HoldClass.CPU:
        return "Needs no GPU: it counts against no GPU quota."
    if hold_class is HoldClass.GUARANTEED:
        return (
            f"Guaranteed. {team} has {format_milli_gpu(saved - used)} of"
            f" {format_milli_gpu(saved)} guaranteed GPUs free: no other team can stop this job."
        )
    if beyond is not None and used < saved:
        return f"Borrowed. {beyond}, so other teams can stop it, and it waits again."
    return _loan(job, pool, (saved, used), runs=runs)


def _loan(
    job: Workload, pool: PoolName, guaranteed_and_used: tuple[int, int], *, runs: bool
) -> str:
    team, asked = job.spec.team, milli_gpu(must_have(job.spec))
    saved, used = guaranteed_and_used
    amount, consequence = format_milli_gpu(asked), _if_taken_back(asked)
    if not saved:
        return (
            f"Borrowed. {team} has no guaranteed GPUs in pool {pool}, so this job borrows {amount}:"
            f" {consequence}"
        )
    if asked <= saved - used:
        kept = "GPUs that are kept for notebooks or for other guarantees"
        cause = f"It runs on {kept}" if runs else f"Only {kept} fit it now"
        return (
            f"Borrowed. {cause}, so this job borrows {amount} and stops nobody: {consequence}"
            " Its guarantee may win GPUs back then."
        )
    left = format_milli_gpu(max(0, saved - used))
    free = f"{team} has {left} of {format_milli_gpu(saved)} guaranteed GPUs free"
    return f"Borrowed. {free}, so this job borrows {amount}: {consequence}"


def _beside_guarantee(job: Workload) -> str:
    """The line of what borrows though its team's guarantee has room."""
    asked = milli_gpu(must_have(job.spec))
    return (
        f"Borrowed. Work of this kind leaves the guarantee of {job.spec.team} to others and runs on"
        f" idle GPUs, here {format_milli_gpu(asked)}: {_if_taken_back(asked)}"
    )


def _if_taken_back(asked: int) -> str:
    it = "it" if asked <= WHOLE_MILLI_GPU else "them"
    return f"other teams can take {it} back, and it waits again."
