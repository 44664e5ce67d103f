"""Sizes of several jobs at once: never worse than as they were asked for, in bounded time."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.advisor.choice import together as subject
from gpucommons.scheduler.advisor.choice.together import mean_finish_s, together

JOB = {1: 100.0, 2: 55.0, 4: 32.0, 8: 25.0}
#: Best with two GPUs, next to nothing gained beyond.
STEEP = {1: 1000.0, 2: 400.0, 4: 390.0, 8: 380.0}

_SECONDS = st.floats(1, 1000)
_TABLES = st.lists(
    st.dictionaries(st.sampled_from([1, 2, 3, 4, 8]), _SECONDS, min_size=1, max_size=4),
    min_size=1,
    max_size=4,
)


def test_jobs_together_share_what_each_alone_would_take() -> None:
    assert together([JOB, JOB], (8, 8), 8).sizes == (4, 4)
    assert mean_finish_s([JOB, JOB], (8, 8), 8) == pytest.approx((25 + 50) / 2)
    assert together([JOB], (1,), 8).sizes == (8,)
    assert together([], (), 8).sizes == ()


@pytest.mark.parametrize("asked", [1, 2, 8])
def test_many_jobs_keep_the_size_that_is_best_for_all(asked: int) -> None:
    jobs = [STEEP] * 20

    found = together(jobs, [asked] * 20, 8)

    assert mean_finish_s(jobs, found.sizes, 8) <= mean_finish_s(jobs, [2] * 20, 8) == 1200
    assert not found.is_best


@settings(deadline=None)
@given(jobs=_TABLES, data=st.data())
def test_few_combinations_are_all_tried_and_more_are_never_worse_than_asked(
    jobs: list[dict[int, float]], data: st.DataObject
) -> None:
    asked = [data.draw(st.sampled_from(sorted(job))) for job in jobs]
    least = min(mean_finish_s(jobs, sizes, 8) for sizes in product(*jobs))

    tried = together(jobs, asked, 8)
    searched = together(jobs, asked, 8, try_all=0)

    assert tried.is_best
    assert mean_finish_s(jobs, tried.sizes, 8) == least
    assert not searched.is_best
    assert all(size in job for size, job in zip(searched.sizes, jobs, strict=True))
    found = mean_finish_s(jobs, searched.sizes, 8)
    assert least <= found <= mean_finish_s(jobs, asked, 8)


def test_as_many_jobs_as_are_looked_at_take_a_bounded_number_of_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    def counted(jobs: list[dict[int, float]], sizes: tuple[int, ...], gpus: int) -> float:
        nonlocal looks
        looks += 1
        return mean_finish_s(jobs, sizes, gpus)

    monkeypatch.setattr(subject, "mean_finish_s", counted)
    jobs = [{size: 1000 / size**0.8 + n for size in (1, 2, 4, 8, 16, 32)} for n in range(12)]

    together(jobs, [1] * 12, 32)

    assert looks < 5_000
