"""What a trial's job has told so far, and what its end means for the sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Millis, State, Workload
from gpucommons.scheduler.metric_spelling import metric_called, untold
from gpucommons.scheduler.sweeps.successive_halving import reached_rungs
from gpucommons.scheduler.sweeps.sweep import Improvement, Sweep, Trial, TrialState
from gpucommons.scheduler.sweeps.trial_ranking import is_better

#: Ten GPU-minutes: most scripts have told something by then.
_LONG_MILLI_GPU_S = 600_000


class _Point(Protocol):
    """One step of a job's curve."""

    @property
    def step(self) -> int: ...

    @property
    def at_ms(self) -> Millis: ...

    @property
    def metrics(self) -> Mapping[str, float]: ...

    @property
    def unit(self) -> str: ...


def told(sweep: Sweep, trial: Trial, points: Iterable[_Point]) -> Trial:
    """A trial after these points of its curve, in order; ones that were told before change nothing."""
    for point, value in _with_values(sweep, points):
        step = _position(point)
        trial = replace(trial, step=max(trial.step, step))
        if value is None:
            continue
        if math.isfinite(value) and is_better(sweep, value, trial.best):
            trial = replace(trial, best=value, best_step=step, best_ms=point.at_ms)
        trial = reached_rungs(sweep, trial, step, value)
    return trial


def values_told(sweep: Sweep, trial: Trial, points: Iterable[_Point]) -> list[Improvement]:
    """Values of the sweep's metric among these points, each of which may be the best so far."""
    return [
        Improvement(at_ms=point.at_ms, trial=trial.number, value=value)
        for point, value in _with_values(sweep, points)
        if value is not None
    ]


def _with_values(sweep: Sweep, points: Iterable[_Point]) -> Iterator[tuple[_Point, float | None]]:
    """Each point with what it tells of the metric, by whichever of its names the script uses."""
    points = tuple(points)
    metric = metric_called(sweep.metric, {name for point in points for name in point.metrics})
    for point in points:
        yield point, None if metric is None else point.metrics.get(metric)


def _position(point: _Point) -> int:
    """What steps count: where they are epochs, whole ones, not their thousandths."""
    epoch = point.metrics.get("epoch") if point.unit == "epoch" else None
    return point.step if epoch is None or not math.isfinite(epoch) else math.floor(epoch)


def over(sweep: Sweep, trial: Trial, job: Workload) -> Trial:
    """A trial whose job may have ended."""
    if not is_final(job):
        return trial
    state, text = TrialState.DONE, ""
    if job.state is State.CANCELLED:
        state, text = TrialState.ENDED, job.ended_text or "It was cancelled."
    elif job.state is State.FAILED:
        state, text = TrialState.FAILED, job.ended_text or "It failed."
    elif sweep.metric and trial.best is None:
        state, text = TrialState.FAILED, untold(sweep.metric, _told_by(job))
    return replace(trial, state=state, text=text, ended_ms=job.ended_ms)


def not_yet(sweep: Sweep, trial: Trial, job: Workload) -> str:
    """What a trial shows that runs and tells other metrics, or none for long; "" where it is too early."""
    names = _told_by(job)
    if metric_called(sweep.metric, names):
        return ""  # read at the next look
    if names:
        return (
            f"No trial has told {sweep.metric} yet; what {trial.job_name} told: {', '.join(names)}."
        )
    if trial.milli_gpu_s < _LONG_MILLI_GPU_S:
        return ""
    return (
        f"No trial has told {sweep.metric} yet, and {trial.job_name} no metric at all: a script prints it,"
        f" as in “{sweep.metric} 0.93”, or reports it."
    )


def _told_by(job: Workload) -> list[str]:
    return sorted(job.progress.metrics) if job.progress is not None else []
