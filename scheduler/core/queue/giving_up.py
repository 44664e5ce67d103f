"""When trying again is given up: a ticket that no server takes up, a job that never runs or is lost each time.

How often a job that *fails* is started again is its own setting, `max_restarts`, read in `events.endings`.

Each try holds GPUs, and others may have been stopped for them. So tries that came to nothing are
counted, by the same rule for grants that lapse, starts that take too long and attempts that are lost
before they ran; and by one of their own for attempts that ran and were lost. One node that is lost is
not its job's fault; a job that is lost each time and saves nothing may well be what takes its nodes.
"""

from __future__ import annotations

from gpucommons.scheduler.core.going_on.hibernating import is_kept
from gpucommons.scheduler.core.model.eviction_cause import StopCause, stop_cause
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Workload

#: So many grants of a ticket may lapse: with the rests between them, a hub that is away for some
#: seven minutes costs nobody the place in line.
GRANTS = 3
#: So many starts of a job may come to nothing, or as many as it asked for where those are more.
STARTS = 6
#: So many attempts in a row may be lost after they ran and saved nothing, or as many as it asked for.
LOSSES = 6
#: Ends of an attempt that are nobody's wish.
ITS_OWN = frozenset({StopCause.TIMEOUT, StopCause.LOST})


def in_vain(workload: Workload) -> int:
    """How many tries in a row, up to now, ended before anything ran."""
    count = 0
    for attempt in reversed(workload.attempts):
        if ran(attempt):
            break
        cause = stop_cause(attempt)
        if cause is None or cause in ITS_OWN:
            count += 1
    return count


def lost_in_a_row(workload: Workload) -> int:
    """How many attempts, up to now, ran, were lost, and left nothing that a next one goes on from."""
    saved = _saved_something(workload)
    count = 0
    for attempt in reversed(workload.attempts):
        if not ran(attempt):
            continue
        if attempt.attempt_id in saved or not _was_lost(attempt):
            break
        count += 1
    return count


def _saved_something(workload: Workload) -> set[AttemptId]:
    """Attempts that left a checkpoint, from which a later one went on or the next one will."""
    kept = [attempt.resumed_from for attempt in workload.attempts] + [workload.checkpoint]
    return {one.attempt_id for one in kept if one is not None}


def always_lost(workload: Workload) -> bool:
    """Whether it was lost often enough."""
    return lost_in_a_row(workload) >= max(LOSSES, workload.spec.max_restarts + 1)


def left_untold(workload: Workload) -> int:
    """How many attempts, up to now, left as if told to, though nobody here told them, and saved nothing.

    Their exits look like failures, and those are counted as restarts. Processes that were said to be
    saved count as well where the next attempt did not wake them.
    """
    saved = _saved_something(workload)
    count = 0
    for attempt in reversed(workload.attempts):
        by_itself = attempt.stop is None and attempt.spared_ms is None
        if attempt.attempt_id in saved or not by_itself:
            break
        if attempt.exit_code is None and (attempt.image is None or _was_woken(workload, attempt)):
            break
        count += 1
    return count - workload.restarts


def pointless(workload: Workload) -> bool:
    """Whether it was tried often enough."""
    most = GRANTS if is_lease(workload) else max(STARTS, workload.spec.max_restarts + 1)
    return in_vain(workload) >= most


def _was_lost(attempt: Attempt) -> bool:
    if attempt.stop is not None:
        return attempt.stop.why == StopCause.LOST
    # Whose processes were saved goes on: nothing of it is lost.
    return attempt.exit_code is None and attempt.image is None


def _was_woken(workload: Workload, attempt: Attempt) -> bool:
    return attempt.number < len(workload.attempts) and is_kept(workload, attempt)


def ran(attempt: Attempt) -> bool:
    """Also what ended by itself before its start was reported."""
    return attempt.started_ms is not None or (
        attempt.stop is None and attempt.exit_code is not None
    )
