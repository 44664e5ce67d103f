"""What would happen if: the quota line of the panel, the sizes of the options form, and *why*.

The quote plays one cycle on a copy with the job submitted, so it can never promise what the
scheduler would not do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events import leases
from gpucommons.scheduler.core.explain import host_resources
from gpucommons.scheduler.core.explain.draining import would_stop
from gpucommons.scheduler.core.explain.reasons import STARTS_WITH, free_per_node
from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.demand import milli_gpu, must_have, on_cpu_only, with_milli_gpu
from gpucommons.scheduler.core.model.intents import Intent, Submit
from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import Cluster, Outcome
from gpucommons.scheduler.core.model.state_words import ended_words, hold_class_words, state_words
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    IntentId,
    Millis,
    PoolName,
    Reason,
    Spec,
    State,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.passes import notebooks
from gpucommons.scheduler.core.placement import proportions
from gpucommons.scheduler.core.queue import reclaim_cooldown, unused_quota
from gpucommons.scheduler.core.quota import quota
from gpucommons.scheduler.core.stopping.notice import notice_ms
from gpucommons.scheduler.core.whatif.next_shares import (
    HYPOTHETICAL,
    hypothetical_ids,
    hypothetical_notebook,
)
from gpucommons.scheduler.errors import SchedulerError, error_classes

# --- jobs ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Quoted:
    """What would happen to a job if it were submitted now."""

    hold_class: HoldClass
    #: For people: whether others could stop it, and whether it would start.
    text: str
    starts_now: bool
    #: Why it would not start now; None when it would.
    reason: Reason | None
    guaranteed_milli_gpu: int
    guaranteed_used_milli_gpu: int
    #: Free for this job's class in the pool it would use, whole GPUs.
    free_milli_gpu: int


def quote(cluster: Cluster, spec: Spec, now_ms: Millis) -> Quoted:
    """Say under which quota a job would run, and whether at once.

    Raises SchedulerError where a submit would be refused, with the same sentence.
    """
    outcome, job = _submitted(cluster, spec, now_ms)
    reason = _reason(cluster, outcome.cluster, job, now_ms)
    cycle = _refreshed(cluster, now_ms)
    pool = _pool_of(outcome.cluster, job)
    hold_class = _class(cycle, job, pool)
    use = cycle.use(spec.team, pool)
    guaranteed = unused_quota.guarantees(cycle, pool).get(spec.team, 0)
    uses_guarantee = unused_quota.entitled(cycle, job)
    parts = (
        _beside_guarantee(job)
        if hold_class is HoldClass.OVER_QUOTA and guaranteed and not uses_guarantee
        else _line(
            job,
            pool,
            hold_class,
            (guaranteed, use.guaranteed),
            host_resources.beyond_its_part(cycle, spec, pool),
        ),
        _guaranteed_with(cluster, cycle, job, pool, guaranteed - use.guaranteed),
        _when(job, reason),
    )
    return Quoted(
        hold_class=hold_class,
        text=" ".join(part for part in parts if part),
        starts_now=job.state is State.STARTING,
        reason=reason,
        guaranteed_milli_gpu=guaranteed,
        guaranteed_used_milli_gpu=use.guaranteed,
        free_milli_gpu=sum(free_per_node(cycle, pool, hold_class)),
    )


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
    said = reason.unblock if not (reason.unblock or "").startswith(STARTS_WITH) else None
    return replace(reason, unblock=said, startable_milli_gpu=None)


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


def _pool_of(cluster: Cluster, job: Workload) -> PoolName:
    held = job.current or job.nomination
    found = None if held is None else quota.pool_of(cluster.nodes, held.placements)
    return found or job.spec.pools[0]


def _class(cycle: CycleState, job: Workload, pool: PoolName) -> HoldClass:
    held = job.current or job.nomination
    if held is not None:
        return held.hold_class
    if on_cpu_only(job.spec):
        return HoldClass.CPU
    inside = proportions.guarantee_covers(cycle, job, pool)
    return HoldClass.GUARANTEED if inside else HoldClass.OVER_QUOTA


def _when(job: Workload, reason: Reason | None) -> str:
    if job.state is State.STARTING:
        return "It would start now."
    if reason is None:
        return ""
    fewer = reason.unblock if reason.startable_milli_gpu else None
    return f"{reason.text} {fewer or ''}".rstrip()


def _line(
    job: Workload,
    pool: PoolName,
    hold_class: HoldClass,
    guaranteed_and_used: tuple[int, int],
    beyond: str | None,
) -> str:
    team, asked = job.spec.team, milli_gpu(must_have(job.spec))
    saved, used = guaranteed_and_used
    if hold_class is HoldClass.CPU:
        return "Needs no GPU: it counts against no GPU quota."
    if hold_class is HoldClass.GUARANTEED:
        return (
            f"Guaranteed. {team} has {format_milli_gpu(saved - used)} of"
            f" {format_milli_gpu(saved)} guaranteed GPUs free: no other team can stop this job."
        )
    if beyond is not None and used < saved:
        return f"Borrowed. {beyond}, so other teams can stop it, and it waits again."
    amount, consequence = format_milli_gpu(asked), _if_taken_back(asked)
    if not saved:
        return (
            f"Borrowed. {team} has no guaranteed GPUs in pool {pool}, so this job borrows {amount}:"
            f" {consequence}"
        )
    if asked <= saved - used:
        return (
            "Borrowed. Only GPUs that are kept for notebooks or for other guarantees fit it now, so this job"
            f" borrows {amount} and stops nobody: {consequence} Its guarantee may win GPUs back then."
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


# --- notebooks -------------------------------------------------------------------------------


class Availability(StrEnum):
    """Whether a notebook of a size starts now."""

    FREE = "free"
    #: A ticket would wait, also behind a reclaim.
    WAIT = "wait"
    NEVER = "never"


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """One notebook size of the options form."""

    milli_gpu: int
    memory_mib: int
    availability: Availability
    text: str
    #: It waits only because training borrows it, which a ticket wins back.
    lent: bool


def win_back_s(pool: Pool) -> int:
    """Within how many seconds what is lent there is an owner's again."""
    return -(-(notice_ms(pool) + pool.grace_ms) // 1000)


def sizes(
    cluster: Cluster,
    team: TeamName,
    pool: PoolName,
    user: UserName,
    *,
    server_name: str = "",
) -> tuple[Size, ...]:
    """Say for every size whether this user's server would get it now, later, or never."""
    cycle = CycleState.of(cluster.apart(), cluster.now_ms, hypothetical_ids())
    settings = cycle.pools.get(pool)
    if settings is None or team not in cycle.teams:
        return ()
    ask = hypothetical_notebook(team, pool, user, server_name)
    own = leases.of_server(cycle, ask.spec)
    if own is not None and (own.current is None or own.redeem_by_ms is not None):
        # A ticket or grant of the same server gives way to what the form starts.
        cycle.forget(own.workload_id)
    cycle.refresh()
    return tuple(_size(cycle, ask, size) for size in sorted(settings.notebook_sizes))


def _size(cycle: CycleState, ask: Workload, size: int) -> Size:
    ask = with_milli_gpu(ask, size)
    availability, text, lent = _availability(cycle, ask, size)
    return Size(
        milli_gpu=size,
        memory_mib=_memory_mib(cycle, ask.spec.pools[0], size),
        availability=availability,
        text=text,
        lent=lent,
    )


def _memory_mib(cycle: CycleState, pool: PoolName, size: int) -> int:
    for node in cycle.capacity.usable(pool):
        for capacity in node.devices.values():
            whole = max(1, size // WHOLE_MILLI_GPU)
            return capacity.device.slice_memory_mib(min(size, WHOLE_MILLI_GPU)) * whole
    return 0


def _availability(cycle: CycleState, ask: Workload, size: int) -> tuple[Availability, str, bool]:
    team, pool = ask.spec.team, ask.spec.pools[0]
    fixed = quota.quota_of(cycle.teams, team, pool).fixed_milli_gpu
    left = max(0, fixed - cycle.use(team, pool).fixed)
    largest = max(
        (b.milli_gpu for b in cycle.blocks if b.team == team and b.pool == pool), default=0
    )
    if largest == 0:
        return Availability.NEVER, f"{team} has no notebook GPUs here: ask your admin", False
    if size > largest:
        text = f"needs {format_milli_gpu(size)}, the largest notebook of {team} has {format_gpus(largest)}: ask your admin"
        return Availability.NEVER, text, False
    if notebooks.free_place(cycle, ask) is not None:
        return Availability.FREE, "free now", False
    if size > left:
        text = f"needs {format_milli_gpu(size)}, {team} has {format_milli_gpu(left)}: wait in line, or ask your admin"
        return Availability.WAIT, text, False
    if notebooks.could_reclaim(cycle, ask):
        return Availability.WAIT, *_lent(cycle, ask, pool)
    text = f"{team}'s notebooks leave no piece of this size: wait in line"
    return Availability.WAIT, text, False


def _lent(cycle: CycleState, ask: Workload, pool: PoolName) -> tuple[str, bool]:
    if not reclaim_cooldown.may_win_back(cycle, ask, pool):
        text = "lent to training; too many turns of yours were in vain to win it back: wait until it is free"
        return text, False
    seconds = win_back_s(cycle.pools[pool])
    return f"yours, back in {seconds} s: lent to training, which makes room", True


# --- why -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Why:
    """Where a workload stands, in words."""

    text: str
    reason: Reason | None = None


def why(cluster: Cluster, workload_id: WorkloadId) -> Why | None:
    """Say why a workload is where it is; None for one that is not live."""
    workload = cluster.workloads.get(workload_id)
    if workload is None:
        return None
    name = "The notebook" if is_lease(workload) else workload.spec.name
    if workload.reason is not None:
        return Why(text=workload.reason.text, reason=workload.reason)
    attempt = workload.current
    if is_final(workload):
        return Why(
            text=f"{name} {ended_words(workload.state)}: {workload.ended_text or 'no more is known'}."
        )
    if attempt is None:
        return Why(text=f"{name} is {state_words(workload.state)}; the next cycle considers it.")
    where = ", ".join(sorted({one.node_id for one in attempt.placements}))
    text = f"{name} is {state_words(workload.state)} on {where} ({hold_class_words(attempt.hold_class)})."
    if attempt.stop is not None:
        told = attempt.stop.why in eviction_cause.FOR_OTHERS
        text += f" It is being stopped{'' if told else ':'} {attempt.stop.text}."
    elif attempt.hold_class is HoldClass.OVER_QUOTA:
        text += " It borrows: the owners of these GPUs can take them back."
    return Why(text=text)
