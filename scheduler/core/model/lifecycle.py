"""Which state may follow which, for jobs, attempts and leases; everything else is an error.

These tables are the only place where states change, so a surprising report (an end seen twice, a
pause of something that is over) is refused here instead of leaving a workload half-moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.state_words import attempt_words, state_words
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptState,
    Kind,
    Millis,
    Nomination,
    Spec,
    State,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import InvalidTransition

#: States a workload never leaves. A released or hibernated lease may still be marked ended.
FINAL_STATES = frozenset(
    {
        State.SUCCEEDED,
        State.FAILED,
        State.CANCELLED,
        State.RELEASED,
        State.HIBERNATED,
        State.ENDED,
    }
)
#: Leases that ended so long ago are remembered: how they ended may still be told, and a server that
#: gave its GPU back is still to start again.
LEASES_REMEMBERED_MS = 120_000
#: A granted ticket is redeemed by its server within this time, or goes back to the queue.
REDEEM_WITHIN_MS = 120_000
#: What left the line after others had been stopped for it is remembered, and counts, for so long.
WITHDRAWALS_REMEMBERED_MS = 3_600_000
#: States in which a job or a ticket waits for devices.
WAITING_STATES = frozenset({State.QUEUED, State.NOMINATED, State.WAITING})
#: What counts as waiting of a user's: a paused job may be back in line at any time.
PENDING_STATES = WAITING_STATES | {State.PAUSED}

_LIVE_JOB: Mapping[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.NOMINATED, State.ADMITTED, State.PAUSED, State.FAILED}),
    State.NOMINATED: frozenset({State.ADMITTED, State.QUEUED, State.PAUSED}),
    State.ADMITTED: frozenset(
        {State.STARTING, State.PREEMPTING, State.PAUSING, State.FAILED, State.QUEUED}
    ),
    State.STARTING: frozenset(
        {State.RUNNING, State.PREEMPTING, State.PAUSING, State.FAILED, State.QUEUED}
    ),
    State.RUNNING: frozenset(
        {State.SUCCEEDED, State.PREEMPTING, State.PAUSING, State.FAILED, State.QUEUED}
    ),
    State.PREEMPTING: frozenset({State.QUEUED, State.SUCCEEDED, State.FAILED}),
    State.PAUSING: frozenset({State.PAUSED, State.SUCCEEDED, State.FAILED}),
    State.PAUSED: frozenset({State.QUEUED}),
}
JOB_MOVES: Mapping[State, frozenset[State]] = {
    **{state: to | {State.CANCELLING} for state, to in _LIVE_JOB.items()},
    State.CANCELLING: frozenset({State.CANCELLED}),
    State.CANCELLED: frozenset(),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
}
LEASE_MOVES: Mapping[State, frozenset[State]] = {
    # A parked notebook's server runs: it has its GPU back at once, or waits no longer.
    State.WAITING: frozenset({State.GRANTED, State.ACTIVE, State.PARKED, State.ENDED}),
    State.GRANTED: frozenset({State.ACTIVE, State.WAITING, State.ENDED}),
    # Whoever stopped its server, it is hibernated if its kernels were saved.
    State.ACTIVE: frozenset(
        {State.WARNED, State.PARKING, State.HIBERNATING, State.HIBERNATED, State.ENDED}
    ),
    State.WARNED: frozenset(
        {
            State.RELEASED,
            State.ACTIVE,
            State.PARKING,
            State.HIBERNATING,
            State.HIBERNATED,
            State.ENDED,
        }
    ),
    # It holds its GPU until its node sees none of its processes there.
    State.PARKING: frozenset(
        {State.PARKED, State.ACTIVE, State.HIBERNATING, State.HIBERNATED, State.ENDED}
    ),
    State.PARKED: frozenset({State.WAITING, State.HIBERNATED, State.ENDED}),
    State.RELEASED: frozenset({State.ENDED}),
    # Without kernels that are kept it was no hibernation, and it ends.
    State.HIBERNATING: frozenset({State.HIBERNATED, State.ENDED}),
    # The server that wakes them has a lease of its own: its slice may be another one.
    State.HIBERNATED: frozenset({State.ENDED}),
    State.ENDED: frozenset(),
}
ATTEMPT_MOVES: Mapping[AttemptState, frozenset[AttemptState]] = {
    AttemptState.RESERVED: frozenset(
        {AttemptState.STARTING, AttemptState.STOPPING, AttemptState.ENDED}
    ),
    AttemptState.STARTING: frozenset(
        {AttemptState.RUNNING, AttemptState.STOPPING, AttemptState.ENDED}
    ),
    AttemptState.RUNNING: frozenset({AttemptState.STOPPING, AttemptState.ENDED}),
    AttemptState.STOPPING: frozenset({AttemptState.ENDED}),
    AttemptState.ENDED: frozenset(),
}


def is_lease(workload: Workload) -> bool:
    """Notebooks hold leases; everything else is a job."""
    return workload.spec.kind is Kind.NOTEBOOK


def is_final(workload: Workload) -> bool:
    """Nothing more will happen to it."""
    return workload.state in FINAL_STATES


def check_over(workload: Workload) -> None:
    """Refuse to go on from what still goes on by itself.

    Raises InvalidTransition with what to do.
    """
    if not is_final(workload):
        message = f"{workload.spec.name} is {state_words(workload.state)}: it goes on by itself; resume it if it is paused."
        raise InvalidTransition(message)


def move(workload: Workload, to: State, now_ms: Millis, **changes: Any) -> Workload:
    """Return the workload in its next state; other fields may change with it.

    Raises InvalidTransition when the table has no such move.
    """
    _check_move(workload, workload.state, to)
    if to in FINAL_STATES:
        changes = {
            "ended_ms": now_ms,
            "nomination": None,
            "reason": None,
            "parked": None,
        } | changes
    return evolve(workload, state=to, since_ms=now_ms, **changes)


def admitted(workload: Workload, attempt: Attempt, now_ms: Millis) -> Workload:
    """Return the workload with a new attempt: a ticket waits for its server, a job starts at once.

    Raises InvalidTransition when the table lacks one of the moves.
    """
    changes: dict[str, Any] = {"nomination": None, "reason": None, "since_ms": now_ms}
    if workload.parked is not None:
        # Its server runs already, and looks for this.
        _check_move(workload, workload.state, State.ACTIVE)
        changes |= {"state": State.ACTIVE, "parked": None, "idleness": None}
        attempt = evolve(attempt, state=AttemptState.RUNNING, started_ms=now_ms)
    elif is_lease(workload):
        _check_move(workload, workload.state, State.GRANTED)
        changes |= {"state": State.GRANTED, "redeem_by_ms": Millis(now_ms + REDEEM_WITHIN_MS)}
    else:
        _check_move(workload, workload.state, State.ADMITTED)
        _check_move(workload, State.ADMITTED, State.STARTING)
        changes["state"] = State.STARTING
        attempt = evolve(attempt, state=AttemptState.STARTING)
    return evolve(workload, attempts=(*workload.attempts, attempt), **changes)


def nominated(workload: Workload, nomination: Nomination, now_ms: Millis) -> Workload:
    """Return the workload with a promise of devices; a ticket waits on, in its place.

    Raises InvalidTransition when the table has no such move.
    """
    if is_lease(workload):
        return evolve(workload, nomination=nomination)
    return move(workload, State.NOMINATED, now_ms, nomination=nomination)


def withdrawn(workload: Workload, now_ms: Millis) -> Workload:
    """Return the workload without its promise; it waits on with its age."""
    if workload.state is State.NOMINATED:
        return move(workload, State.QUEUED, now_ms, nomination=None)
    return evolve(workload, nomination=None)


def _check_move(workload: Workload, state: State, to: State) -> None:
    moves = LEASE_MOVES if is_lease(workload) else JOB_MOVES
    if to not in moves.get(state, ()):
        message = f"{workload.spec.name or 'The notebook'} is {state_words(state)}: it cannot become {state_words(to)} from there."
        raise InvalidTransition(message)


def move_attempt(workload: Workload, to: AttemptState, **changes: Any) -> Workload:
    """Return the workload with its current attempt in its next state.

    Raises InvalidTransition when there is no current attempt or the table has no such move.
    """
    return with_attempt(workload, attempt_moved(workload, to, **changes))


def attempt_moved(workload: Workload, to: AttemptState, **changes: Any) -> Attempt:
    """Return a workload's current attempt in its next state.

    Raises InvalidTransition when there is no current attempt or the table has no such move.
    """
    attempt = workload.current
    if attempt is None or to not in ATTEMPT_MOVES[attempt.state]:
        found = (
            "no attempt"
            if attempt is None
            else f"an attempt that is {attempt_words(attempt.state)}"
        )
        message = f"{workload.spec.name} has {found}: it cannot become {attempt_words(to)}."
        raise InvalidTransition(message)
    return evolve(attempt, state=to, **changes)


def with_attempt(workload: Workload, attempt: Attempt) -> Workload:
    """Return the workload with its newest attempt replaced."""
    return evolve(workload, attempts=(*workload.attempts[:-1], attempt))


def is_remembered(workload: Workload, now_ms: int) -> bool:
    """It is over and known all the same: something may still follow from it."""
    withdrawn = workload.withdrawn_ms
    late = bool(withdrawn) and withdrawn[-1] > now_ms - WITHDRAWALS_REMEMBERED_MS
    return is_final(workload) and (late or is_ended_lease(workload, now_ms))


def is_ended_lease(workload: Workload, now_ms: int) -> bool:
    """A lease that ended a moment ago: its server may still be told so."""
    ended = workload.ended_ms
    if workload.spec.kind is not Kind.NOTEBOOK or ended is None:
        return False
    return ended > now_ms - LEASES_REMEMBERED_MS


def in_line_since_ms(workload: Workload, workloads: Mapping[WorkloadId, Workload]) -> int:
    """The last of: submitted, its time came, what it runs after ended, resumed.

    Places in line go by this, not by the time of the submit: a job that may not start yet would
    otherwise age where it costs nothing. What others brought about (preempted, lost, a back-off)
    costs no age.
    """
    spec = workload.spec
    since = max(workload.submitted_ms, spec.not_before_ms)
    if workload.pauses:
        since = max(since, workload.pauses[-1].to_ms)
    for before in spec.after:
        found = workloads.get(before)
        if found is not None and found.ended_ms is not None:
            since = max(since, found.ended_ms)
    return since


def is_met(spec: Spec, before: Workload) -> bool | None:
    """Whether what a job runs after ended as it asks; None while that is not over."""
    if not is_final(before):
        return None
    if before.workload_id in spec.after_any:
        return True
    return (before.state is State.SUCCEEDED) is (before.workload_id not in spec.after_failed)
