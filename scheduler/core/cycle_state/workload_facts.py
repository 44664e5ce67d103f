"""What the index knows of one workload: the sets that it is in, what it holds, and what waits for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpucommons.scheduler.core.going_on.hibernating import kept_image
from gpucommons.scheduler.core.model.demand import (
    elastic,
    may_have,
    must_have,
    place_of,
    placed_milli_gpu,
    priority,
)
from gpucommons.scheduler.core.model.eviction_cause import FOR_OTHERS, StopCause, was_moved
from gpucommons.scheduler.core.model.holds import class_of_worker
from gpucommons.scheduler.core.model.lifecycle import (
    FINAL_STATES,
    WAITING_STATES,
    in_line_since_ms,
    is_lease,
)
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Millis,
    NodeId,
    ReasonClass,
    State,
    TeamName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)


class QueuePosition(NamedTuple):
    """Where a job stands in its class: who has been in line longest goes first."""

    since_ms: int
    workload_id: WorkloadId


#: The sets that a workload may be in.
SETS = (
    "holding",
    "nominated",
    "stopping",
    "borrowing",
    "acting",
    "tickets",
    "paused",
    "untold",
    "hindered",
    "dependent",
    "final",
    "moved",
    "growable",
    "shrinkable",
    "withdrawn",
    "narrowed",
    "parked",
)
BIT = {name: 1 << i for i, name in enumerate(SETS)}
_HOLDING, _NOMINATED, _STOPPING, _BORROWING, _ACTING = (BIT[name] for name in SETS[:5])
_TICKETS, _PAUSED, _UNTOLD, _HINDERED, _DEPENDENT = (BIT[name] for name in SETS[5:10])
_FINAL, _MOVED, _GROWABLE, _SHRINKABLE, _WITHDRAWN, _NARROWED, _PARKED = (
    BIT[name] for name in SETS[10:]
)


class Borrowed(NamedTuple):
    """What a workload borrows, or was promised to borrow."""

    team: TeamName
    #: The least of it that can be taken back, in milli-GPU.
    part: int
    #: Milli-GPU by node.
    nodes: tuple[tuple[NodeId, int], ...]


class Leaving(NamedTuple):
    """What an attempt that is being stopped borrows and will give back."""

    team: TeamName
    #: Where the first of it lies.
    node_id: NodeId
    milli_gpu: int


class Stops(NamedTuple):
    """Who is stopped for it, and for whom it is stopped."""

    #: Whose ends it waits for.
    victims: tuple[AttemptId, ...] = ()
    leaving: Leaving | None = None
    #: For whom its attempts were stopped in earnest, and when that was announced; the last comes last.
    stopped_for: tuple[tuple[WorkloadId, Millis], ...] = ()


class WorkloadFacts(NamedTuple):
    """What the index knows of one workload: its sets (as bits), its place in line, what it borrows, who
    stops for it.
    """

    sets: int
    attempt_id: AttemptId | None = None
    #: Its place in its line, where it waits in one.
    place: QueuePosition | None = None
    borrowed: Borrowed | None = None
    #: What it runs after, as long as it is live.
    after: tuple[WorkloadId, ...] = ()
    stops: Stops = Stops()
    #: Of a job that holds or was promised devices: its team and its priority.
    holds_at: tuple[TeamName, int] | None = None


UNKNOWN = WorkloadFacts(0)


def facts_of(workload: Workload, workloads: Mapping[WorkloadId, Workload]) -> WorkloadFacts:
    """Look at one workload; what it runs after says since when it is in line."""
    state, attempt, after = workload.state, workload.current, workload.spec.after
    sets = (_ACTING if _to_restart(workload) else 0) | (_WITHDRAWN if workload.withdrawn_ms else 0)
    sets |= 0 if workload.parked is None else _PARKED
    stops = _stops(workload, attempt) if workload.attempts or workload.nomination else _NO_STOPS
    if state in FINAL_STATES:
        return WorkloadFacts(sets | _FINAL, stops=stops._replace(victims=()))
    holds_at = _holds_at(workload)
    if workload.nomination is not None:
        sets |= _NOMINATED
    if after:
        sets |= _DEPENDENT
    if workload.submitted_pools or (attempt is None and _may_be_narrowed(workload)):
        # Where its image can be woken, and what a pool costs, may change and keep it out of the line.
        sets |= _NARROWED
    if attempt is not None:
        sets |= _of_attempt(workload, attempt)
        splits = elastic(workload.spec)
        borrowed = _borrowed(workload, attempt.hold_class, attempt.placements, splits=splits)
        return WorkloadFacts(sets, attempt.attempt_id, None, borrowed, after, stops, holds_at)
    if state is State.PAUSED:
        told = workload.reason is not None and workload.reason.code is ReasonClass.PAUSED
        sets |= _PAUSED if told else _PAUSED | _UNTOLD
        return WorkloadFacts(sets, after=after, stops=stops, holds_at=holds_at)
    if state not in WAITING_STATES:
        return WorkloadFacts(sets, after=after, stops=stops, holds_at=holds_at)
    if after or workload.not_before_ms or workload.spec.not_before_ms or sets & _NARROWED:
        sets |= _HINDERED
    promise, place = workload.nomination, None
    borrowed = (
        None if promise is None else _borrowed(workload, promise.hold_class, promise.placements)
    )
    if is_lease(workload):
        sets |= _TICKETS
    else:
        place = QueuePosition(in_line_since_ms(workload, workloads), workload.workload_id)
    return WorkloadFacts(sets, None, place, borrowed, after, stops, holds_at)


def _holds_at(workload: Workload) -> tuple[TeamName, int] | None:
    if is_lease(workload) or (workload.current is None and workload.nomination is None):
        return None
    return workload.spec.team, priority(workload)


def _may_be_narrowed(workload: Workload) -> bool:
    return workload.spec.max_price_micro is not None or kept_image(workload) is not None


def _borrowed(
    workload: Workload,
    hold_class: HoldClass,
    placements: Sequence[WorkerPlacement],
    *,
    splits: bool = False,
) -> Borrowed | None:
    """What is borrowed there; an elastic job can give back one worker alone."""
    borrowed = [
        (one.node_id, placed_milli_gpu(one))
        for one in placements
        if one.device_ids and class_of_worker(hold_class, one) is HoldClass.OVER_QUOTA
    ]
    if not borrowed:
        return None
    sizes = [milli for _, milli in borrowed]
    return Borrowed(workload.spec.team, min(sizes) if splits else sum(sizes), tuple(borrowed))


_NO_STOPS = Stops()


def _stops(workload: Workload, attempt: Attempt | None) -> Stops:
    promise = workload.nomination
    victims = promise.victims if promise is not None and attempt is None else ()
    leaving = None if attempt is None else _leaving(workload, attempt)
    return Stops(victims, leaving, _stopped_for(workload))


def _leaving(workload: Workload, attempt: Attempt) -> Leaving | None:
    """What it gives back; nothing where it moves, and not what it keeps with fewer workers."""
    stop = attempt.stop
    if stop is None or stop.why == StopCause.MOVE:
        return None
    kept: set[tuple[object, ...]] = set()
    if stop.why == StopCause.SHRINK_FOR_OTHERS and workload.nomination is not None:
        kept = {place_of(one) for one in workload.nomination.placements}
    milli = sum(
        placed_milli_gpu(one)
        for one in attempt.placements
        if class_of_worker(attempt.hold_class, one) is HoldClass.OVER_QUOTA
        and place_of(one) not in kept
    )
    return Leaving(workload.spec.team, attempt.placements[0].node_id, milli)


def _stopped_for(workload: Workload) -> tuple[tuple[WorkloadId, Millis], ...]:
    """Also by what saved and left within its notice, as it is asked to; not what came to its own end."""
    stops = ((one, one.stop) for one in workload.attempts)
    return tuple(
        (stop.beneficiary, stop.announced_ms)
        for one, stop in stops
        if stop is not None
        and stop.beneficiary is not None
        and stop.why in FOR_OTHERS
        and (stop.signalled or (one.ended_ms is not None and one.exit_code != 0))
    )


def _to_restart(workload: Workload) -> bool:
    """A notebook's server may have to come back without a GPU."""
    last = workload.attempts[-1].stop if workload.attempts else None
    return last is not None and last.restart_on_cpu


def _of_attempt(workload: Workload, attempt: Attempt) -> int:
    sets = _HOLDING
    if attempt.stop is not None:
        sets |= _STOPPING | _ACTING
    elif attempt.hold_class is HoldClass.OVER_QUOTA:
        sets |= _BORROWING
    if (
        attempt.state is AttemptState.STARTING
        or attempt.spared_ms is not None
        or workload.redeem_by_ms is not None
    ):
        sets |= _ACTING
    if elastic(workload.spec):
        sets |= _of_elastic(workload, attempt)
    if was_moved(workload):
        sets |= _MOVED
    return sets


def _of_elastic(workload: Workload, attempt: Attempt) -> int:
    spec, sets, has = workload.spec, 0, len(attempt.placements)
    if attempt.state is not AttemptState.RUNNING or attempt.stop is not None:
        return sets
    if spec.over_quota and has < len(must_have(spec)) + len(may_have(spec)):
        sets |= _GROWABLE
    if has > len(must_have(spec)):
        sets |= _SHRINKABLE
    return sets
