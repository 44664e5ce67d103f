"""Which of a schedule's models is the promoted one: a new one is compared with it on the same metric.

Pure. What is decided by the rule stands where the leader writes, what somebody chose where its owner does;
the later of the two holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.metric_spelling import metric_called, untold
from gpucommons.scheduler.schedules.schedule import (
    Outcome,
    Promote,
    Promoted,
    Run,
    Scheduled,
    Standing,
    Verdict,
)

#: Runs that go on are asked after so often.
EVERY_MS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A run that is over."""

    job: WorkloadId
    name: str
    #: How it ended, where it did not end well.
    failed: str = ""
    #: What it told of the metric last.
    value: float | None = None
    #: Names of all that it told.
    told: tuple[str, ...] = ()


def promoted_of(scheduled: Scheduled) -> Promoted | None:
    """The one that holds now."""
    by_rule, by_hand = scheduled.standing.promoted, scheduled.schedule.chosen
    if by_rule is None or by_hand is None:
        return by_hand or by_rule
    return by_rule if by_rule.at_ms > by_hand.at_ms else by_hand


def promoted_jobs(scheduled: Iterable[Scheduled]) -> frozenset[WorkloadId]:
    """Whose models they are."""
    found = map(promoted_of, scheduled)
    return frozenset(one.job for one in found if one is not None)


def unjudged(scheduled: Scheduled) -> tuple[Run, ...]:
    """Runs whose models were not compared yet."""
    if scheduled.schedule.promote is None:
        return ()
    return tuple(run for run in scheduled.standing.runs if run.job and not run.verdict)


def judged(scheduled: Scheduled, model: Model, now_ms: Millis) -> Standing:
    """After the comparison of one model with the promoted one."""
    standing, promote = scheduled.standing, scheduled.schedule.promote
    assert promote is not None  # noqa: S101 - else there is nothing to compare by
    before = promoted_of(scheduled)
    verdict, why = _verdict(promote, model, before)
    if verdict is Verdict.PROMOTED and model.value is not None:
        made = Promoted(
            job=model.job,
            job_name=model.name,
            value=model.value,
            at_ms=now_ms,
            why=why,
            metric=promote.metric,
        )
        standing = replace(standing, promoted=made)
    runs = tuple(
        replace(run, verdict=verdict, why=why, value=model.value) if run.job == model.job else run
        for run in standing.runs
    )
    return replace(standing, runs=runs)


def next_judging_ms(scheduled: Scheduled) -> Millis | None:
    """When runs are looked at next for what became of them; None = there are none."""
    if not unjudged(scheduled):
        return None
    return Millis(scheduled.standing.judged_ms + EVERY_MS)


def run_of(scheduled: Scheduled, job: WorkloadId) -> Run | None:
    """The run that a job was."""
    found = (run for run in scheduled.standing.runs if run.job == job)
    return next((run for run in found if run.outcome is Outcome.STARTED), None)


def _verdict(promote: Promote, model: Model, before: Promoted | None) -> tuple[Verdict, str]:
    if model.failed:
        return Verdict.NONE, f"It {model.failed}: there is nothing to compare"
    if model.value is None or not math.isfinite(model.value):
        return Verdict.NONE, untold(promote.metric, model.told).rstrip(".")
    value = f"{promote.metric} {model.value:g}"
    if before is not None and before.metric and not metric_called(promote.metric, [before.metric]):
        # It was written anew: values of two metrics say nothing about each other.
        before = None
    if promote.by_hand:
        was = "" if before is None else f", the promoted one has {before.value:g}"
        return Verdict.WAITS, f"{value}{was}: promoted by hand alone"
    if before is None:
        return Verdict.PROMOTED, f"{value}, the first"
    is_better = model.value > before.value if promote.maximize else model.value < before.value
    if is_better:
        return Verdict.PROMOTED, f"{value}, was {before.value:g}"
    return Verdict.KEPT, f"{value}, was {before.value:g}: {before.job_name} kept"
