"""Carries out what is decided of sweeps: draws, submits, pauses, wakes and ends trials.

What is decided is stored first, and then asked for: a scheduler that is killed in between asks again,
under keys made of sweep and number, for what is there already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpucommons.scheduler.core.model.intents import Action, Cancel, Pause, Resume
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.core.queue import back_off
from gpucommons.scheduler.errors import (
    LeaderLost,
    OwnerUnknown,
    SchedulerError,
    TooManyWaiting,
    Unavailable,
    UnknownWorkload,
)
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.service.jobs.sweeps import job_of_trial, note_over, submit_trial
from gpucommons.scheduler.service.lookup import workload_of
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.jobs import held_milli_gpu_s
from gpucommons.scheduler.store.base import Epoch
from gpucommons.scheduler.sweeps.deciding import Decision, decide
from gpucommons.scheduler.sweeps.reading import over, told
from gpucommons.scheduler.sweeps.sweep import (
    OVER,
    Kept,
    Standing,
    Sweep,
    Trial,
    TrialState,
)
from gpucommons.scheduler.upkeep.curves_read import CurveReader
from gpucommons.scheduler.upkeep.sampling import Sampler
from gpucommons.scheduler.upkeep.upkeep import OPERATOR

log = logging.getLogger(__name__)

#: GPU time alone is written down so often: one GPU-minute.
_WRITE_EVERY_MILLI_GPU_S = 60_000
#: After looks that failed.
_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 1_000, 300_000
#: Whoever is not known to JupyterHub for so long has left.
_OWNER_PATIENCE_MS = 600_000
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
        #: Sweeps at which looks failed: when the next one is due, and how many failed in a row.
        self._later: dict[ParentId, tuple[Millis, int]] = {}
        #: Sweeps whose owner JupyterHub does not know: since when.
        self._unknown: dict[ParentId, Millis] = {}

    def step(self) -> None:
        """See to each that goes on; what goes wrong with one keeps no other from its turn."""
        epoch = self._epoch()
        if epoch != self._known_under:
            self._known, self._stored, self._known_under = {}, {}, epoch
        live = self._service.store.sweeps.live()
        now_ms = self._service.now_ms()
        self._sampler.forget(one.sweep.sweep_id for one in live)
        ids = {one.sweep.sweep_id for one in live}
        self._later = {one: later for one, later in self._later.items() if one in ids}
        self._unknown = {one: since for one, since in self._unknown.items() if one in ids}
        for kept in live:
            # What its owner asks for is done at once.
            if kept.sweep.stopped or self._is_due(kept.sweep.sweep_id, now_ms):
                self._try(epoch, kept, now_ms)

    def _is_due(self, sweep_id: ParentId, now_ms: Millis) -> bool:
        return sweep_id not in self._later or self._later[sweep_id][0] <= now_ms

    def _try(self, epoch: Epoch, kept: Kept, now_ms: Millis) -> None:
        """One look; where it fails the next one waits, each time for longer."""
        sweep_id = kept.sweep.sweep_id
        try:
            self._look(epoch, kept)
        except (LeaderLost, Unavailable):
            raise  # no other would fare better
        except Exception as error:
            tries = self._later.get(sweep_id, (now_ms, 0))[1] + 1
            wait_ms = back_off.doubling(_FIRST_WAIT_MS, tries, longest_ms=_LONGEST_WAIT_MS)
            self._later[sweep_id] = (Millis(now_ms + wait_ms), tries)
            why = str(error)  # nothing here can draw, say
            if not isinstance(error, SchedulerError):
                why = _UNFORESEEN
                log.exception("a look at sweep %s failed; next in %s s", sweep_id, wait_ms // 1000)
            self._write(epoch, kept, Standing(hindrance=why))
        else:
            self._later.pop(sweep_id, None)

    def _look(self, epoch: Epoch, kept: Kept) -> None:
        sweep, now_ms = kept.sweep, self._service.now_ms()
        trials = self._trials(sweep)
        jobs = self._seen(sweep, trials)
        decision = decide(
            sweep,
            _in_order(trials),
            {number: job.state for number, job in jobs.items()},
            now_ms,
            by_people=frozenset(n for n, job in jobs.items() if not job.paused_by_parent),
        )
        if decision.ended_text:
            self._finish(epoch, kept, trials, decision)
            return
        self._note(sweep, trials, decision)
        # Stored before anything is asked for.
        self._write(epoch, kept, kept.standing)
        for number in decision.pauses:
            self._ask(trials[number], lambda job: Pause(workload_id=job, of_parent=True))
        for number in decision.resumes:
            self._ask(trials[number], lambda job: Resume(workload_id=job, of_parent=True))
        try:
            hindrance = self._submit(sweep, trials)
        except OwnerUnknown as error:
            hindrance = str(error)
            if self._has_left(sweep, now_ms):
                left = tuple(n for n, trial in trials.items() if trial.state not in OVER)
                gone = Decision(cancels=left, ended_text=hindrance)
                self._finish(epoch, kept, trials, gone)
                return
        else:
            self._unknown.pop(sweep.sweep_id, None)
        self._write(epoch, kept, Standing(hindrance=hindrance))

    def _has_left(self, sweep: Sweep, now_ms: Millis) -> bool:
        """JupyterHub may know its owner again in a moment; who stays away is waited for no longer."""
        since_ms = self._unknown.setdefault(sweep.sweep_id, now_ms)
        return now_ms - since_ms >= _OWNER_PATIENCE_MS

    def _finish(
        self, epoch: Epoch, kept: Kept, trials: dict[int, Trial], decision: Decision
    ) -> None:
        """Asked for before it is stored: what is over is not looked at again."""
        sweep, why = kept.sweep, decision.ended_text
        self._end(sweep, trials, decision)
        note_over(self._service, OPERATOR, sweep, _in_order(trials), why)
        standing = Standing(ended_ms=self._service.now_ms(), ended_text=why)
        self._write(epoch, kept, standing)

    def _trials(self, sweep: Sweep) -> dict[int, Trial]:
        if sweep.sweep_id not in self._known:
            found = self._service.store.sweeps.trials(sweep.sweep_id)
            self._known[sweep.sweep_id] = {one.number: one for one in found}
            self._stored[sweep.sweep_id] = dict(self._known[sweep.sweep_id])
        return self._known[sweep.sweep_id]

    def _seen(self, sweep: Sweep, trials: dict[int, Trial]) -> dict[int, Workload]:
        """Look at the jobs of those that are not over; those that go on."""
        jobs: dict[int, Workload] = {}
        for number, trial in trials.items():
            if trial.state is not TrialState.LIVE or trial.job is None:
                continue
            job = self._job(trial.job)
            if job is None:
                trials[number] = replace(trial, state=TrialState.ENDED, text="Its job is gone.")
                continue
            trials[number] = self._with_job(sweep, trial, job)
            if not is_final(job):
                jobs[number] = job
        return jobs

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
            except OwnerUnknown:
                raise
            except (Unavailable, TooManyWaiting) as error:
                return str(error)  # it waits for its turn, and says so
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

    def _write(self, epoch: Epoch, kept: Kept, standing: Standing) -> None:
        """What has changed since it was read, if anything has."""
        sweep_id = kept.sweep.sweep_id
        trials, stored = self._known.get(sweep_id, {}), self._stored.get(sweep_id, {})
        changed = [one for number, one in trials.items() if _is_news(stored.get(number), one)]
        is_over = standing.ended_ms is not None
        if not changed and standing == kept.standing and not is_over:
            return
        self._service.store.sweeps.stand(epoch, replace(kept, standing=standing), changed)
        stored.update({one.number: one for one in changed})
        if is_over:
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
