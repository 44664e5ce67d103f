"""Carries out what is decided of sweeps: draws, submits, pauses, wakes and ends trials.

What is decided is stored first, and then asked for: a scheduler that is killed in between asks again,
under keys made of sweep and number, for what is there already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR
from gpucommons.scheduler.background_tasks.trial_curves import CurveReader, ToldPoints
from gpucommons.scheduler.background_tasks.trial_jobs import job_of_trial, submit_trial
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
from gpucommons.scheduler.service.jobs.sweeps import note_over
from gpucommons.scheduler.service.lookup import workload_of
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.jobs import held_milli_gpu_s
from gpucommons.scheduler.store.base import Epoch, LogPoint
from gpucommons.scheduler.sweeps.decision import Decision, decide
from gpucommons.scheduler.sweeps.improvements import improved, with_bests
from gpucommons.scheduler.sweeps.sampling import Sampler
from gpucommons.scheduler.sweeps.sweep import (
    OVER,
    Improvement,
    Improvements,
    Kept,
    Standing,
    Sweep,
    Trial,
    TrialState,
)
from gpucommons.scheduler.sweeps.trial_progress import over, told, values_told

log = logging.getLogger(__name__)

#: GPU time alone is written down so often: one GPU-minute.
_WRITE_EVERY_MILLI_GPU_S = 60_000
#: After looks that failed.
_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 1_000, 300_000
#: Whoever is not known to JupyterHub for so long has left.
_OWNER_PATIENCE_MS = 600_000
_CANCELLED = "It was cancelled."
_UNFORESEEN = "The scheduler failed at this sweep; its log says why"


@dataclass(kw_only=True, slots=True)
class _Known:
    """What the leader alone writes of a sweep: true for as long as it leads, and the sweep goes on."""

    trials: dict[int, Trial]
    #: As they are stored.
    stored: dict[int, Trial]
    #: What it has read is in ``trials`` and ``improvements``: one is nothing without the others.
    reader: CurveReader
    improvements: Improvements
    #: Numbers of those that may differ from what is stored.
    touched: set[int] = field(default_factory=set)
    #: Jobs that go on, as they were when they were looked at last.
    jobs: dict[int, Workload] = field(default_factory=dict)

    def put(self, trial: Trial) -> None:
        """A new one, or what has become of one."""
        if self.trials.get(trial.number) is not trial:
            self.trials[trial.number] = trial
            self.touched.add(trial.number)

    def unwritten(self) -> list[Trial]:
        """Those that differ from what is stored."""
        touched = [self.trials[number] for number in sorted(self.touched)]
        news = [one for one in touched if _is_news(self.stored.get(one.number), one)]
        self.touched.intersection_update(one.number for one in news)
        return news

    def wrote(self, news: Sequence[Trial]) -> None:
        """They are stored now."""
        self.stored.update({one.number: one for one in news})
        self.touched.clear()

    def in_order(self) -> Sequence[Trial]:
        """By number."""
        return [self.trials[number] for number in sorted(self.trials)]

    def is_as_it_was(self, number: int, job: Workload) -> bool:
        """Nothing can have come of a job since it was looked at: not even GPU time."""
        return (
            self.jobs.get(number) is job
            and job.current is None
            and self.reader.is_up_to_date(job.workload_id)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Failed:
    """Looks at a sweep that failed, one after the other."""

    #: As its owner had written it.
    sweep: Sweep
    tries: int
    again_ms: Millis


class Sweeps:
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
        self._sampler = Sampler()
        self._known: dict[ParentId, _Known] = {}
        self._known_under: Epoch | None = None
        self._failed: dict[ParentId, _Failed] = {}
        self._told = ToldPoints()
        service.loop.follow_curves(self._note_told)

    def step(self) -> None:
        """See to each that goes on; what goes wrong with one keeps no other from its turn."""
        epoch = self._epoch()
        if epoch != self._known_under:
            self._known, self._known_under = {}, epoch
        live = self._service.store.sweeps.live()
        now_ms = self._service.now_ms()
        self._sampler.forget(one.sweep.sweep_id for one in live)
        ids = {one.sweep.sweep_id for one in live}
        self._known = {one: known for one, known in self._known.items() if one in ids}
        self._failed = {one: failed for one, failed in self._failed.items() if one in ids}
        for parent_id, job_id, points in self._told.take():
            if parent_id in self._known:
                self._known[parent_id].reader.tell(job_id, points)
        for kept in live:
            failed = self._failed.get(kept.sweep.sweep_id)
            # What its owner has asked for since is tried at once.
            if failed is None or failed.again_ms <= now_ms or failed.sweep != kept.sweep:
                self._try(epoch, kept, now_ms)

    def _note_told(self, curves: Mapping[WorkloadId, Sequence[LogPoint]]) -> None:
        """From the loop's thread: of sweeps that are known; others are read when they are looked at."""
        workloads = self._service.loop.cluster.workloads
        for job_id, points in curves.items():
            job = workloads.get(job_id)
            part_of = None if job is None else job.spec.part_of
            if part_of is not None and part_of.parent_id in self._known:
                self._told.put(part_of.parent_id, job_id, points)

    def _try(self, epoch: Epoch, kept: Kept, now_ms: Millis) -> None:
        """One look; where it fails the next one waits, each time for longer."""
        sweep_id = kept.sweep.sweep_id
        if kept.standing.ended_ms is not None:
            # It was over, and its owner has added to what it may use: nothing below may end it again by that.
            kept = replace(kept, standing=Standing(improvements=kept.standing.improvements))
            self._service.store.sweeps.stand(epoch, kept, ())
        try:
            self._look(epoch, kept)
        except (LeaderLost, Unavailable):
            raise  # no other would fare better
        except Exception as error:
            before = self._failed.get(sweep_id)
            tries = 1 if before is None else before.tries + 1
            wait_ms = back_off.doubling(_FIRST_WAIT_MS, tries, longest_ms=_LONGEST_WAIT_MS)
            again_ms = Millis(now_ms + wait_ms)
            self._failed[sweep_id] = _Failed(sweep=kept.sweep, tries=tries, again_ms=again_ms)
            why = str(error)  # nothing here can draw, say
            if not isinstance(error, SchedulerError):
                why = _UNFORESEEN
                log.exception("a look at sweep %s failed; next in %s s", sweep_id, wait_ms // 1000)
            self._write(epoch, kept, replace(kept.standing, hindrance=why))
        else:
            self._failed.pop(sweep_id, None)

    def _look(self, epoch: Epoch, kept: Kept) -> None:
        sweep, now_ms = kept.sweep, self._service.now_ms()
        known = self._known_of(kept)
        jobs = self._seen(sweep, known)
        decision = decide(
            sweep,
            known.in_order(),
            {number: job.state for number, job in jobs.items()},
            now_ms,
            by_people=frozenset(n for n, job in jobs.items() if not job.paused_by_parent),
        )
        if decision.ended_text:
            self._finish(epoch, kept, known, decision)
            return
        self._end(sweep, known, decision.cancels, _CANCELLED)
        self._note(sweep, known, decision)
        # Stored before anything is asked for.
        self._write(epoch, kept, kept.standing)
        pauses = _jobs_of(known.trials[number] for number in decision.pauses)
        resumes = _jobs_of(known.trials[number] for number in decision.resumes)
        asked: list[Action] = [Pause(workload_id=job, of_parent=True) for job in pauses]
        asked += [Resume(workload_id=job, of_parent=True) for job in resumes]
        self._service.ask_all(OPERATOR, asked)
        standing = kept.standing
        try:
            hindrance = self._submit(sweep, known)
            standing = replace(standing, hindrance=hindrance, owner_unknown_ms=None)
        except OwnerUnknown as error:
            since_ms = standing.owner_unknown_ms
            since_ms = now_ms if since_ms is None else since_ms
            standing = replace(standing, hindrance=str(error), owner_unknown_ms=since_ms)
            # JupyterHub may know its owner again in a moment; who stays away is waited for no longer.
            if now_ms - since_ms >= _OWNER_PATIENCE_MS:
                left = tuple(n for n, one in known.trials.items() if one.state not in OVER)
                gone = Decision(cancels=left, ended_text=standing.hindrance)
                self._finish(epoch, kept, known, gone)
                return
        # Jobs that were submitted are written by the next look: until then their keys stand for them.
        if standing != kept.standing:
            self._write(epoch, kept, standing)

    def _finish(self, epoch: Epoch, kept: Kept, known: _Known, decision: Decision) -> None:
        """Asked for before it is stored: what is over is not looked at again."""
        sweep, why = kept.sweep, decision.ended_text
        self._end(sweep, known, decision.cancels, why)
        note_over(self._service, OPERATOR, sweep, known.in_order(), why)
        standing = Standing(ended_ms=self._service.now_ms(), ended_text=why)
        self._write(epoch, kept, standing)

    def _known_of(self, kept: Kept) -> _Known:
        sweep = kept.sweep
        if sweep.sweep_id not in self._known:
            store = self._service.store
            found = {one.number: one for one in store.sweeps.trials(sweep.sweep_id)}
            self._known[sweep.sweep_id] = _Known(
                trials=found,
                stored=dict(found),
                reader=CurveReader(store),
                improvements=with_bests(sweep, kept.standing.improvements, found.values()),
            )
        return self._known[sweep.sweep_id]

    def _seen(self, sweep: Sweep, known: _Known) -> dict[int, Workload]:
        """Look at the jobs of those that are not over; those that go on."""
        jobs: dict[int, Workload] = {}
        values: list[Improvement] = []
        workloads = self._service.loop.cluster.workloads
        try:
            for number, trial in known.trials.items():
                if trial.state is not TrialState.LIVE or trial.job is None:
                    continue
                job = workloads.get(trial.job) or self._stored(trial.job)
                if job is None:
                    known.put(replace(trial, state=TrialState.ENDED, text="Its job is gone."))
                    continue
                is_over = is_final(job)
                if is_over and sweep.metric and self._unread(job):
                    continue  # judged by all of its curve, or not yet
                if not is_over:
                    jobs[number] = job
                if not known.is_as_it_was(number, job):
                    points = known.reader.new_points(job) if sweep.metric else ()
                    values += values_told(sweep, trial, points)
                    known.put(self._with_job(sweep, told(sweep, trial, points), job))
        finally:
            # Where a read fails, too: what was read before it is in ``trials``, and is read no more.
            known.improvements = improved(sweep, known.improvements, values)
        known.jobs.clear()
        known.jobs.update(jobs)
        return jobs

    def _stored(self, job_id: WorkloadId) -> Workload | None:
        """What no cycle has seen yet, or has ended."""
        try:
            return workload_of(self._service, job_id)
        except UnknownWorkload:
            return None

    def _with_job(self, sweep: Sweep, trial: Trial, job: Workload) -> Trial:
        held = held_milli_gpu_s(job, self._service.now_ms())
        return over(sweep, replace(trial, milli_gpu_s=held), job)

    def _note(self, sweep: Sweep, known: _Known, decision: Decision) -> None:
        for number in decision.promotes:
            trial = known.trials[number]
            known.put(replace(trial, promoted=trial.promoted + 1))
        if decision.draws > 0:
            now_ms = self._service.now_ms()
            for one in self._sampler.draw(sweep, known.in_order(), decision.draws):
                is_wanted = one.number not in sweep.left_out
                known.put(one if is_wanted else _ended(one, _CANCELLED, now_ms))

    def _end(self, sweep: Sweep, known: _Known, numbers: Sequence[int], why: str) -> None:
        """Cancel these; an order that was given before changes nothing."""
        text = f"{sweep.kind.value} {sweep.name}: {why}"
        left: list[Trial] = []
        for number in numbers:
            trial = known.trials[number]
            if trial.job is None:
                # A scheduler that died may have submitted it and not written that down.
                job = job_of_trial(self._service, sweep, trial)
                trial = replace(trial, job=None if job is None else job.workload_id)
            left.append(trial)
        cancels = [Cancel(workload_id=job, text=text) for job in _jobs_of(left)]
        self._service.ask_all(OPERATOR, cancels)
        now_ms = self._service.now_ms()
        for trial in left:
            known.put(_ended(trial, why, now_ms))

    def _submit(self, sweep: Sweep, known: _Known) -> str:
        """Submit the jobs of those that are drawn; why not, where that has to wait."""
        for trial in known.in_order():
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
                failed = TrialState.FAILED
                known.put(replace(trial, state=failed, text=str(error), ended_ms=now_ms))
                continue
            live, job_id = TrialState.LIVE, WorkloadId(job.id)
            known.put(replace(trial, state=live, job=job_id, job_name=job.name))
            if not job.attempts:
                known.reader.begins(job_id)
        return ""

    def _write(self, epoch: Epoch, kept: Kept, standing: Standing) -> None:
        """What has changed since it was read, if anything has."""
        sweep_id = kept.sweep.sweep_id
        known = self._known.get(sweep_id)
        changed = [] if known is None else known.unwritten()
        if known is not None:
            standing = replace(standing, improvements=known.improvements)
        is_over = standing.ended_ms is not None
        if not changed and standing == kept.standing and not is_over:
            return
        self._service.store.sweeps.stand(epoch, replace(kept, standing=standing), changed)
        if known is not None:
            known.wrote(changed)
        if is_over:
            self._known.pop(sweep_id, None)


def _jobs_of(trials: Iterable[Trial]) -> list[WorkloadId]:
    return [one.job for one in trials if one.job is not None]


def _ended(trial: Trial, why: str, now_ms: Millis) -> Trial:
    return replace(trial, state=TrialState.ENDED, text=why, ended_ms=now_ms)


def _is_news(before: Trial | None, now: Trial) -> bool:
    if now is before:
        return False  # as nearly all of thousands are
    if before is None:
        return True
    if now.milli_gpu_s - before.milli_gpu_s >= _WRITE_EVERY_MILLI_GPU_S:
        return True
    return replace(now, milli_gpu_s=before.milli_gpu_s) != before
