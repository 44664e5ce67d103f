"""Curves of trials' jobs as they grow: of each only what was told since the last look is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.curves.choice import best_source, without_repeats
from gpucommons.scheduler.store.base import LogPoint, Store

#: More points of one job are thinned when they are read.
_MOST = 2000
#: What a job that holds nothing told at its end is in the store after so many looks.
_LATE_LOOKS = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """A job and its curve as they were at the last look."""

    job: Workload
    sources: tuple[tuple[str, int], ...]
    source: str
    #: When the newest point was told.
    at_ms: Millis
    #: Since then it is the same job, which holds nothing.
    looks: int = 0


class CurveReader:
    """For one scheduler; what it forgets is read again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[WorkloadId, _Seen] = {}

    def new_points(self, job: Workload) -> Sequence[LogPoint]:
        """What was told since the last look, in order; the newest again, and all where the source changes."""
        job_id = job.workload_id
        seen = self._seen.get(job_id)
        rests = seen is not None and seen.job is job and job.current is None
        looks = seen.looks + 1 if seen is not None and rests else 0
        if looks > _LATE_LOOKS:
            return ()
        sources = self._store.curve_sources(job_id)
        counts, source = tuple(sorted(sources.items())), best_source(sources)
        from_ms = seen.at_ms if seen is not None and seen.source == source else Millis(0)
        points: Sequence[LogPoint] = ()
        told_more = seen is None or (seen.sources, seen.job.progress) != (counts, job.progress)
        if told_more or is_final(job):
            points = self._store.points(job_id, _MOST, source=source, from_ms=from_ms)
        at_ms = max((one.at_ms for one in points), default=from_ms)
        if is_final(job):
            self._seen.pop(job_id, None)
        else:
            self._seen[job_id] = _Seen(
                job=job, sources=counts, source=source, at_ms=at_ms, looks=looks
            )
        return without_repeats(points)
