"""Curves of trials' jobs as they grow: read once, and then heard of as the loop writes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.curves.shown_curve import best_source, without_repeats
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.store.base import LogPoint, Store

#: More points of one job are thinned when they are read, and read where so many were told at once.
_MOST = 2000


class ToldPoints:
    """What the loop has written since the last look, from its thread to another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: dict[tuple[ParentId, WorkloadId], list[LogPoint]] = {}

    def put(self, parent_id: ParentId, job_id: WorkloadId, points: Sequence[LogPoint]) -> None:
        """Keep points; of very many the newest."""
        with self._lock:
            kept = self._points.setdefault((parent_id, job_id), [])
            kept.extend(points)
            # One more than may be told at once: its curve is read.
            del kept[: -(_MOST + 1)]

    def take(self) -> Iterator[tuple[ParentId, WorkloadId, Sequence[LogPoint]]]:
        """All of it, once."""
        with self._lock:
            taken, self._points = self._points, {}
        for (parent_id, job_id), points in taken.items():
            yield parent_id, job_id, points


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """A curve as it was at the last look."""

    source: str
    #: Nothing else tells of this job, so what is told next need not be weighed against it.
    alone: bool
    #: When the newest point was told.
    at_ms: Millis


#: Of a job that has no attempt yet.
_NOTHING = _Seen(source=best_source({}), alone=True, at_ms=Millis(0))


class CurveReader:
    """For one sweep and one lead; what it forgets is read again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[WorkloadId, _Seen] = {}
        self._told: dict[WorkloadId, list[LogPoint]] = {}

    def tell(self, job_id: WorkloadId, points: Sequence[LogPoint]) -> None:
        """These were written; of a curve that was not read yet, all will be."""
        if job_id not in self._seen:
            return
        told = self._told.setdefault(job_id, [])
        told.extend(points)
        if len(told) > _MOST:
            del self._told[job_id], self._seen[job_id]

    def begins(self, job_id: WorkloadId) -> None:
        """A job that nobody has started yet: all of its curve will be told."""
        self._seen[job_id] = _NOTHING

    def is_up_to_date(self, job_id: WorkloadId) -> bool:
        """Nothing was told since its curve was read."""
        return job_id in self._seen and job_id not in self._told

    def new_points(self, job: Workload) -> Sequence[LogPoint]:
        """What was told since the last look, in order; a few again, and all where the source changes."""
        job_id = job.workload_id
        seen, told = self._seen.get(job_id), self._told.pop(job_id, [])
        if not job.attempts:
            seen = _NOTHING
        if is_final(job):
            self._seen.pop(job_id, None)
            return self._read(job_id, seen)[1]
        if seen is not None and seen.alone and all(one.source == seen.source for one in told):
            at_ms = max((one.at_ms for one in told), default=seen.at_ms)
            self._seen[job_id] = _Seen(source=seen.source, alone=True, at_ms=at_ms)
            return without_repeats(sorted(told, key=lambda one: (one.attempt_number, one.step)))
        # Where the read fails, what was told is not lost: all of the curve is read the next time.
        self._seen.pop(job_id, None)
        self._seen[job_id], points = self._read(job_id, seen)
        return points

    def _read(self, job_id: WorkloadId, seen: _Seen | None) -> tuple[_Seen, Sequence[LogPoint]]:
        sources = self._store.curve_sources(job_id)
        source = best_source(sources)
        from_ms = seen.at_ms if seen is not None and seen.source == source else Millis(0)
        points = self._store.points(job_id, _MOST, source=source, from_ms=from_ms)
        at_ms = max((one.at_ms for one in points), default=from_ms)
        now = _Seen(source=source, alone=set(sources) <= {source}, at_ms=at_ms)
        return now, without_repeats(points)
