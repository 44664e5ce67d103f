"""What the tour of training counts: nothing that was lost or doubled is overlooked."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.real_scripts import catalogue
from benchmarks.tour.figures import overlap
from benchmarks.tour_training import figures
from gpucommons.scheduler import models
from gpucommons.scheduler.launchers import LAUNCHERS

MINUTE = 60_000


def a_job(name: str, number: int = 1, *spans: tuple[int, int | None]) -> models.JobView:
    attempts = [
        {
            "id": f"{name}-{i}",
            "number": i,
            "state": "ended",
            "hold_class": "over-quota",
            "reserved_ms": started,
            "started_ms": started,
            "ended_ms": ended,
        }
        for i, (started, ended) in enumerate(spans, 1)
    ]
    fields: dict[str, Any] = {
        "id": name,
        "name": name,
        "kind": "retrain",
        "team": "t",
        "owner": "o",
        "submitted_by": "o",
        "state": "succeeded",
        "pools": [],
        "milli_gpu": 1000,
        "workers": 1,
        "priority": "low",
        "over_quota": True,
        "submitted_ms": 0,
        "since_ms": 0,
        "part_of": {"id": "sweep", "kind": "sweep", "name": "s", "number": number},
        "attempts": attempts,
    }
    return models.JobView.model_validate(fields)


def a_sweep(begun: int, *trials: tuple[int, str, str | None]) -> models.SweepView:
    fields: dict[str, Any] = {
        "id": "sweep",
        "kind": "sweep",
        "name": "s",
        "owner": "o",
        "team": "t",
        "made_ms": 0,
        "trials_of": 4,
        "begun": begun,
        "running": 0,
        "waiting": 0,
        "paused": 0,
        "done": 0,
        "failed": 0,
        "milli_gpu_s": 0,
        "trials": [
            {"number": number, "values": {}, "state": state, "job_id": job}
            for number, state, job in trials
        ],
    }
    return models.SweepView.model_validate(fields)


def test_a_trial_is_lost_where_nobody_knows_what_became_of_it() -> None:
    jobs = {"a": a_job("a", 1)}
    sweep = a_sweep(4, (1, "done", "a"), (2, "live", "b"), (4, "done", "gone"))

    assert figures.lost_trials(sweep, jobs) == [2, 3, 4]


def test_a_trial_is_doubled_by_a_second_job_and_by_two_attempts_at_a_time() -> None:
    jobs = [
        *(a_job("a", 1, (0, 5), (5, 9)), a_job("b", 2, (0, 5)), a_job("c", 2, (7, 9))),
        *(a_job("d", 3, (1, None), (5, 9)), a_job("e", 4)),
    ]

    assert figures.doubled_trials(a_sweep(4), jobs) == [2, 3]


@pytest.mark.parametrize(
    ("spans", "doubled"),
    [([(0, 5)], False), ([(1, 5), (5, 7)], False), ([(4, 7), (1, 5)], True), ([(None, 3)], False)],
)
def test_attempts_overlap_where_one_begins_before_the_other_has_ended(
    spans: list[tuple[int | None, int | None]], *, doubled: bool
) -> None:
    assert overlap(spans) is doubled


def test_each_time_is_on_record_once_started_missed_together_or_skipped() -> None:
    runs = [
        {"outcome": "started", "due_ms": 0},
        {"outcome": "missed", "due_ms": MINUTE, "until_ms": 2 * MINUTE, "count": 2},
        {"outcome": "started", "due_ms": 4 * MINUTE},
        {"outcome": "skipped", "due_ms": 4 * MINUTE},
        {"outcome": "started", "due_ms": 3 * MINUTE, "by_hand": True},
    ]
    schedule = models.ScheduleView.model_validate(
        {
            "name": "s",
            "owner": "o",
            "team": "t",
            "schedule": "* * * * *",
            "time_zone": "UTC",
            "concurrency_policy": "Forbid",
            "what": "x.py",
            "kind": "retrain",
            "runs": runs,
        }
    )

    found = figures.times_on_record(schedule, first_ms=0, until_ms=4 * MINUTE + 1)

    assert list(found.values()) == [1, 1, 1, 0, 2]


def test_the_gain_is_that_of_the_longest_attempts_by_their_own_progress() -> None:
    told = [(1, 1, 0), (1, 11, 10_000), (2, 11, 20_000), (3, 11, 30_000), (3, 71, 50_000)]
    points = [
        models.CurvePoint(attempt=attempt, step=step, at_ms=at_ms, metrics={})
        for attempt, step, at_ms in told
    ]

    by_workers = figures.speeds(points, {1: 1, 2: 2, 3: 2})

    assert by_workers == {1: 1.0, 2: 3.0}
    assert figures.gain(by_workers) == 3.0
    assert figures.gain({1: 1.0}) is None


def test_examples_are_of_launchers_that_there_are() -> None:
    named = {script.launcher for script in (*catalogue.SHORT, *catalogue.BY_LAUNCHER)}

    assert named - {""} <= set(LAUNCHERS)
    assert {"torchrun", "tensorflow", "jax", "mpi", "ray", "spark"} <= named
