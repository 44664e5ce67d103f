"""Starts the runs of schedules that are due, and records what became of each time.

A run is submitted under a key made of its schedule and its time, and recorded afterwards: a scheduler
that is killed in between submits the same job again, which is then the one that is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import Cancel
from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.errors import SchedulerError, Unavailable, UnknownWorkload
from gpucommons.scheduler.schedules.deciding import (
    Start,
    decide,
    next_look_ms,
    record,
    runs_that_may_live,
    started,
)
from gpucommons.scheduler.schedules.schedule import Outcome, Scheduled, Standing
from gpucommons.scheduler.service.jobs.schedules import run_of, submit_run
from gpucommons.scheduler.service.lookup import workload_of
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import Epoch
from gpucommons.scheduler.upkeep.upkeep import OPERATOR

log = logging.getLogger(__name__)


class Schedules:
    """One pass after the other, from one thread of the leader."""

    def __init__(self, service: Service, *, epoch: Callable[[], Epoch]) -> None:
        self._service = service
        self._epoch = epoch

    def step(self) -> None:
        """Start what is due; what goes wrong with one schedule keeps no other from its time."""
        epoch, now_ms = self._epoch(), self._service.now_ms()
        for scheduled in self._service.store.schedules.due(now_ms):
            self._look(epoch, scheduled, now_ms)

    def _look(self, epoch: Epoch, scheduled: Scheduled, now_ms: Millis) -> None:
        stands = self._with_what_was_begun(scheduled, now_ms)
        decision = decide(stands, self._live(stands), now_ms)
        if decision.start is None:
            self._stand(epoch, scheduled, decision.standing)
            return
        begun = replace(decision.standing, starting_ms=decision.start.due_ms)
        self._stand(epoch, scheduled, begun)
        after = self._started(scheduled, begun, decision.start, now_ms)
        self._stand(epoch, replace(scheduled, standing=begun), after)

    def _stand(self, epoch: Epoch, scheduled: Scheduled, standing: Standing) -> None:
        if standing == scheduled.standing:
            return  # it waits for the same thing as before
        next_ms = next_look_ms(replace(scheduled, standing=standing))
        self._service.store.schedules.stand(epoch, scheduled, standing, next_ms=next_ms)

    def _with_what_was_begun(self, scheduled: Scheduled, now_ms: Millis) -> Scheduled:
        """A start that was begun before, perhaps by a scheduler that died: its job is there, or it is due."""
        standing, due_ms = scheduled.standing, scheduled.standing.starting_ms
        if due_ms is None:
            return scheduled
        job = run_of(self._service, scheduled.schedule, due_ms)
        if job is None:
            return replace(scheduled, standing=replace(standing, starting_ms=None))
        name, job_id = job.spec.name, job.workload_id
        return replace(scheduled, standing=started(standing, due_ms, now_ms, job=job_id, name=name))

    def _live(self, scheduled: Scheduled) -> frozenset[WorkloadId]:
        """Its runs that are not over."""
        wanted = runs_that_may_live(scheduled.schedule, scheduled.standing)
        return frozenset(one for one in wanted if self._is_live(one))

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
            for job in start.replaces:
                self._service.ask(OPERATOR, Cancel(workload_id=job))
            made = submit_run(self._service, schedule, start.due_ms)
        except Unavailable as error:
            return replace(standing, hindrance=str(error))
        except SchedulerError as error:
            log.info("the schedule %s of %s was refused: %s", schedule.name, schedule.owner, error)
            return record(standing, Outcome.REFUSED, start.due_ms, now_ms, str(error))
        return started(standing, start.due_ms, now_ms, job=WorkloadId(made.id), name=made.name)
