"""How far a job came that is over, by the last lines of its log.

A log is read up to some seconds after it was written, and a job that has ended takes no more reports:
what it printed just before its end stands in its curve alone. What was found is remembered, for lists
of jobs that are over are asked for again and again.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Millis, Progress, Workload, WorkloadId
from gpucommons.scheduler.curves.points import Source, Unit
from gpucommons.scheduler.curves.storing import progress_of_stored
from gpucommons.scheduler.service.in_memory.newest import keep
from gpucommons.scheduler.store.base import Store

_REMEMBERED = 10_000
#: So long after its end nothing more is read of a log, unless somebody asks for it.
_SETTLED_MS = 600_000


class LastPoints:
    """May be used from any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._settled: dict[WorkloadId, Progress | None] = {}

    def told(self, job: Workload, store: Store, now_ms: Millis) -> Workload:
        """The job, with the last point of its log as its progress where it is over."""
        if not is_final(job) or not job.attempts or not _of_log(job.progress):
            return job
        known = job.workload_id
        with self._turn:
            if known in self._settled:
                return replace(job, progress=self._settled[known])
        progress = _last(job, store)
        if job.ended_ms is not None and job.ended_ms + _SETTLED_MS < now_ms:
            with self._turn:
                keep(self._settled, known, progress, most=_REMEMBERED)
        return job if progress == job.progress else replace(job, progress=progress)


def _of_log(progress: Progress | None) -> bool:
    """Nothing better is known than what was read of the log."""
    return progress is None or progress.source == Source.LOG.value


def _last(job: Workload, store: Store) -> Progress | None:
    before = job.progress
    since_ms = 0 if before is None else before.at_ms
    points = store.points(job.workload_id, source=Source.LOG.value, from_ms=since_ms)
    newest = job.attempts[-1].number
    read = [one for one in points if one.attempt_number == newest and one.unit != Unit.LINE]
    return progress_of_stored(read[-1], before) if read else before
