"""Carries out what is decided of sweeps: draws, submits, pauses, wakes and ends trials.

What is decided is stored first, and then asked for: a scheduler that is killed in between asks again,
under keys made of sweep and number, for what is there already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import Action, Cancel, Pause, Resume
from gpucommons.scheduler.core.model.types import State, Workload, WorkloadId
from gpucommons.scheduler.errors import (
    LeaderLost,
    OwnerUnknown,
    SchedulerError,
    TooManyWaiting,
    Unavailable,
    UnknownWorkload,
)
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.service.jobs.sweeps import job_of_trial, submit_trial
from gpucommons.scheduler.service.lookup import workload_of
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.jobs import held_milli_gpu_s
from gpucommons.scheduler.store.base import Epoch
from gpucommons.scheduler.sweeps.deciding import Decision, decide
from gpucommons.scheduler.sweeps.reading import over, told
from gpucommons.scheduler.sweeps.sweep import Kept, Standing, Sweep, Trial, TrialState
from gpucommons.scheduler.upkeep.curves_read import CurveReader
from gpucommons.scheduler.upkeep.sampling import Sampler
from gpucommons.scheduler.upkeep.upkeep import OPERATOR

log = logging.getLogger(__name__)

#: GPU time alone is written down so often: one GPU-minute.
_WRITE_EVERY_MILLI_GPU_S = 60_000
_UNFORESEEN = "The scheduler failed at this sweep; its log says why"


class Sweeps:
    """One pass after the other, from one thread of the leader."""

    def __init__(self, service: Service, *, epoch: Callable[[], Epoch]) -> None:
        self._service = service
        self._epoch = epoch
        self._sampler = Sampler()
        self._reader = CurveReader(service.store)
        #: The leader alone writes trials: what was read or written under its epoch is true.
        self._known: dict[ParentId, dict[int, Trial]] = {}
        self._stored: dict[ParentId, dict[int, Trial]] = {}
        self._known_under: Epoch | None = None

    def step(self) -> None:
        """See to each that goes on; what goes wrong with one keeps no other from its turn."""
        epoch = self._epoch()
        if epoch != self._known_under:
            self._known, self._stored, self._known_under = {}, {}, epoch
        live = self._service.store.sweeps.live()
        self._sampler.forget(one.sweep.sweep_id for one in live)
        for kept in live:
            try:
                self._look(epoch, kept)
            except (LeaderLost, Unavailable):
                raise  # no other would fare better
            except SchedulerError as error:
                # Nothing here can draw, say.
                self._write(epoch, replace(kept, standing=Standing(hindrance=str(error))))
            except Exception:
                log.exception("a look at sweep %s failed", kept.sweep.sweep_id)
                self._write(epoch, replace(kept, standing=Standing(hindrance=_UNFORESEEN)))

    def _look(self, epoch: Epoch, kept: Kept) -> None:
        sweep, now_ms = kept.sweep, self._service.now_ms()
        trials = self._trials(sweep)
        states = self._seen(sweep, trials)
        decision = decide(sweep, _in_order(trials), states, now_ms)
        if decision.ended_text:
            # Asked for before it is stored: what is over is not looked at again.
            self._end(sweep, trials, decision)
            standing = Standing(ended_ms=now_ms, ended_text=decision.ended_text)
            self._write(epoch, replace(kept, standing=standing))
            return
        self._note(sweep, trials, decision)
        # Stored before anything is asked for.
        self._write(epoch, kept)
        for number in decision.pauses:
            self._ask(trials[number], lambda job: Pause(workload_id=job))
        for number in decision.resumes:
            self._ask(trials[number], lambda job: Resume(workload_id=job))
        hindrance = self._submit(sweep, trials)
        self._write(epoch, replace(kept, standing=Standing(hindrance=hindrance)))

    def _trials(self, sweep: Sweep) -> dict[int, Trial]:
        if sweep.sweep_id not in self._known:
            found = self._service.store.sweeps.trials(sweep.sweep_id)
            self._known[sweep.sweep_id] = {one.number: one for one in found}
            self._stored[sweep.sweep_id] = dict(self._known[sweep.sweep_id])
        return self._known[sweep.sweep_id]

    def _seen(self, sweep: Sweep, trials: dict[int, Trial]) -> dict[int, State]:
        """Look at the jobs of those that are not over; the states of those that go on."""
        states: dict[int, State] = {}
        for number, trial in trials.items():
            if trial.state is not TrialState.LIVE or trial.job is None:
                continue
            job = self._job(trial.job)
            if job is None:
                trials[number] = replace(trial, state=TrialState.ENDED, text="Its job is gone.")
                continue
            trials[number] = self._with_job(sweep, trial, job)
            if not is_final(job):
                states[number] = job.state
        return states

    def _job(self, job_id: WorkloadId) -> Workload | None:
        found = self._service.loop.cluster.workloads.get(job_id)
        try:
            return workload_of(self._service, job_id) if found is None else found
        except UnknownWorkload:
            return None

    def _with_job(self, sweep: Sweep, trial: Trial, job: Workload) -> Trial:
        if sweep.metric:
            trial = told(sweep, trial, self._reader.new_points(job))
        held = held_milli_gpu_s(job, self._service.now_ms())
        return over(sweep, replace(trial, milli_gpu_s=held), job)

    def _note(self, sweep: Sweep, trials: dict[int, Trial], decision: Decision) -> None:
        for number in decision.promotes:
            trials[number] = replace(trials[number], promoted=trials[number].promoted + 1)
        if decision.draws > 0:
            for one in self._sampler.draw(sweep, _in_order(trials), decision.draws):
                trials[one.number] = one

    def _end(self, sweep: Sweep, trials: dict[int, Trial], decision: Decision) -> None:
        """Cancel what is left; an order that was given before changes nothing."""
        text = f"{sweep.kind.value} {sweep.name}: {decision.ended_text}"
        for number in decision.cancels:
            trial = trials[number]
            if trial.job is None:
                # A scheduler that died may have submitted it and not written that down.
                job = job_of_trial(self._service, sweep, trial)
                trial = replace(trial, job=None if job is None else job.workload_id)
            self._ask(trial, lambda job: Cancel(workload_id=job, text=text))
            trials[number] = replace(
                trial,
                state=TrialState.ENDED,
                text=decision.ended_text,
                ended_ms=self._service.now_ms(),
            )

    def _ask(self, trial: Trial, action: Callable[[WorkloadId], Action]) -> None:
        if trial.job is not None:
            self._service.ask(OPERATOR, action(trial.job))

    def _submit(self, sweep: Sweep, trials: dict[int, Trial]) -> str:
        """Submit the jobs of those that are drawn; why not, where that has to wait."""
        for number, trial in list(trials.items()):
            if trial.state is not TrialState.DRAWN:
                continue
            try:
                job = submit_trial(self._service, sweep, trial)
            except (Unavailable, TooManyWaiting, OwnerUnknown) as error:
                # The hub may know its owner again in a moment: it waits for its turn, and says so.
                return str(error)
            except SchedulerError as error:
                now_ms = self._service.now_ms()
                trials[number] = replace(
                    trial, state=TrialState.FAILED, text=str(error), ended_ms=now_ms
                )
                continue
            trials[number] = replace(
                trial, state=TrialState.LIVE, job=WorkloadId(job.id), job_name=job.name
            )
        return ""

    def _write(self, epoch: Epoch, kept: Kept) -> None:
        """What has changed, if anything has."""
        sweep_id = kept.sweep.sweep_id
        trials, stored = self._known.get(sweep_id, {}), self._stored.get(sweep_id, {})
        changed = [one for number, one in trials.items() if _is_news(stored.get(number), one)]
        known = self._service.store.sweeps.one(sweep_id)
        if known is None or (not changed and known.standing == kept.standing):
            return
        self._service.store.sweeps.stand(epoch, kept, changed)
        stored.update({one.number: one for one in changed})
        if kept.standing.ended_ms is not None:
            self._known.pop(sweep_id, None)
            self._stored.pop(sweep_id, None)


def _in_order(trials: dict[int, Trial]) -> Sequence[Trial]:
    return [trials[number] for number in sorted(trials)]


def _is_news(before: Trial | None, now: Trial) -> bool:
    if before is None:
        return True
    if now.milli_gpu_s - before.milli_gpu_s >= _WRITE_EVERY_MILLI_GPU_S:
        return True
    return replace(now, milli_gpu_s=before.milli_gpu_s) != before
