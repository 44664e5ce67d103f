"""Reads the logs of running jobs as they are written, and hands on the curves that are in them.

It looks at each log in turn, from where it was the last time, for a bounded while per pass. After a
restart it reads a log from its start again, which gives the same points. A script that reports by
itself is left alone: what is read of it would only be a poorer copy.

Whoever judges a job by its curve asks first whether more of it may come (:meth:`LogFollowing.unread`):
a job may end between two passes, or while no scheduler runs.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.state import Cluster, Observation, ProgressReported
from gpucommons.scheduler.core.model.types import (
    REPORTED,
    Attempt,
    AttemptId,
    Millis,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.curves.log_curve import LogCurve
from gpucommons.scheduler.curves.points import Point, Source, Unit
from gpucommons.scheduler.curves.storing import progress_of, stored_point
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.files.log_reader import LogChunk
from gpucommons.scheduler.store.base import LogPoint, Store, WorkloadFilter

log = logging.getLogger("gpucommons.scheduler.curves")

#: Pieces of one log that one pass takes; the rest waits for the next one.
_PIECES = 4
#: One pass ends after so long, and the next one goes on with the logs that it did not come to.
PASS_S = 1.0
#: A log that had nothing new is looked at so much later, again and again up to the longest.
_PATIENCE_MS, _LONGEST_MS = 500, 2_000
#: Of jobs that ended between two passes, as many are read.
_MOST_ENDED = 200
#: Who asked for a job that is over asks again sooner than this, or does not want to know any more.
_ASKED_MS = 120_000
#: An end is committed a moment after the time that it bears.
_MARGIN_MS = 10_000
#: Ends before the first pass: the first cycles of a busy machine may long be over by then, and whoever
#: led before may have died without a look at them.
_BEFORE_MS = 600_000


#: Beside the script's own word nothing is read; beside these the log tells points, but not how far it is.
_OWN = frozenset({REPORTED})
_BETTER = frozenset({REPORTED, Source.TRAINER.value, Source.TENSORBOARD.value})


class ReadsLogs(Protocol):
    """Where workers' output is read."""

    def read(self, workload: Workload, attempt: Attempt, *, rank: int, offset: int) -> LogChunk:
        """Whole lines from an offset on."""
        ...


class TakesCurves(Protocol):
    """The loop, as far as it is needed here."""

    @property
    def cluster(self) -> Cluster:
        """What the last cycle committed."""
        ...

    def observe(self, observation: Observation) -> None:
        """Something happened."""
        ...

    def keep_points(self, workload_id: WorkloadId, points: Sequence[LogPoint]) -> None:
        """Points of a job's curve were read."""
        ...

    def keeps_points(self, workload_id: WorkloadId) -> bool:
        """Some of them are not in the store yet."""
        ...


@dataclass(kw_only=True)
class _Followed:
    """One attempt's log, as far as it was read."""

    curve: LogCurve
    offset: int = 0
    wait_ms: int = 0
    due_ms: int = 0
    over: bool = False
    shown: Point | None = None


