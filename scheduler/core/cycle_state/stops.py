"""Announcing, signalling and taking back the end of an attempt.

Between the announcement and SIGTERM (the notice) a job stays in its state and can be spared; from
SIGTERM on (the grace) it is preempting, pausing or cancelling and cannot.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.going_on.hibernating import is_hibernated, is_saved_in
from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.eviction_cause import FOR_OTHERS, GOES_ON, MOVE, RESIZE, SPOT
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.lifecycle import is_lease, move, move_attempt, with_attempt
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptState,
    Millis,
    State,
    Stop,
    Workload,
    WorkloadId,
)


def notice_signal(workload: Workload, pool: Pool) -> str:
    """What is sent with an announcement; empty where neither the job nor its pool asks for one."""
    asked = workload.spec.notice_signal
    name = pool.notice_signal if asked is None else asked
    return "" if is_lease(workload) or name == "none" else name


def announce(
    cycle: CycleState,
    workload: Workload,
    cause: eviction_cause.EvictionCause,
    beneficiary: WorkloadId,
) -> Workload:
    """Give notice to an attempt for the sake of another workload; an earlier notice counts on."""
    attempt = workload.current
    if attempt is None:
        return workload
    before = attempt.stop
    if before is not None and (
        before.signalled
        or before.why in {cause.why, "preempt", "reclaim"}
        or {before.why, cause.why} == GOES_ON
    ):
        return workload
    pool = cycle.pool_of(attempt)
    announced = cycle.now_ms if before is None else before.announced_ms
    stop = Stop(
        why=cause.why,
        text=_text(workload, cause.why, cause.text),
        rule=cause.rule,
        announced_ms=announced,
        term_ms=Millis(announced + pool.notice_ms),
        kill_ms=Millis(announced + pool.notice_ms + pool.grace_ms),
        beneficiary=beneficiary,
        notice_signal=notice_signal(workload, pool),
    )
    workload = cycle.put(with_attempt(workload, evolve(attempt, stop=stop, spared_ms=None)))
    cycle.tell(
        "stop-announced",
        f"{workload.spec.name} will be stopped {stop.text}.",
        workload,
        data={
            "why": cause.why,
            "rule": cause.rule,
            "beneficiary_id": beneficiary,
            "term_ms": stop.term_ms,
            "kill_ms": stop.kill_ms,
        },
    )
    return workload


def _text(workload: Workload, why: str, text: str) -> str:
    """``for nlp (its guarantee)``; an elastic job that shrinks goes on with what it was promised."""
    promised, first = workload.nomination, workload.spec.roles[0].name
    if why != RESIZE or promised is None:
        return text
    kept = sum(one.role == first for one in promised.placements)
    return f"to go on with {'1 worker' if kept == 1 else f'{kept} workers'} {text}"


def spare(cycle: CycleState, workload: Workload) -> Workload:
    """Take the announcement back; only before SIGTERM."""
    attempt = workload.current
    if attempt is None or attempt.stop is None or attempt.stop.signalled:
        return workload
    workload = cycle.put(
        evolve(
            with_attempt(workload, evolve(attempt, stop=None, spared_ms=cycle.now_ms)),
            nomination=None,
        )
    )
    cycle.tell("spared", f"{workload.spec.name} goes on: its devices are not needed.", workload)
    return workload


def hand_over(
    cycle: CycleState, workload: Workload, waiting: Mapping[WorkloadId, Workload]
) -> None:
    """Stop it for one who still waits for that, where whoever it was announced for has left the line."""
    attempt = workload.current
    stop = None if attempt is None else attempt.stop
    if attempt is None or stop is None or stop.why not in FOR_OTHERS or stop.signalled:
        return
    if stop.beneficiary is None or stop.beneficiary in waiting:
        return
    heir = waiting[min(waiting)]
    stop = evolve(stop, beneficiary=heir.workload_id)
    if stop.why != MOVE:
        cause = eviction_cause.of_heir(heir, workload, attempt)
        why = stop.why if stop.why in GOES_ON else cause.why
        stop = evolve(stop, why=why, text=_text(workload, why, cause.text), rule=cause.rule)
    cycle.put(with_attempt(workload, evolve(attempt, stop=stop)))


def end_now(
    cycle: CycleState, workload: Workload, *, why: str, text: str, by_ms: Millis | None = None
) -> Workload:
    """Stop an attempt without notice: SIGTERM with this cycle's acts; SIGKILL after the pool's grace,
    or ``by_ms``.
    """
    attempt = workload.current
    if attempt is None:
        return workload
    stopping = attempt.stop is not None and attempt.stop.signalled
    kill = cycle.now_ms + cycle.pool_of(attempt).grace_ms if by_ms is None else by_ms
    if attempt.stop and stopping:
        kill = attempt.stop.kill_ms
    stop = Stop(
        why=why,
        text=text,
        announced_ms=cycle.now_ms if attempt.stop is None else attempt.stop.announced_ms,
        term_ms=cycle.now_ms,
        kill_ms=Millis(kill),
        signalled=True,
    )
    return _signalled(cycle, evolve(workload, nomination=None), evolve(attempt, stop=stop))


def signal_due(cycle: CycleState, workload: Workload) -> Workload:
    """Begin the grace when the notice is over."""
    attempt = workload.current
    if attempt is None or attempt.stop is None or attempt.stop.signalled:
        return workload
    if attempt.stop.term_ms > cycle.now_ms:
        return workload
    stop = evolve(
        attempt.stop,
        signalled=True,
        # A scheduler that was away at term_ms still gives the whole grace.
        kill_ms=Millis(max(attempt.stop.kill_ms, cycle.now_ms + cycle.pool_of(attempt).grace_ms)),
    )
    return _signalled(cycle, workload, evolve(attempt, stop=stop))


def _signalled(cycle: CycleState, workload: Workload, attempt: Attempt) -> Workload:
    stop = attempt.stop
    if stop is not None:
        pool = cycle.pool_of(attempt)
        hibernates = is_hibernated(workload, attempt, stop.why, pool)
        if stop.why == SPOT:
            left_ms = stop.kill_ms - cycle.now_ms
            hibernates = hibernates and is_saved_in(workload, attempt, left_ms)
        attempt = evolve(attempt, stop=evolve(stop, hibernates=hibernates))
    workload = with_attempt(workload, attempt)
    if attempt.state is not AttemptState.STOPPING:
        workload = move_attempt(workload, AttemptState.STOPPING)
    if stop is not None and not is_lease(workload):
        target = {"pause": State.PAUSING, "cancel": State.CANCELLING}.get(
            stop.why, State.PREEMPTING
        )
        held = {State.PREEMPTING, State.PAUSING, State.CANCELLING}
        if (
            target is State.CANCELLING and workload.state is not State.CANCELLING
        ) or workload.state not in held:
            workload = move(workload, target, cycle.now_ms)
    return cycle.put(workload)
