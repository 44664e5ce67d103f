"""Curves of several sources, which every store must keep apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stored_rows import point

from gpucommons.scheduler.core.types import WorkloadId
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
