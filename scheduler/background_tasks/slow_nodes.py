"""Tells the core once an hour which nodes and pairs of nodes are slow, by the step times of jobs that are over."""

from __future__ import annotations

from itertools import islice

from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR
from gpucommons.scheduler.core.model.intents import NoteSlowNodes
from gpucommons.scheduler.forecast.slow_nodes import (
    AVOIDED_MS,
    COUNTED_MS,
    slow_nodes,
    slow_pairs,
    step_times,
)
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import WorkloadFilter
from gpucommons.scheduler.store.stored_jobs import stored_jobs

_EVERY_MS = 3_600_000
#: More jobs are not looked at, the newest first.
_MOST_JOBS = 5_000


class SlowNodes:
    """One pass after the other, from one thread of the leader."""

    def __init__(self, service: Service, *, avoided_ms: int = AVOIDED_MS) -> None:
        self._service = service
        self._avoided_ms = avoided_ms
        self._due_ms = 0

    def step(self) -> None:
        """Look at what has ended, if there are several nodes to compare, and say what is news."""
        nodes, now_ms = self._service.loop.cluster.nodes, self._service.now_ms()
        nothing_to_say = len(nodes) <= 1 and not any(
            node.slow or node.slow_pairs for node in nodes.values()
        )
        if now_ms < self._due_ms or nothing_to_say:
            return
        self._due_ms = now_ms + _EVERY_MS
        where = WorkloadFilter(live=False, ended_after_ms=now_ms - COUNTED_MS - self._avoided_ms)
        jobs = islice(stored_jobs(self._service.store, where), _MOST_JOBS)
        times = [time for job in jobs for time in step_times(job, nodes)]
        found = NoteSlowNodes(
            slow=slow_nodes(times, nodes, now_ms, self._avoided_ms),
            slow_pairs=slow_pairs(times, nodes, now_ms, self._avoided_ms),
        )
        if any(
            (node.slow, node.slow_pairs) != (found.slow.get(one), found.slow_pairs.get(one, ()))
            for one, node in nodes.items()
        ):
            self._service.ask(OPERATOR, found)
