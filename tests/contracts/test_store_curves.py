"""Curves: in order, bounded, and points of several sources apart."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from stored_rows import point

from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.store.base import Store


def test_points_of_one_source_never_replace_those_of_another(store: Store) -> None:
    epoch = store.take_lead("me")
    mine = WorkloadId("w-0001")
    read = replace(point(1, 2, loss=0.7), source="log", unit="epoch")
    store.add_points(epoch, {mine: [point(1, 2), read, replace(read, step=3)]})
    assert store.points(mine) == (point(1, 2),)
    assert store.points(mine, source="log") == (read, replace(read, step=3))
    assert store.curve_sources(mine) == {"report": 1, "log": 2}
    assert store.curve_sources(WorkloadId("none")) == {}


def test_a_curve_that_is_thinned_loses_as_much_of_each_source(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpucommons.scheduler.store.rules.MAX_POINTS", 20)
    epoch = store.take_lead("me")
    mine = WorkloadId("w-0001")
    both = [
        replace(point(1, step), source=source) for step in range(15) for source in ("log", "report")
    ]
    store.add_points(epoch, {mine: both})
    counts = store.curve_sources(mine)
    assert abs(counts["log"] - counts["report"]) <= 1


def test_a_curve_is_in_order_and_steps_are_replaced(store: Store) -> None:
    epoch = store.take_lead("me")
    mine = WorkloadId("w-0001")
    store.add_points(epoch, {mine: [point(2, 5), point(1, 9), point(1, 2)]})
    store.add_points(epoch, {mine: [point(1, 9, loss=0.5)]})
    store.add_points(epoch, {WorkloadId("w-0002"): [point(1, 1)]})
    assert store.points(mine) == (point(1, 2), point(1, 9, loss=0.5), point(2, 5))
    assert store.points(WorkloadId("none")) == ()


def test_a_long_curve_is_thinned_evenly_with_both_ends(store: Store) -> None:
    epoch = store.take_lead("me")
    mine = WorkloadId("w-0001")
    store.add_points(epoch, {mine: [point(1, step) for step in range(101)]})
    assert [p.step for p in store.points(mine, limit=5)] == [0, 25, 50, 75, 100]


def test_a_curve_does_not_grow_without_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpucommons.scheduler.store.rules.MAX_POINTS", 10)
    epoch = store.take_lead("me")
    mine = WorkloadId("w-0001")
    for step in range(50):
        store.add_points(epoch, {mine: [point(1, step)]})
    steps = [p.step for p in store.points(mine)]
    assert len(steps) <= 10
    assert steps[0] == 0
    assert steps == sorted(steps)


def test_a_curve_of_many_metrics_has_fewer_points(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpucommons.scheduler.store.rules.MAX_CURVE_BYTES", 8000)
    epoch = store.take_lead("me")
    mine = WorkloadId("w-0001")
    wide = {f"metric-{number:02}": 0.123456 for number in range(40)}  # nearly 1,000 bytes

    def characters() -> int:
        return sum(len(json.dumps(dict(each.metrics))) for each in store.points(mine))

    store.add_points(epoch, {mine: [point(1, step) for step in range(100)]})
    for step in range(100, 200):
        store.add_points(epoch, {mine: [replace(point(1, step), metrics=wide)]})
        assert characters() <= 8000
        # One wide report costs the narrow ones nothing.
        assert step > 100 or len(store.points(mine)) == 101
    steps = [p.step for p in store.points(mine)]
    assert steps[0] == 0
    assert steps[-1] > 190
    # All at once comes to the same.
    store.add_points(epoch, {mine: [replace(point(2, s), metrics=wide) for s in range(50)]})
    assert len(store.points(mine)) >= 4000 / 1000
    assert characters() <= 8000
