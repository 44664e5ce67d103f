"""Submits the steps of pipelines whose turn has come, and records how far each is.

A job is submitted under a key made of its pipeline, step and try, and recorded afterwards: a scheduler
that is killed in between submits the same job again, which is then the one that is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import Cancel
from gpucommons.scheduler.core.model.types import Millis, State, Workload, WorkloadId
from gpucommons.scheduler.errors import (
    LeaderLost,
    OwnerUnknown,
    SchedulerError,
    TooManyRequests,
    TooManyWaiting,
    Unavailable,
    UnknownWorkload,
)
from gpucommons.scheduler.pipelines.deciding import Child, Decision, decide, try_of
from gpucommons.scheduler.pipelines.pipeline import (
    Piped,
    Standing,
    Step,
    StepName,
    StepStanding,
    StepState,
)
from gpucommons.scheduler.service.lookup import workload_of
from gpucommons.scheduler.service.pipelines.steps import job_of, submit_step
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import Epoch
from gpucommons.scheduler.upkeep.upkeep import OPERATOR

log = logging.getLogger(__name__)

#: Between two looks at one that is not over.
_AGAIN_MS = 1_000
#: Where a step could not be submitted now.
_LATER_MS = 5_000
#: After what nobody foresaw.
_MUCH_LATER_MS = 60_000


class Pipelines:
    """One pass after the other, from one thread of the leader."""

    def __init__(self, service: Service, *, epoch: Callable[[], Epoch]) -> None:
        self._service = service
        self._epoch = epoch

    def step(self) -> None:
        """Look at what is due; what goes wrong with one pipeline keeps no other from its turn."""
        epoch, now_ms = self._epoch(), self._service.now_ms()
        for piped in self._service.store.pipelines.due(now_ms):
            try:
                self._look(epoch, piped, now_ms)
            except (LeaderLost, Unavailable):
                raise  # no other would fare better
            except Exception:
                log.exception("a look at pipeline %s failed", piped.pipeline.pipeline_id)
                later = Millis(now_ms + _MUCH_LATER_MS)
                self._service.store.pipelines.stand(epoch, piped, piped.standing, next_ms=later)

    def _look(self, epoch: Epoch, piped: Piped, now_ms: Millis) -> None:
        decision = self._decided(piped, now_ms)
        for job in (*decision.cancels, *self._left_behind(piped)):
            self._service.ask(OPERATOR, Cancel(workload_id=job))
        standing = decision.standing
        for name in decision.submits:
            standing = self._with(standing, name, self._submitted(piped, standing, name))
        # What a step reads is brought together at each try, so it is not tried each second.
        waits = any(standing.steps[one].state is StepState.WAITING for one in decision.submits)
        again_ms = Millis(now_ms + (_LATER_MS if waits else _AGAIN_MS))
        next_ms = None if standing.ended_ms is not None else again_ms
        self._service.store.pipelines.stand(epoch, piped, standing, next_ms=next_ms)

    def _decided(self, piped: Piped, now_ms: Millis) -> Decision:
        """What is next, also where a job was stored by a scheduler that died before it was recorded."""
        children = self._recorded(piped)
        decision = decide(piped, children, now_ms)
        # Of what has never had its turn there is no job.
        stands = decision.standing.steps
        given_up = (
            name
            for name, each in stands.items()
            if each.job is None and each.state is StepState.CANCELLED
        )
        found = self._stored(piped, {*decision.submits, *given_up})
        return decide(piped, children | found, now_ms) if found else decision

    def _recorded(self, piped: Piped) -> dict[StepName, Child]:
        found = {}
        for name, stands in piped.standing.steps.items():
            if stands.job is not None and stands.number == try_of(piped.pipeline, name):
                job = self._job(stands.job)
                if job is not None:
                    found[name] = _child(job)
        return found

    def _left_behind(self, piped: Piped) -> Iterator[WorkloadId]:
        """Jobs of earlier tries that a look submitted just while their owner began the step anew."""
        for name, stands in piped.standing.steps.items():
            if stands.job is not None and stands.number != try_of(piped.pipeline, name):
                job = self._job(stands.job)
                if job is not None and not (is_final(job) or job.state is State.CANCELLING):
                    yield job.workload_id

    def _job(self, job: WorkloadId) -> Workload | None:
        try:
            return workload_of(self._service, job)
        except UnknownWorkload:
            return None  # it ended so long ago that it is forgotten

    def _stored(self, piped: Piped, names: Iterable[StepName]) -> dict[StepName, Child]:
        found = {}
        for name in names:
            job = job_of(self._service, piped.pipeline, name, try_of(piped.pipeline, name))
            if job is not None:
                found[name] = _child(job)
        return found

    def _submitted(self, piped: Piped, standing: Standing, name: StepName) -> StepStanding:
        step = next(one for one in piped.pipeline.steps if one.name == name)
        before = standing.steps[name]
        try:
            made = submit_step(self._service, piped.pipeline, step, _jobs(standing, step))
        except (Unavailable, TooManyRequests, TooManyWaiting, OwnerUnknown) as error:
            log.info("%s of pipeline %s waits: %s", name, piped.pipeline.pipeline_id, error)
            return replace(before, text=str(error))  # its turn comes again
        except SchedulerError as error:
            return replace(before, state=StepState.REFUSED, text=str(error))
        job = WorkloadId(made.id)
        return replace(before, state=StepState.SUBMITTED, job=job, job_name=made.name)

    @staticmethod
    def _with(standing: Standing, name: StepName, stands: StepStanding) -> Standing:
        return replace(standing, steps={**standing.steps, name: stands})


def _child(job: Workload) -> Child:
    return Child(job=job.workload_id, name=job.spec.name, state=job.state)


def _jobs(standing: Standing, step: Step) -> dict[StepName, WorkloadId]:
    """The jobs of the steps that one reads; they have succeeded."""
    found = {each.step: standing.steps[each.step].job for each in step.inputs}
    return {name: job for name, job in found.items() if job is not None}
