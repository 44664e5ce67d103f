"""The mean completion time that no policy can go below."""

from __future__ import annotations

import pytest

from benchmarks.elastic.bound import HOUR_MS, elastic_of, least_mean_h
from gpucommons.scheduler.simulation.trace import TraceJob
from gpucommons.scheduler.simulation.trace_cluster import Setting


def _setting(*jobs: tuple[int, float, float]) -> Setting:
    """GPUs, hours from the first submit, hours of the run."""
    return Setting(
        nodes=1,
        quotas={"team": 8},
        jobs=tuple(
            TraceJob(
                name=f"job-{number}",
                team="team",
                user="ann",
                gpus=gpus,
                submit_ms=round(submit_h * HOUR_MS),
                run_ms=round(run_h * HOUR_MS),
            )
            for number, (gpus, submit_h, run_h) in enumerate(jobs)
        ),
        shrunk=0,
    )


def test_two_jobs_that_fill_the_cluster_end_one_after_the_other() -> None:
    assert least_mean_h(_setting((8, 0, 1), (8, 0, 1)), set()) == pytest.approx(1.5)


def test_a_shorter_job_that_comes_later_goes_first() -> None:
    # The first one's middle is after 1.25 h: it works from 0 to 1 h and from 1.5 to 2.5 h.
    assert least_mean_h(_setting((8, 0, 2), (8, 1, 0.5)), set()) == pytest.approx((2.25 + 0.5) / 2)


def test_jobs_that_fit_beside_each_other_wait_for_nothing() -> None:
    assert least_mean_h(_setting((1, 0, 2), (1, 0, 4)), set()) == pytest.approx(3.0)


def test_an_elastic_job_runs_at_its_best_size() -> None:
    setting = _setting((1, 0, 20), (2, 0, 20))
    assert elastic_of(setting, 1) == {1}
    assert least_mean_h(setting, {1}) < least_mean_h(setting, set())
