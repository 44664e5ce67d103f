"""The contract of every store, its books of forecasts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.errors import LeaderLost
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.estimates import UNFORESEEN, Estimate, Window
from gpucommons.scheduler.store.opening import open_store

RAW = Window(from_ms=1, median_ms=2, to_ms=3)


def estimate(number: int, made_ms: int = 100) -> Estimate:
    return Estimate(
        workload_id=WorkloadId(f"w-{number:04}"),
        made_ms=Millis(made_ms),
        wait_class="job train",
        raw=RAW,
        window=RAW,
        withheld=number % 2 == 0,
    )


def test_estimates_are_kept_and_replaced_when_the_start_is_known(store: Store, url: str) -> None:
    epoch = store.take_lead("me")
    store.add_estimates(epoch, [estimate(1), estimate(2), estimate(1, 200)])
    started = replace(estimate(1), started_ms=Millis(150))
    left = replace(estimate(2), left=True)
    store.add_estimates(epoch, [started, left])
    store.add_estimates(epoch, [])
    assert store.estimates() == (started, left, estimate(1, 200))
    if url != "memory:":
        store.close()
        again = open_store(url)
        assert again.estimates() == (started, left, estimate(1, 200))
        again.close()


def test_the_newest_estimates_are_read_oldest_first(store: Store) -> None:
    epoch = store.take_lead("me")
    store.add_estimates(epoch, [estimate(n, 1000 - n) for n in range(10)])
    assert [one.made_ms for one in store.estimates(limit=3)] == [998, 999, 1000]


def test_waits_that_were_told_no_range_push_out_none_that_teaches(store: Store) -> None:
    epoch = store.take_lead("me")
    untold = [
        replace(estimate(n, 500 + n), wait_class=f"job train{UNFORESEEN}", foreseen=False)
        for n in range(5)
    ]
    store.add_estimates(epoch, [*(estimate(n, 100 + n) for n in range(5)), *untold])
    assert [one.made_ms for one in store.estimates(limit=3)] == [102, 103, 104, 502, 503, 504]


def test_old_estimates_are_pruned(store: Store) -> None:
    epoch = store.take_lead("me")
    store.add_estimates(epoch, [estimate(1, 99), estimate(2, 100)])
    assert store.prune(epoch, before_ms=Millis(100), kept=()) == 1
    assert store.estimates() == (estimate(2, 100),)


def test_only_the_leader_writes_estimates(store: Store) -> None:
    old = store.take_lead("old")
    store.take_lead("new")
    with pytest.raises(LeaderLost):
        store.add_estimates(old, [estimate(1)])
    assert store.estimates() == ()
