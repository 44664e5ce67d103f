"""Runs that have ended, collected once from the store and then as they end."""

from __future__ import annotations

from collections import deque

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.forecast.runs import Run, run_of
from gpucommons.scheduler.store.base import Store, WorkloadFilter
from gpucommons.scheduler.store.stored_jobs import stored_workloads

#: Older runs say little of today's work.
REMEMBERED = 5_000


class PastRuns:
    """What has run here, newest last."""

    def __init__(self, store: Store, *, remembered: int = REMEMBERED) -> None:
        self._store = store
        self._remembered = remembered
        self._runs: deque[Run] = deque()
        #: Of those submitted up to then, some are not remembered.
        self.forgotten_ms = Millis(0)
        #: Live at the last look; None before the first.
        self._live: frozenset[WorkloadId] | None = None

    def look(self, cluster: Cluster) -> None:
        """Take in what has ended since the last look; the first one reads what is stored."""
        if self._live is None:
            self._read_stored()
        live = frozenset(i for i, w in cluster.workloads.items() if not is_final(w))
        for workload_id in sorted((self._live or frozenset()) - live):
            ended = self._store.workload(workload_id)
            run = None if ended is None else run_of(ended, cluster.now_ms)
            if run is not None and run.ended:
                self._runs.append(run)
        while len(self._runs) > self._remembered:
            self._forget(self._runs.popleft())
        self._live = live

    def runs(self, cluster: Cluster) -> tuple[Run, ...]:
        """Ended runs and those under way."""
        going = (run_of(w, cluster.now_ms) for w in cluster.workloads.values() if not is_final(w))
        return (*self._runs, *(run for run in going if run is not None))

    def _forget(self, run: Run) -> None:
        self.forgotten_ms = max(self.forgotten_ms, run.submitted_ms)

    def _read_stored(self) -> None:
        for ended in stored_workloads(self._store, WorkloadFilter(live=False)):
            run = run_of(ended, ended.ended_ms or ended.since_ms)
            if run is None:
                continue
            if len(self._runs) == self._remembered:
                self._forget(run)  # the list goes by submission: this is the newest of the rest
                return
            self._runs.appendleft(run)
