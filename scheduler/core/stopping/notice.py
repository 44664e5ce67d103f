"""The notice before a stop: who is to be stopped is told, and who is stopped for others can be spared.

Until it is over a job stays in its state, unless a person pauses it; from SIGTERM on (:mod:`.grace`) it
cannot be spared any more.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucommons.scheduler.amount_words import workers
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.going_on.hibernating import is_hibernated, is_saved_in
from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.eviction_cause import FOR_OTHERS, GOES_ON, StopCause
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.lifecycle import is_lease, move, with_attempt
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import (
    Attempt,
    Millis,
    State,
    Stop,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.stopping import grace


def notice_ms(pool: Pool) -> int:
    """From the announcement of a stop to SIGTERM."""
    return pool.notice_ms


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
        or before.why not in FOR_OTHERS
        or before.why in {cause.why, StopCause.PREEMPT, StopCause.RECLAIM}
        or {before.why, cause.why} == GOES_ON
    ):
        return workload
    text = _text(workload, cause.why, cause.text)
    stop = evolve(
        _told(cycle, workload, attempt, why=cause.why, text=text),
        rule=cause.rule,
        beneficiary=beneficiary,
    )
    workload = cycle.put(with_attempt(workload, evolve(attempt, stop=stop, spared_ms=None)))
    _tell_announced(cycle, workload, stop)
    return workload


def _tell_announced(cycle: CycleState, workload: Workload, stop: Stop) -> None:
    """Told once, as it stands when the cycle is over: for whom, and that it was not taken back."""
    cycle.told.take_back("stop-announced", workload.workload_id)
    cycle.tell(
        "stop-announced",
        f"{workload.spec.name} will be stopped {stop.text}.",
        workload,
        data={
            "why": stop.why,
            "rule": stop.rule,
            "beneficiary_id": stop.beneficiary,
            "term_ms": stop.term_ms,
            "kill_ms": stop.kill_ms,
        },
    )


def end_soon(
    cycle: CycleState, workload: Workload, *, why: str, text: str, by_ms: Millis | None = None
) -> Workload:
    """Stop an attempt that is to go on later, for nobody's sake: the signal that it asks for tells it at
    once, and SIGTERM follows after the pool's notice. Who asks for none is told by SIGTERM, now.

    ``by_ms``: when SIGKILL comes, in place of the pool's time. Notice and grace share less time in
    proportion; of more, the grace has the rest.
    """
    attempt = workload.current
    if attempt is None:
        return workload
    pool, before = cycle.pool_of(attempt), attempt.stop
    number = notice_signal(workload, pool) if before is None else before.notice_signal
    if (
        not number
        or attempt.started_ms is None
        or (before is not None and before.signalled)
        or (by_ms is not None and _is_saved_whole(cycle, workload, why, by_ms))
    ):
        return grace.stop_without_notice(cycle, workload, why=why, text=text, by_ms=by_ms)
    stop = evolve(_told(cycle, workload, attempt, why=why, text=text), rule="", beneficiary=None)
    if by_ms is not None:
        stop = _within(stop, cycle.now_ms, by_ms)
    workload = with_attempt(
        evolve(workload, nomination=None), evolve(attempt, stop=stop, spared_ms=None)
    )
    if why == StopCause.PAUSE:
        workload = move(workload, State.PAUSING, cycle.now_ms)
    return cycle.put(workload)


def _told(cycle: CycleState, workload: Workload, attempt: Attempt, *, why: str, text: str) -> Stop:
    """A stop that begins with notice. Who was told of one before is not told twice, and has as long as
    was said then, whatever the pool says by now.
    """
    if attempt.stop is not None:
        return evolve(attempt.stop, why=why, text=text)
    pool = cycle.pool_of(attempt)
    term_ms = cycle.now_ms + notice_ms(pool)
    return Stop(
        why=why,
        text=text,
        announced_ms=cycle.now_ms,
        term_ms=Millis(term_ms),
        kill_ms=Millis(term_ms + pool.grace_ms),
        notice_signal=notice_signal(workload, pool),
    )


def _within(stop: Stop, now_ms: Millis, by_ms: Millis) -> Stop:
    """The same stop with SIGKILL at that time."""
    notice, whole = max(0, stop.term_ms - now_ms), max(1, stop.kill_ms - now_ms)
    notice = min(notice, notice * (by_ms - now_ms) // whole)
    return evolve(stop, term_ms=Millis(now_ms + notice), kill_ms=by_ms)


def _is_saved_whole(cycle: CycleState, workload: Workload, why: str, by_ms: Millis) -> bool:
    """Its processes can be saved until then, which loses nothing; after a notice it might be too late."""
    attempt = workload.current
    return (
        attempt is not None
        and is_hibernated(workload, attempt, why, cycle.pool_of(attempt))
        and is_saved_in(workload, attempt, by_ms - cycle.now_ms)
    )


def _text(workload: Workload, why: str, text: str) -> str:
    """``for nlp (its guarantee)``; an elastic job that shrinks goes on with what it was promised."""
    promised, first = workload.nomination, workload.spec.roles[0].name
    if why != StopCause.SHRINK_FOR_OTHERS or promised is None:
        return text
    kept = sum(one.role == first for one in promised.placements)
    return f"to go on with {workers(kept)} {text}"


def spare(cycle: CycleState, workload: Workload) -> Workload:
    """Take the announcement back; only before SIGTERM."""
    attempt = workload.current
    if attempt is None or attempt.stop is None or attempt.stop.signalled:
        return workload
    cycle.told.take_back("stop-announced", workload.workload_id)
    workload = cycle.put(
        evolve(
            with_attempt(workload, evolve(attempt, stop=None, spared_ms=cycle.now_ms)),
            nomination=None,
        )
    )
    if _had_notice(cycle, workload):
        cycle.tell("spared", f"{workload.spec.name} goes on: its devices are not needed.", workload)
    return workload


def _had_notice(cycle: CycleState, workload: Workload) -> bool:
    """Who was announced and spared in one cycle was told of neither."""
    before = cycle.before.workloads.get(workload.workload_id)
    attempt = None if before is None else before.current
    return attempt is not None and attempt.stop is not None


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
    if stop.why != StopCause.MOVE:
        cause = eviction_cause.of_heir(heir, workload, attempt)
        why = stop.why if stop.why in GOES_ON else cause.why
        stop = evolve(stop, why=why, text=_text(workload, why, cause.text), rule=cause.rule)
    workload = cycle.put(with_attempt(workload, evolve(attempt, stop=stop)))
    if cycle.told.take_back("stop-announced", workload.workload_id):
        _tell_announced(cycle, workload, stop)


def notice_signal(workload: Workload, pool: Pool) -> str:
    """What is sent with an announcement; empty where neither the job nor its pool asks for one."""
    asked = workload.spec.notice_signal
    name = pool.notice_signal if asked is None else asked
    return "" if is_lease(workload) or name == "none" else name
