"""Submits the steps of pipelines whose turn has come, and records how far each is.

A job is submitted under a key made of its pipeline, step and try, and recorded afterwards: a scheduler
that is killed in between submits the same job again, which is then the one that is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR
from gpucommons.scheduler.core.model.intents import Cancel
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Millis, State, Workload, WorkloadId
from gpucommons.scheduler.core.queue import back_off
from gpucommons.scheduler.errors import (
    LeaderLost,
    OwnerUnknown,
    SchedulerError,
    TooManyRequests,
    TooManyWaiting,
    Unavailable,
    UnknownWorkload,
)
from gpucommons.scheduler.pipelines.next_steps import (
    Child,
    Decision,
    child_of,
    children_of,
    decide,
    try_of,
)
from gpucommons.scheduler.pipelines.pipeline import (
    Piped,
    Standing,
    Step,
    StepName,
    StepStanding,
    StepState,
)
from gpucommons.scheduler.service.lookup import also_ended, workload_of
from gpucommons.scheduler.service.pipelines.copies import Copies
from gpucommons.scheduler.service.pipelines.pipelines import note_over
from gpucommons.scheduler.service.pipelines.steps import job_of, submit_step
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import Epoch

log = logging.getLogger(__name__)

#: Between two looks at one that is not over.
_AGAIN_MS = 1_000
#: Where a step could not be submitted now: twice as long each time.
_LATER_MS = 5_000
_LATEST_MS = 120_000
#: JupyterHub may know its owner again in a moment; whoever it does not know for ten minutes has left.
_OWNER_TRIES = 8
#: After what nobody foresaw.
_MUCH_LATER_MS = 60_000


class Pipelines:
    """One pass after the other, from one thread of the leader."""

    def __init__(
        self, service: Service, *, epoch: Callable[[], Epoch], copies: Copies | None = None
    ) -> None:
        self._service = service
        self._epoch = epoch
        self._copies = copies or Copies()

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
            standing = self._with(standing, name, self._submitted(piped, standing, name, now_ms))
        if standing.ended_ms is not None and piped.standing.ended_ms is None:
            note_over(self._service, OPERATOR, piped.pipeline, standing)
        next_ms = _next_ms(standing, decision.submits, now_ms)
        self._service.store.pipelines.stand(epoch, piped, standing, next_ms=next_ms)

    def _decided(self, piped: Piped, now_ms: Millis) -> Decision:
        """What is next, also where a job was stored by a scheduler that died before it was recorded."""
        children = self._recorded(piped)
        decision = decide(piped, children, now_ms)
        # Of what has never had its turn there is no job; once that is written, it is known.
        before = piped.standing.steps
        given_up = (
            name
            for name, each in decision.standing.steps.items()
            if each.job is None and each.state is StepState.CANCELLED and each != before.get(name)
        )
        found = self._stored(piped, {*decision.submits, *given_up})
        return decide(piped, children | found, now_ms) if found else decision

    def _recorded(self, piped: Piped) -> dict[StepName, Child]:
        jobs = also_ended(self._service, (each.job for each in piped.standing.steps.values()))
        return children_of(piped, jobs)

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
                found[name] = child_of(job)
        return found

    def _submitted(
        self, piped: Piped, standing: Standing, name: StepName, now_ms: Millis
    ) -> StepStanding:
        step = next(one for one in piped.pipeline.steps if one.name == name)
        before = standing.steps[name]
        try:
            made = submit_step(
                self._service, piped.pipeline, step, _jobs(standing, step), self._copies
            )
        except (Unavailable, TooManyRequests, TooManyWaiting, OwnerUnknown) as error:
            tries = before.tries + 1
            if isinstance(error, OwnerUnknown) and tries > _OWNER_TRIES:
                return replace(before, state=StepState.REFUSED, text=str(error))
            log.info("%s of pipeline %s waits: %s", name, piped.pipeline.pipeline_id, error)
            later_ms = back_off.doubling(_LATER_MS, tries, longest_ms=_LATEST_MS)
            again_ms = Millis(now_ms + later_ms)
            return replace(before, text=str(error), tries=tries, again_ms=again_ms)
        except SchedulerError as error:
            return replace(before, state=StepState.REFUSED, text=str(error))
        if made is None:
            return replace(before, text="What it reads is being copied.")
        job, before = WorkloadId(made.id), StepStanding(number=before.number)
        return replace(before, state=StepState.SUBMITTED, job=job, job_name=made.name)

    @staticmethod
    def _with(standing: Standing, name: StepName, stands: StepStanding) -> Standing:
        return replace(standing, steps={**standing.steps, name: stands})


def _next_ms(standing: Standing, tried: Iterable[StepName], now_ms: Millis) -> Millis | None:
    """When it is looked at again; its owner's orders bring that nearer."""
    if standing.ended_ms is not None:
        return None
    steps = standing.steps
    held = [one.again_ms for one in steps.values() if one.state is StepState.WAITING and one.tries]
    moves = any(one.state is StepState.SUBMITTED for one in steps.values()) or any(
        steps[name].state is StepState.WAITING and not steps[name].tries for name in tried
    )
    return Millis(max(now_ms + _AGAIN_MS, 0 if moves else min(held, default=0)))


def _jobs(standing: Standing, step: Step) -> dict[StepName, WorkloadId]:
    """The jobs of the steps that one reads; they have succeeded."""
    found = {each.step: standing.steps[each.step].job for each in step.inputs}
    return {name: job for name, job in found.items() if job is not None}
