"""Why work is stopped for somebody, in the words of notices and receipts."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from gpucommons.scheduler.core.model.types import Attempt, HoldClass, TeamName, Workload


class StopCause(StrEnum):
    """Why an attempt of a job is to end: ``Stop.why``, and stored as it reads.

    Notebooks end by causes of their own as well (``events.leases``).
    """

    #: For another team: its fixed quota, guarantee or share.
    RECLAIM = "reclaim"
    #: For a job of its own team that goes first.
    PREEMPT = "preempt"
    #: It goes on with fewer workers, for another job, in a place that is promised to it.
    SHRINK_FOR_OTHERS = "resize"
    #: It goes on in another place, which is promised to it.
    MOVE = "move"
    #: It goes on with more workers, or with fewer that were measured to be faster, for itself.
    OWN_SIZE = "grow"
    #: It is stopped once on purpose, to see whether it goes on.
    DRILL = "drill"
    #: It did not go on after a drill: it runs no more where it borrows.
    CONFINE = "confine"
    #: Its node is taken back by the cloud that it is rented from.
    SPOT = "spot"
    #: It did not start in time.
    TIMEOUT = "timeout"
    #: It ran as long as it may.
    MAX_RUN = "max-run"
    #: A node of it is lost.
    LOST = "lost"
    PAUSE = "pause"
    CANCEL = "cancel"


def stop_cause(attempt: Attempt | None) -> str | None:
    """Why an attempt is to end, or was ended; None where nobody stopped it, or there is none."""
    return None if attempt is None or attempt.stop is None else attempt.stop.why


def was_moved(workload: Workload) -> bool:
    """It had to go on elsewhere once."""
    return any(stop_cause(one) == StopCause.MOVE for one in workload.attempts)


#: Rules by which work is stopped that has as much right as its beneficiary: not again and again.
SHARE, PRIORITY, CONSOLIDATION = "fair share", "priority", "consolidation"
#: An elastic job gives workers up, down to its fewest, to whoever waits and fits nowhere else.
ROOM = "room of elastic jobs"
AMONG_EQUALS = frozenset({SHARE, PRIORITY, CONSOLIDATION})

#: Stops for the sake of another workload: those may be taken back.
FOR_OTHERS: frozenset[str] = frozenset(
    {StopCause.RECLAIM, StopCause.PREEMPT, StopCause.SHRINK_FOR_OTHERS, StopCause.MOVE}
)
#: Stops after which the job has a place promised already.
GOES_ON: frozenset[str] = frozenset({StopCause.SHRINK_FOR_OTHERS, StopCause.MOVE})


class EvictionCause(NamedTuple):
    """Why somebody's work has to go."""

    why: StopCause
    #: "for nlp (its guarantee)".
    text: str
    #: "guarantee of nlp".
    rule: str


def of_notebooks(team: TeamName) -> EvictionCause:
    """Fixed quota wins back what is lent."""
    return EvictionCause(StopCause.RECLAIM, f"for {team} (its notebooks)", f"fixed quota of {team}")


def of_guarantee(team: TeamName) -> EvictionCause:
    """A guarantee wins back what is lent."""
    return EvictionCause(StopCause.RECLAIM, f"for {team} (its guarantee)", f"guarantee of {team}")


def of_share(team: TeamName) -> EvictionCause:
    """Teams that borrow too much for their weight give back."""
    return EvictionCause(StopCause.RECLAIM, f"for {team} (its share)", SHARE)


def of_priority(name: str) -> EvictionCause:
    """Inside a team higher priority goes first."""
    return EvictionCause(StopCause.PREEMPT, f"for {name} (higher priority)", PRIORITY)


def of_room(name: str) -> EvictionCause:
    """Elastic jobs run with fewer workers while others wait."""
    return EvictionCause(StopCause.SHRINK_FOR_OTHERS, f"for {name} (it waits for room)", ROOM)


def of_move(whom: str) -> EvictionCause:
    """Running jobs go on elsewhere where only fragmentation is in the way."""
    return EvictionCause(
        StopCause.MOVE, f"to make room for {whom}, and goes on elsewhere", CONSOLIDATION
    )


def of_heir(heir: Workload, victim: Workload, attempt: Attempt) -> EvictionCause:
    """The cause of one who waits for what was stopped for another."""
    team, nomination, stop = heir.spec.team, heir.nomination, attempt.stop
    hold_class = HoldClass.OVER_QUOTA if nomination is None else nomination.hold_class
    if hold_class is HoldClass.FIXED:
        return of_notebooks(team)
    if hold_class is HoldClass.GUARANTEED and attempt.hold_class is not HoldClass.GUARANTEED:
        return of_guarantee(team)
    if stop is not None and stop.rule == ROOM and hold_class is not HoldClass.GUARANTEED:
        return of_room(heir.spec.name)
    if team == victim.spec.team:
        return of_priority(heir.spec.name)
    return of_guarantee(team) if hold_class is HoldClass.GUARANTEED else of_share(team)