@dataclass(kw_only=True)
class LogFollowing:
    """One pass after the other, from one thread."""

    loop: TakesCurves
    logs: ReadsLogs
    store: Store
    now_ms: Callable[[], Millis]
    steady_s: Callable[[], float]
    _followed: dict[AttemptId, _Followed] = field(default_factory=dict)
    #: Attempts that ended before this have been read, or were before our time.
    _since_ms: int | None = None
    #: What was committed when the store was asked last for jobs that are over.
    _known: Cluster | None = None
    _ended: tuple[Workload, ...] = ()
    #: Jobs that are over, with when it was asked for them last, until somebody was told that nothing more comes.
    _asked: dict[WorkloadId, tuple[Workload, Millis]] = field(default_factory=dict)

    def step(self) -> None:
        """Read what was written since the last pass."""
        now_ms, until_s = self.now_ms(), self.steady_s() + PASS_S
        since_ms = now_ms - _BEFORE_MS if self._since_ms is None else self._since_ms - _MARGIN_MS
        seen: set[AttemptId] = set()
        late = False
        due = sorted(self._attempts(since_ms), key=lambda pair: self._due_ms(pair[1]))
        for workload, attempt in due:
            seen.add(attempt.attempt_id)
            late = late or self.steady_s() > until_s
            if not late:
                self._look(workload, attempt, now_ms)
        self._followed = {
            known: one for known, one in self._followed.items() if known in seen or not one.over
        }
        for known, (_, asked_ms) in self._asked.copy().items():
            if asked_ms + _ASKED_MS < now_ms:
                self._asked.pop(known, None)
        if not late:
            self._since_ms = now_ms

    def pause(self) -> None:
        """Another replica does it."""
        self._followed.clear()
        self._asked.clear()
        self._since_ms, self._known, self._ended = None, None, ()

    def unread(self, job: Workload) -> bool:
        """A job that is over has told more than the store knows, or may have; the next pass reads it."""
        if not job.attempts:
            return False
        known = self._followed.get(job.attempts[-1].attempt_id)
        if known is None or not known.over or self.loop.keeps_points(job.workload_id):
            # All others' turn comes when these are read: what is dropped half-way is read again.
            if self._has_place(job):
                self._asked[job.workload_id] = (job, self.now_ms())
            return True
        self._asked.pop(job.workload_id, None)
        return False

    def _has_place(self, job: Workload) -> bool:
        """One user's many jobs keep nobody waiting: where all places are taken, who has fewer gets the one
        that who has most was given last.
        """
        asked = self._asked.copy()
        if job.workload_id in asked or len(asked) < _MOST_ENDED:
            return True
        held = Counter(one.spec.owner for one, _ in asked.values())
        (most, count), *_ = held.most_common(1)
        if held[job.spec.owner] + 1 >= count:
            return False
        theirs = [known for known, (one, _) in asked.items() if one.spec.owner == most]
        self._asked.pop(theirs[-1], None)
        return True

    def _due_ms(self, attempt: Attempt) -> int:
        known = self._followed.get(attempt.attempt_id)
        return 0 if known is None else known.due_ms

    def _attempts(self, since_ms: int) -> Iterator[tuple[Workload, Attempt]]:
        """Those that run, and those that ended since the last pass."""
        cluster = self.loop.cluster
        if cluster is not self._known:
            where = WorkloadFilter(live=False, ended_after_ms=Millis(since_ms))
            self._ended = self.store.workloads(where, limit=_MOST_ENDED).items
            self._known = cluster
        asked = {known: job for known, (job, _) in self._asked.copy().items()}
        jobs = (*asked.values(), *self._ended, *cluster.workloads.values())
        for workload in {one.workload_id: one for one in jobs}.values():
            if is_lease(workload):
                continue
            for attempt in workload.attempts:
                is_followed = attempt.attempt_id in self._followed or workload.workload_id in asked
                if attempt.ended_ms is not None and attempt.ended_ms < since_ms and not is_followed:
                    continue
                if attempt.started_ms is not None or attempt.ended_ms is not None:
                    yield workload, attempt

    # --- one log -------------------------------------------------------------------------------

    def _look(self, workload: Workload, attempt: Attempt, now_ms: Millis) -> None:
        known = self._followed.get(attempt.attempt_id)
        if known is None:
            known = _Followed(curve=LogCurve(first_line=self._last_line(workload, attempt)))
            self._followed[attempt.attempt_id] = known
        if known.over or (known.due_ms > now_ms and attempt.ended_ms is None):
            return
        if _is_told(workload, attempt, _OWN):
            known.over = attempt.ended_ms is not None
            return
        points, over = self._read(workload, attempt, known)
        known.wait_ms = 0 if points else min(_LONGEST_MS, known.wait_ms + _PATIENCE_MS)
        known.due_ms = now_ms + known.wait_ms
        if points:
            stored = [stored_point(attempt, point, Source.LOG, now_ms) for point in points]
            self.loop.keep_points(workload.workload_id, stored)
            self._tell(workload, attempt, known)
        # Said after its points are handed on: whoever waits for that finds them.
        known.over = over

    def _read(
        self, workload: Workload, attempt: Attempt, known: _Followed
    ) -> tuple[list[Point], bool]:
        """What its next pieces tell, and whether nothing more comes."""
        found: list[Point] = []
        for _ in range(_PIECES):
            try:
                chunk = self.logs.read(workload, attempt, rank=0, offset=known.offset)
            except SchedulerError as error:
                # Its node is gone, or its log was dropped: nothing more will come.
                log.debug("the log of %s is not read: %s", workload.spec.name, error)
                return found, attempt.ended_ms is not None
            known.offset = chunk.next_offset
            found += known.curve.read(chunk.lines)
            if chunk.end or not chunk.lines:
                return found, chunk.end
        return found, False

    def _last_line(self, workload: Workload, attempt: Attempt) -> int:
        """Where an earlier attempt's counted lines ended."""
        if attempt.number <= 1:
            return 0
        points = self.store.points(workload.workload_id, source=Source.LOG)
        before = (one for one in points if one.attempt_number < attempt.number)
        return max((one.step for one in before if one.unit == Unit.LINE), default=0)

    def _tell(self, workload: Workload, attempt: Attempt, known: _Followed) -> None:
        newest = known.curve.newest
        if newest is None or newest == known.shown or attempt.ended_ms is not None:
            return
        known.shown = newest
        if newest.counter.unit is not Unit.LINE and not _is_told(workload, attempt, _BETTER):
            progress = progress_of(newest, Source.LOG, self.now_ms())
            self.loop.observe(ProgressReported(attempt_id=attempt.attempt_id, progress=progress))


def _is_told(workload: Workload, attempt: Attempt, sources: frozenset[str]) -> bool:
    """This attempt's progress is known from one of these."""
    told = workload.progress
    if told is None or told.source not in sources or not told.metrics:
        return False
    return told.at_ms >= (attempt.started_ms or attempt.reserved_ms)
