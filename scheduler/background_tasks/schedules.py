"""Starts the runs of schedules that are due, and records what became of each time.

A run is submitted under a key made of its schedule and its time, and recorded afterwards: a scheduler
that is killed in between submits the same job again, which is then the one that is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR
from gpucommons.scheduler.core.model.intents import Cancel
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.errors import (
    LeaderLost,
    Misconfigured,
    SchedulerError,
    Unavailable,
    UnknownWorkload,
)
from gpucommons.scheduler.models.jobs.jobs import DATA_VERSION_LABEL
from gpucommons.scheduler.schedules.due_runs import (
    Start,
    decide,
    hindered,
    next_look_ms,
    record,
    started,
    tried,
)
from gpucommons.scheduler.schedules.schedule import Concurrency, Outcome, Scheduled, Standing
from gpucommons.scheduler.service.lookup import workload_of
from gpucommons.scheduler.service.schedules.promotions import judged
from gpucommons.scheduler.service.schedules.runs import run_of, submit_run
from gpucommons.scheduler.service.schedules.trigger_looks import Ends, sensed
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import Epoch

log = logging.getLogger(__name__)

#: A run that is hindered is tried again so much later.
_AGAIN_MS = 5_000
_UNFORESEEN = "The scheduler failed at this run; its log says why"


class Schedules:
    """One pass after the other, from one thread of the leader."""

    def __init__(
        self,
        service: Service,
        *,
        epoch: Callable[[], Epoch],
        unread: Callable[[Workload], bool] = lambda _job: False,
    ) -> None:
        self._service = service
        self._epoch = epoch
        #: A job that is over may have told more than is known yet.
        self._unread = unread

    def step(self) -> None:
        """Start what is due; what goes wrong with one schedule keeps no other from its time."""
        epoch, now_ms = self._epoch(), self._service.now_ms()
        ends = Ends(self._service)
        for scheduled in self._service.store.schedules.due(now_ms):
            try:
                self._look(epoch, scheduled, now_ms, ends)
            except (LeaderLost, Unavailable):
                raise  # no other would fare better
            except Exception:
                log.exception("a run of schedule %s failed", scheduled.schedule.schedule_id)
                self._give_up(epoch, scheduled, now_ms)

    def _look(self, epoch: Epoch, scheduled: Scheduled, now_ms: Millis, ends: Ends) -> None:
        stands = self._with_what_was_begun(scheduled, now_ms)
        heard = self._sensed(stands, now_ms, ends)
        stands = stands if heard is None else replace(stands, standing=heard)
        decision = decide(stands, self._live(stands), now_ms)
        start = decision.start
        if start is None:
            after = decision.standing
            # It is looked at again a little later, as what is hindered.
            after = replace(after, hindrance=_UNFORESEEN) if heard is None else after
            self._stand(epoch, scheduled, after)
            return
        begun = replace(decision.standing, starting_ms=start.due_ms, starting_of=start.of)
        if self._stand(epoch, scheduled, begun):
            after = self._started(scheduled, begun, start, now_ms)
            self._stand(epoch, replace(scheduled, standing=begun), after)

    def _sensed(self, scheduled: Scheduled, now_ms: Millis, ends: Ends) -> Standing | None:
        """After what was heard of triggers and runs; None: what failed there keeps no time of the calendar."""
        try:
            standing = sensed(ends, scheduled, now_ms)
            stands = replace(scheduled, standing=standing)
            return judged(self._service, OPERATOR, stands, now_ms, unread=self._unread)
        except (LeaderLost, Unavailable):
            raise
        except Exception:
            log.exception("triggers of schedule %s failed", scheduled.schedule.schedule_id)
            return None

    def _stand(self, epoch: Epoch, scheduled: Scheduled, standing: Standing) -> bool:
        """Write where it stands; whether its owner has not changed it since it was read."""
        next_ms = next_look_ms(replace(scheduled, standing=standing))
        if standing.hindrance and next_ms is not None:
            next_ms = max(next_ms, Millis(self._service.now_ms() + _AGAIN_MS))
        return self._service.store.schedules.stand(epoch, scheduled, standing, next_ms=next_ms)

    def _give_up(self, epoch: Epoch, scheduled: Scheduled, now_ms: Millis) -> None:
        """What nobody foresaw is a refusal of this time: tried again and again, it would never be over."""
        due = tried(scheduled, now_ms)
        standing = record(scheduled.standing, Outcome.REFUSED, due, now_ms, _UNFORESEEN)
        try:
            self._stand(epoch, scheduled, standing)
        except Misconfigured:
            # Its time zone, say, is none on this machine any more: nothing can come due.
            self._service.store.schedules.stand(epoch, scheduled, standing, next_ms=None)

    def _with_what_was_begun(self, scheduled: Scheduled, now_ms: Millis) -> Scheduled:
        """A start that was begun before, perhaps by a scheduler that died: its job is there, or it is due."""
        standing, due_ms = scheduled.standing, scheduled.standing.starting_ms
        if due_ms is None:
            return scheduled
        due = Start(due_ms=due_ms, of=standing.starting_of)
        job = run_of(self._service, scheduled.schedule, due)
        if job is None:
            begun = replace(standing, starting_ms=None, starting_of="")
            return replace(scheduled, standing=begun)
        if scheduled.schedule.concurrency is Concurrency.REPLACE:
            self._cancel(one for one in standing.live if one != job.workload_id)
        name, job_id = job.spec.name, job.workload_id
        due = replace(due, version=job.spec.labels.get(DATA_VERSION_LABEL, ""))
        return replace(scheduled, standing=started(standing, due, now_ms, job=job_id, name=name))

    def _live(self, scheduled: Scheduled) -> frozenset[WorkloadId]:
        """Its runs that are not over."""
        return frozenset(one for one in scheduled.standing.live if self._is_live(one))

    def _is_live(self, job: WorkloadId) -> bool:
        try:
            return not is_final(workload_of(self._service, job))
        except UnknownWorkload:
            return False  # it ended so long ago that it is forgotten

    def _started(
        self, scheduled: Scheduled, standing: Standing, start: Start, now_ms: Millis
    ) -> Standing:
        schedule = scheduled.schedule
        try:
            made = submit_run(self._service, schedule, start)
        except Unavailable as error:
            return hindered(standing, str(error), now_ms)
        except SchedulerError as error:
            log.info("the schedule %s of %s was refused: %s", schedule.name, schedule.owner, error)
            return record(standing, Outcome.REFUSED, start, now_ms, str(error))
        # Only now: what could not be replaced goes on.
        self._cancel(start.replaces)
        return started(standing, start, now_ms, job=WorkloadId(made.id), name=made.name)

    def _cancel(self, jobs: Iterable[WorkloadId]) -> None:
        for job in jobs:
            self._service.ask(OPERATOR, Cancel(workload_id=job))
