"""What the loop is told from outside: kept until it is committed, and what of it makes a curve."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.acting import current_attempts
from gpucommons.scheduler.core.state import Cluster, Observation, ProgressReported
from gpucommons.scheduler.core.types import WorkloadId
from gpucommons.scheduler.store.base import LogPoint


@dataclass(kw_only=True)
class Inbox:
    """Observations from outside, until they are committed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: list[Observation] = field(default_factory=list)

    def put(self, observation: Observation) -> None:
        """Keep one more."""
        with self.lock:
            self.waiting.append(observation)

    def peek(self) -> tuple[Observation, ...]:
        """All of them, oldest first."""
        with self.lock:
            return tuple(self.waiting)

    def drop(self, count: int) -> None:
        """The oldest ones are on record."""
        with self.lock:
            del self.waiting[:count]

    def clear(self) -> None:
        """They are no longer ours to record."""
        with self.lock:
            self.waiting.clear()


def curves_of(
    cluster: Cluster, seen: Sequence[Observation]
) -> Mapping[WorkloadId, Sequence[LogPoint]]:
    """Points of the jobs' curves, from reports of attempts that are current."""
    curves: dict[WorkloadId, list[LogPoint]] = defaultdict(list)
    reports = [one for one in seen if isinstance(one, ProgressReported) and one.progress.metrics]
    current = current_attempts(cluster) if reports else {}
    for report in reports:
        if report.attempt_id not in current:
            continue
        workload, attempt = current[report.attempt_id]
        progress = report.progress
        curves[workload.workload_id].append(
            LogPoint(
                attempt_number=attempt.number,
                step=progress.step,
                at_ms=progress.at_ms,
                metrics=dict(progress.metrics),
            )
        )
    return curves
