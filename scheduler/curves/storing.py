"""What was read of a run, in the forms that the store and the core know."""

from __future__ import annotations

from gpucommons.scheduler.core.model.types import Attempt, Millis, Progress
from gpucommons.scheduler.curves.points import Point, Source, Unit
from gpucommons.scheduler.store.base import LogPoint


def stored_point(attempt: Attempt, point: Point, source: Source, now_ms: Millis) -> LogPoint:
    """The point as a curve keeps it."""
    return LogPoint(
        attempt_number=attempt.number,
        step=point.counter.step,
        at_ms=now_ms,
        metrics=point.stored,
        source=source.value,
        unit=point.counter.unit.value,
    )


def progress_of(point: Point, source: Source, now_ms: Millis) -> Progress:
    """How far a run is, in whole steps or epochs."""
    counter, metrics = point.counter, dict(point.metrics)
    step = counter.step
    if counter.unit is Unit.EPOCH and counter.epoch is not None:
        # Thousandths are for the axis; whole epochs are for sentences.
        step = int(counter.epoch)
        metrics["epoch"] = float(step)
    total = counter.total
    return Progress(
        step=step,
        total_steps=total if total is not None and total >= step else None,
        metrics=metrics,
        at_ms=now_ms,
        source=source.value,
        unit=counter.unit.value,
    )


def progress_of_stored(point: LogPoint, before: Progress | None) -> Progress:
    """How far a run is by a point of its curve; the curve keeps no totals, so the one from before counts."""
    metrics = dict(point.metrics)
    epoch, step = metrics.pop("epoch", None), point.step
    if point.unit == Unit.EPOCH and epoch is not None:
        step = int(epoch)
        metrics["epoch"] = float(step)
    total = before.total_steps if before is not None and before.unit == point.unit else None
    return Progress(
        step=step,
        total_steps=total if total is not None and total >= step else None,
        metrics=metrics,
        at_ms=point.at_ms,
        source=point.source,
        unit=point.unit,
    )
