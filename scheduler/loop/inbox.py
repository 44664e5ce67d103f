"""What the loop is told from outside: kept until it is committed, and what of it makes a curve."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.core.model.state import Cluster, Observation, ProgressReported
from gpucommons.scheduler.core.model.types import REPORTED, WorkloadId
from gpucommons.scheduler.loop.acting import current_attempts
from gpucommons.scheduler.store.base import Epoch, LogPoint, Store

#: Of one job, what waits for the next cycle: a job that prints or posts points without end costs the
#: cycle, and all who wait for it, no more than this.
MOST_POINTS = 5_000
#: Points, each with the job that it belongs to.
Curves = Iterable[tuple[WorkloadId, LogPoint]]
#: Told what was written, from the loop's thread.
Follower = Callable[[Mapping[WorkloadId, Sequence[LogPoint]]], None]


@dataclass(kw_only=True)
class Inbox:
    """Observations from outside, until they are committed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: list[Observation] = field(default_factory=list)
    #: Points of curves that were read, of jobs that may be over by now.
    points: dict[WorkloadId, list[LogPoint]] = field(default_factory=dict)
    #: Those of them that are being written.
    leaving: frozenset[WorkloadId] = frozenset()
    followers: list[Follower] = field(default_factory=list)

    def put(self, observation: Observation) -> None:
        """Keep one more."""
        with self.lock:
            self.waiting.append(observation)

    def peek(self) -> tuple[Observation, ...]:
        """All of them, oldest first.

        Asked for after executors are: what a process told before its end is then among it.
        """
        with self.lock:
            return tuple(self.waiting)

    def drop(self, count: int) -> None:
        """The oldest ones are on record."""
        with self.lock:
            del self.waiting[:count]

    def put_points(self, workload_id: WorkloadId, points: Sequence[LogPoint]) -> None:
        """Keep points of a curve; of very many at a time every second one goes."""
        with self.lock:
            kept = self.points.setdefault(workload_id, [])
            kept.extend(points)
            while len(kept) > MOST_POINTS:
                # The newest always stays.
                del kept[-2::-2]

    def has_points(self, workload_id: WorkloadId) -> bool:
        """Some of a job are not in the store yet."""
        with self.lock:
            return workload_id in self.points or workload_id in self.leaving

    def write_points(self, store: Store, epoch: Epoch, seen: Curves) -> None:
        """Have what was read written together with what attempts told; it is dropped once it is."""
        with self.lock:
            read, self.points = self.points, {}
            self.leaving = frozenset(read)
        curves: dict[WorkloadId, list[LogPoint]] = defaultdict(list)
        for workload_id, points in read.items():
            curves[workload_id].extend(points)
        for workload_id, point in seen:
            curves[workload_id].append(point)
        try:
            if curves:
                store.add_points(epoch, curves)
        except BaseException:
            with self.lock:
                for workload_id, points in read.items():
                    self.points[workload_id] = points + self.points.get(workload_id, [])
            raise
        finally:
            self.leaving = frozenset()
        if curves:
            for told in self.followers:
                told(curves)

    def clear(self) -> None:
        """They are no longer ours to record."""
        with self.lock:
            self.waiting.clear()
            self.points.clear()


def points_of(cluster: Cluster, seen: Sequence[Observation]) -> Curves:
    """Points of the jobs' curves, from reports of attempts that are current."""
    reports = [one for one in seen if isinstance(one, ProgressReported) and _makes_a_point(one)]
    current = current_attempts(cluster) if reports else {}
    for report in reports:
        if report.attempt_id not in current:
            continue
        workload, attempt = current[report.attempt_id]
        progress = report.progress
        yield (
            workload.workload_id,
            LogPoint(
                attempt_number=attempt.number,
                step=progress.step,
                at_ms=progress.at_ms,
                metrics=dict(progress.metrics),
            ),
        )


def _makes_a_point(report: ProgressReported) -> bool:
    """What was read elsewhere comes with its points."""
    return bool(report.progress.metrics) and report.progress.source == REPORTED
