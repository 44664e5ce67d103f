"""Sweeps on the wire."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Millis, State, Workload, WorkloadId
from gpucommons.scheduler.service.views.shortened_requests import outlined
from gpucommons.scheduler.store.base import LedgerRow
from gpucommons.scheduler.store.reports.base import written_ms
from gpucommons.scheduler.sweeps.improvements import with_bests
from gpucommons.scheduler.sweeps.search_space import words_of
from gpucommons.scheduler.sweeps.sweep import (
    OVER,
    Improvements,
    Kept,
    Sweep,
    Trial,
    TrialState,
    shown_number,
)
from gpucommons.scheduler.sweeps.trial_progress import not_yet, over
from gpucommons.scheduler.sweeps.trial_ranking import best_of

_MINUTE_MS = 60_000
#: Of a line over time.
_MOST_POINTS = 240
#: What it is as long as its job has not begun anywhere.
_WAITING = frozenset({State.QUEUED, State.NOMINATED, State.ADMITTED})


def sweep_view(
    kept: Kept,
    trials: Sequence[Trial],
    jobs: Mapping[WorkloadId, Workload],
    *,
    request: models.JobRequest | None,
    in_full: bool,
) -> models.SweepView:
    """A sweep for who may see its jobs; without its request where another release has written that."""
    sweep, standing = kept.sweep, kept.standing
    goes_on = standing.ended_ms is None and not sweep.stopped
    trials = [_as_it_ended(sweep, one, jobs) for one in trials]
    best = best_of(sweep, trials)
    states = Counter(_state(one, jobs) for one in trials)
    record = with_bests(sweep, standing.improvements, trials) if in_full else Improvements()
    return models.SweepView(
        id=sweep.sweep_id,
        kind=sweep.kind.value,
        name=sweep.name,
        owner=sweep.owner,
        team=sweep.team,
        made_ms=sweep.made_ms,
        ended_ms=standing.ended_ms,
        text=standing.ended_text or standing.hindrance or _not_yet(sweep, trials, jobs),
        metric=sweep.metric,
        direction=("maximize" if sweep.maximize else "minimize") if sweep.metric else "",
        sampler=sweep.sampler if sweep.space else "",
        drawn=[words_of(one) for one in sweep.space] if in_full else [],
        max_parallel=sweep.max_parallel if sweep.space else sweep.at_once,
        trials_of=sweep.count,
        begun=len(trials),
        running=states["live"],
        waiting=states["waiting"] + states["drawn"],
        paused=states["paused"] + states["held"],
        done=states["done"],
        failed=states["failed"],
        milli_gpu_s=sum(one.milli_gpu_s for one in trials),
        budget_milli_gpu_s=sweep.budget.milli_gpu_s,
        until_ms=sweep.budget.until_ms,
        best=None if best is None else trial_view(best, jobs),
        improvements=[
            models.ImprovementView(at_ms=one.at_ms, trial=one.trial, value=one.value)
            for one in record.points
        ],
        improvements_thinned=record.thinned,
        improvements_begun_late=record.begun_late,
        rungs=_rungs(sweep, trials),
        trials=[trial_view(one, jobs) for one in _best_first(sweep, trials)] if in_full else [],
        request=_shown(request, goes_on=goes_on, in_full=in_full),
        unbegun=_unbegun(sweep, trials) if goes_on else [],
        never_begun=_never_begun(sweep, trials, goes_on=goes_on) if in_full else [],
    )


def _shown(
    request: models.JobRequest | None, *, goes_on: bool, in_full: bool
) -> models.JobRequest | None:
    if request is None or in_full:
        return request
    return outlined(request) if goes_on else None


def _unbegun(sweep: Sweep, trials: Sequence[Trial]) -> list[int]:
    begun = {one.number for one in trials if one.state is not TrialState.DRAWN}
    gone = begun.union(sweep.left_out)
    return [
        shown_number(number, values)
        for number, values in enumerate(sweep.given, 1)
        if number not in gone
    ]


def _never_begun(sweep: Sweep, trials: Sequence[Trial], *, goes_on: bool) -> list[int]:
    known = {one.number: one for one in trials}
    gone = set(sweep.left_out) if goes_on else set(range(1, len(sweep.given) + 1))
    gone -= known.keys()
    gone |= {one.number for one in trials if one.state in OVER and one.job is None}
    return [
        shown_number(number, values)
        for number, values in enumerate(sweep.given, 1)
        if number in gone
    ]


def known_until(ended_ms: Millis | None, now_ms: Millis, *, holds: bool) -> Millis:
    """Up to where it is known what was held.

    Of jobs that hold GPUs (``holds``) the ledger lacks the newest minutes, of others it has all: drawn
    beyond, those that run would have none.
    """
    if holds:
        return min(written_ms(now_ms), now_ms if ended_ms is None else ended_ms)
    return Millis(now_ms // _MINUTE_MS * _MINUTE_MS) if ended_ms is None else ended_ms


def gpus_in_use(rows: Sequence[LedgerRow], from_ms: int, to_ms: int) -> list[models.GpusInUse]:
    """What was held over time: minutes, or as many together as keep the line short."""
    minutes = max(1, math.ceil((to_ms - from_ms) / _MINUTE_MS / _MOST_POINTS))
    span_ms = minutes * _MINUTE_MS
    held: Counter[int] = Counter()
    for row in rows:
        held[row.minute_ms // span_ms] += row.held_milli_gpu_ms
    if not held:
        return []
    # Of the first and the last one only a part is known.
    ends_ms = min(max(row.minute_ms for row in rows) + _MINUTE_MS, to_ms)
    # A zero behind the last one: nothing was held from there on.
    until = min(to_ms // span_ms, max(held) + 1)
    spans = ((max(from_ms, at * span_ms), at) for at in range(min(held), until + 1))
    return [
        models.GpusInUse(
            at_ms=at_ms,
            milli_gpu=round(held[at] / max(1, min(ends_ms, (at + 1) * span_ms) - at_ms))
            if held[at]
            else 0,
        )
        for at_ms, at in spans
        if at != to_ms // span_ms or held[at]
    ]


def trial_view(trial: Trial, jobs: Mapping[WorkloadId, Workload]) -> models.TrialView:
    """One of its trials."""
    return models.TrialView(
        number=trial.shown_number,
        values=dict(trial.values),
        state=_state(trial, jobs),
        job_id=trial.job,
        job_name=trial.job_name,
        best=trial.best,
        best_step=trial.best_step,
        best_ms=trial.best_ms,
        step=trial.step,
        rungs=len(trial.at_rungs),
        milli_gpu_s=trial.milli_gpu_s,
        text=trial.text,
    )


def _not_yet(sweep: Sweep, trials: Sequence[Trial], jobs: Mapping[WorkloadId, Workload]) -> str:
    """A metric that nobody tells is said while the first ones run: their end may be hours away."""
    if not sweep.metric or any(one.best is not None or one.at_rungs for one in trials):
        return ""
    runs = ((one, jobs.get(one.job)) for one in trials if one.job is not None)
    said = (not_yet(sweep, one, job) for one, job in runs if job is not None)
    return next(filter(None, said), "")


def _as_it_ended(sweep: Sweep, trial: Trial, jobs: Mapping[WorkloadId, Workload]) -> Trial:
    """One whose job has ended since its sweep looked, as that will see it: it runs no more."""
    job = None if trial.job is None else jobs.get(trial.job)
    if trial.state is not TrialState.LIVE or job is None:
        return trial
    if sweep.metric and trial.best is None and job.state is State.SUCCEEDED:
        return trial  # what it told last may not be read yet
    return over(sweep, trial, job)


def _state(trial: Trial, jobs: Mapping[WorkloadId, Workload]) -> str:
    job = None if trial.job is None else jobs.get(trial.job)
    if trial.state in OVER or job is None:
        return trial.state.value
    if job.state in _WAITING:
        return "waiting"
    if job.state is State.PAUSED:
        return "held" if job.paused_by_parent else "paused"
    return trial.state.value


def _best_first(sweep: Sweep, trials: Sequence[Trial]) -> list[Trial]:
    if not sweep.metric:
        return sorted(trials, key=lambda one: one.state is not TrialState.FAILED)
    sign = -1 if sweep.maximize else 1
    return sorted(
        trials,
        key=lambda one: (one.best is None, sign * (one.best or 0.0), one.number),
    )


def _rungs(sweep: Sweep, trials: Sequence[Trial]) -> list[models.RungView]:
    if sweep.halving is None:
        return []
    return [
        models.RungView(
            step=step,
            came=sum(1 for one in trials if len(one.at_rungs) > rung),
            went_on=sum(1 for one in trials if one.promoted > rung),
        )
        for rung, step in enumerate(sweep.halving.rungs)
    ]
