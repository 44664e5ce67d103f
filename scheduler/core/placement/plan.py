"""Who has to go so that somebody fits, what that costs, and the place that is left.

A search for victims makes such plans and compares them; :mod:`.admission` carries them out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.core.model.eviction_cause import EvictionCause
from gpucommons.scheduler.core.model.evolving import quick
from gpucommons.scheduler.core.model.holds import HoldKey
from gpucommons.scheduler.core.model.types import HoldClass, WorkerPlacement, WorkloadId

#: Work lost, whole jobs stopped anew, jobs touched anew, candidates; of equals the newest goes.
Cost = tuple[int, int, int, int, int]
#: Ids are compared as numbers of so many bytes: a UUID as text.
_ID_LENGTH = 36
_NO_COST: Cost = (0, 0, 0, 0, 0)


@quick
@dataclass(frozen=True, slots=True)
class EvictionCandidate:
    """What can be taken back in one piece: an attempt, one surplus worker, or a promise."""

    workload_id: WorkloadId
    #: Empty for a promise that nothing holds yet.
    keys: tuple[HoldKey, ...]
    #: Work since the last checkpoint, in milli-GPU·ms; 0 where it is ending anyway.
    lost: int
    #: Since when it holds: of equals, the newest goes first.
    since_ms: int
    #: Taking it ends the whole attempt.
    whole: bool = True
    #: It is being stopped already.
    ending: bool = False


@quick
@dataclass(frozen=True, slots=True)
class Plan:
    """Devices for a workload, and who has to go first."""

    placements: tuple[WorkerPlacement, ...]
    hold_class: HoldClass
    candidates: tuple[EvictionCandidate, ...]
    cause: EvictionCause
    #: Where those who move go on.
    destinations: Mapping[WorkloadId, tuple[WorkerPlacement, ...]] = field(default_factory=dict)


def cost(taken: Iterable[EvictionCandidate], paid: Collection[WorkloadId] = ()) -> Cost:
    """What it costs to take these candidates beside what is stopped already: the smaller, the better."""
    lost: dict[WorkloadId, int] = {}
    whole: set[WorkloadId] = set()
    count = newest = 0
    for candidate in taken:
        count += 1
        newest = max(newest, candidate.since_ms)
        if not candidate.ending:
            if candidate.workload_id not in paid:
                lost[candidate.workload_id] = candidate.lost
            if candidate.whole:
                whole.add(candidate.workload_id)
    return (sum(lost.values()), len(whole), len(lost), count, -newest) if count else _NO_COST


def rank(taken: Sequence[EvictionCandidate], paid: Collection[WorkloadId] = ()) -> tuple[Cost, int]:
    """Order sets of victims by cost, and equals by id: ids grow with time, the newest goes."""
    newest = max((candidate.workload_id for candidate in taken), default="")
    return cost(taken, paid), -int.from_bytes(newest.encode().ljust(_ID_LENGTH, b"\0"))


def sparing_order(candidate: EvictionCandidate) -> tuple[bool, int, bool, int, str]:
    """What is spared first comes last: work lost, whole jobs, the oldest."""
    return (
        not candidate.ending,
        candidate.lost,
        candidate.whole,
        -candidate.since_ms,
        candidate.workload_id,
    )
