"""Who is spared first: sets of victims are ordered by what stopping them costs, and the cheapest goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.core.placement.eviction_plan import EvictionCandidate

#: Work lost, whole jobs stopped anew, jobs touched anew, candidates; of equals the newest goes.
Cost = tuple[int, int, int, int, int]
#: Ids are compared as numbers of so many bytes: a UUID as text.
_ID_LENGTH = 36
_NO_COST: Cost = (0, 0, 0, 0, 0)


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
