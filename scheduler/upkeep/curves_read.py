"""Curves of trials' jobs as they grow: each is read only when its job has told something new."""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Workload, WorkloadId
from gpucommons.scheduler.curves.choice import best_source, without_repeats
from gpucommons.scheduler.store.base import LogPoint, Store

#: More points of one job are thinned when they are read.
_MOST = 2000


class CurveReader:
    """For one scheduler; what it forgets is read again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[WorkloadId, object] = {}

    def new_points(self, job: Workload) -> Sequence[LogPoint]:
        """A job's curve in order; nothing where that has not changed since."""
        job_id = job.workload_id
        sources = self._store.curve_sources(job_id)
        mark = (tuple(sorted(sources.items())), job.progress, job.state)
        if self._seen.get(job_id) == mark:
            return ()
        if is_final(job):
            self._seen.pop(job_id, None)
        else:
            self._seen[job_id] = mark
        return without_repeats(self._store.points(job_id, _MOST, source=best_source(sources)))
