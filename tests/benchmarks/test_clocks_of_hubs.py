"""Clocks are judged by their pinball loss, on hubs that a seed makes up."""

from __future__ import annotations

import pytest

from benchmarks.advisor.clock_loss import pinball, pinball_ratio
from benchmarks.advisor.clocks import hub
from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.store.estimates import Estimate, Window

MINUTE = 60_000


def a_wait(made: int, took: int, said: tuple[int, int, int]) -> Estimate:
    first, middle, last = (minutes * MINUTE for minutes in said)
    window = Window(from_ms=first, median_ms=middle, to_ms=last)
    return Estimate(
        workload_id=WorkloadId(f"w-{made}"),
        made_ms=Millis(made * MINUTE),
        wait_class="job train",
        raw=window,
        window=window,
        started_ms=Millis((made + took) * MINUTE),
    )


def wait_of(one: Estimate) -> int:
    assert one.started_ms is not None
    return one.started_ms - one.made_ms


def test_the_loss_is_least_where_the_window_is_right() -> None:
    assert pinball((10, 10, 10), 10) == 0
    assert pinball((0, 10, 20), 10) == pytest.approx(0.1 * 10 + 0 + 0.1 * 10)
    # Too wide costs, and so does to miss: beyond the end most of all.
    assert pinball((0, 10, 20), 10) < pinball((0, 10, 100), 10) < pinball((0, 1, 2), 100)


def test_who_knows_each_wait_beats_the_past_and_who_repeats_it_does_not() -> None:
    took = [5, 60, 10, 120] * 10
    sharp = [a_wait(200 * i, one, (one - 1, one, one + 1)) for i, one in enumerate(took)]
    wide = [a_wait(200 * i, one, (0, 60, 600)) for i, one in enumerate(took)]
    judged = [(one, 1.0) for one in sharp[20:]]
    found = pinball_ratio(judged, sharp, wait_of)
    assert found is not None
    assert found < 0.05
    repeated = pinball_ratio([(one, 1.0) for one in wide[20:]], wide, wait_of)
    assert repeated is not None
    assert repeated > 1


def test_what_was_not_over_when_a_window_was_made_is_no_past() -> None:
    first, second = a_wait(0, 50, (1, 2, 3)), a_wait(10, 5, (1, 2, 3))
    assert pinball_ratio([(second, 1.0)], [first, second], wait_of) is None
    later = a_wait(60, 5, (1, 2, 3))
    assert pinball_ratio([(later, 1.0)], [first, later], wait_of) is not None


def test_a_hub_is_the_same_for_the_same_seed_and_busier_by_day() -> None:
    assert hub(1) == hub(1) != hub(2)
    jobs = hub(1).jobs
    assert [one.submit_ms for one in jobs] == sorted(one.submit_ms for one in jobs)
    assert len({one.user for one in jobs}) == 12
    assert {one.gpus for one in jobs} == {1, 2, 4, 8}
