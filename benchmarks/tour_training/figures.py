"""What is counted when the tour is over: pure functions of what the product says of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.tour.figures import overlap
from gpucommons.scheduler import models

_MINUTE_MS = 60_000
_OVER = frozenset({"done", "failed", "ended"})


def lost_trials(sweep: models.SweepView, jobs: Mapping[str, models.JobView]) -> list[int]:
    """Trials that were begun and of which nobody knows what became; ``jobs`` by id."""
    by_number = {one.number: one for one in sweep.trials}
    return [
        number
        for number in range(1, sweep.begun + 1)
        if (one := by_number.get(number)) is None
        or one.state not in _OVER
        or (one.job_id is not None and one.job_id not in jobs)
    ]


def doubled_trials(sweep: models.SweepView, jobs: Sequence[models.JobView]) -> list[int]:
    """Trials with two jobs, or whose job ran twice at a time; ``jobs`` are all that there are."""
    mine = [job for job in jobs if job.part_of is not None and job.part_of.id == sweep.id]
    numbers = Counter(job.part_of.number for job in mine if job.part_of is not None)
    twice = {number for number, count in numbers.items() if count > 1}
    beside = {
        job.part_of.number
        for job in mine
        if job.part_of is not None
        and overlap((one.started_ms, one.ended_ms) for one in job.attempts)
    }
    return sorted(twice | beside)


def times_on_record(
    schedule: models.ScheduleView, *, first_ms: int, until_ms: int
) -> dict[int, int]:
    """Each minute from the first time on, before the last, and how often it stands on record."""
    runs = [run for run in schedule.runs if not run.by_hand]
    return {
        due_ms: sum(run.due_ms <= due_ms <= (run.until_ms or run.due_ms) for run in runs)
        for due_ms in range(first_ms, until_ms, _MINUTE_MS)
    }


def speeds(points: Sequence[models.CurvePoint], workers: Mapping[int, int]) -> dict[int, float]:
    """Steps per second by number of workers, from a job's own progress; ``workers`` by attempt.

    The longest attempt of each size counts. One report says nothing of speed.
    """
    found: dict[int, tuple[int, float]] = {}
    for attempt, count in workers.items():
        mine = [point for point in points if point.attempt == attempt]
        took_ms = mine[-1].at_ms - mine[0].at_ms if mine else 0
        if took_ms > found.get(count, (0, 0.0))[0]:
            found[count] = took_ms, 1000 * (mine[-1].step - mine[0].step) / took_ms
    return {count: speed for count, (_, speed) in found.items()}


def gain(by_workers: Mapping[int, float]) -> float | None:
    """How many times faster it was with its most workers than with its fewest; None = one size only."""
    if len(by_workers) < 2:
        return None
    return round(by_workers[max(by_workers)] / by_workers[min(by_workers)], 2)
