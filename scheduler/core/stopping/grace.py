"""The grace from SIGTERM to SIGKILL: a job is preempting, pausing or cancelling, and cannot be spared."""

from __future__ import annotations

from collections.abc import Mapping

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.going_on.hibernating import is_hibernated, is_promised, is_saved_in
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.lifecycle import is_lease, move, move_attempt, with_attempt
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptState,
    Millis,
    State,
    Stop,
    Workload,
)

#: Of a job that is being stopped; else it is preempted.
_STATES: Mapping[str, State] = {
    StopCause.PAUSE: State.PAUSING,
    StopCause.CANCEL: State.CANCELLING,
}


def stop_without_notice(
    cycle: CycleState, workload: Workload, *, why: str, text: str, by_ms: Millis | None = None
) -> Workload:
    """Stop an attempt without notice: SIGTERM with this cycle's acts; SIGKILL after the pool's grace,
    or ``by_ms``.
    """
    attempt = workload.current
    if attempt is None:
        return workload
    before = attempt.stop
    term, kill = cycle.now_ms, by_ms
    if kill is None:
        kill = Millis(cycle.now_ms + cycle.pool_of(attempt).grace_ms)
    if before is not None and before.signalled:
        term, kill = before.term_ms, before.kill_ms
    stop = Stop(
        why=why,
        text=text,
        announced_ms=cycle.now_ms if before is None else before.announced_ms,
        term_ms=term,
        kill_ms=kill,
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
    # A scheduler that was away at term_ms still gives the whole grace; a cloud does not wait.
    late_ms = 0 if attempt.stop.why == StopCause.SPOT else cycle.now_ms - attempt.stop.term_ms
    kill_ms = Millis(attempt.stop.kill_ms + late_ms)
    stop = evolve(attempt.stop, signalled=True, kill_ms=kill_ms)
    return _signalled(cycle, workload, evolve(attempt, stop=stop))


def _signalled(cycle: CycleState, workload: Workload, attempt: Attempt) -> Workload:
    stop = attempt.stop
    if stop is not None:
        pool = cycle.pool_of(attempt)
        hibernates = is_hibernated(workload, attempt, stop.why, pool)
        if stop.why == StopCause.SPOT:
            left_ms = stop.kill_ms - cycle.now_ms
            hibernates = hibernates and is_saved_in(workload, attempt, left_ms)
        promised = is_promised(workload, attempt, pool.grace_ms)
        attempt = evolve(attempt, stop=evolve(stop, hibernates=hibernates, promised=promised))
    workload = with_attempt(workload, attempt)
    if attempt.state is not AttemptState.STOPPING:
        workload = move_attempt(workload, AttemptState.STOPPING)
    if stop is not None and not is_lease(workload):
        target = _STATES.get(stop.why, State.PREEMPTING)
        held = {State.PREEMPTING, State.PAUSING, State.CANCELLING}
        if (
            target is State.CANCELLING and workload.state is not State.CANCELLING
        ) or workload.state not in held:
            workload = move(workload, target, cycle.now_ms)
    return cycle.put(workload)
