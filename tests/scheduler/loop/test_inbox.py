"""What waits for a cycle has an end, however much a job says, and stays until it is written."""

from __future__ import annotations

import pytest
from stored_rows import point

from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.errors import LeaderLost
from gpucommons.scheduler.loop import inbox
from gpucommons.scheduler.loop.inbox import Inbox
from gpucommons.scheduler.store.memory import MemoryStore

LOUD, QUIET = WorkloadId("w-0001"), WorkloadId("w-0002")


def test_a_job_that_tells_points_without_end_costs_a_cycle_no_more_than_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inbox, "MOST_POINTS", 10)
    waiting = Inbox()
    waiting.put_points(QUIET, [point(1, 7)])
    for first in range(0, 1000, 50):
        waiting.put_points(LOUD, [point(1, first + step) for step in range(50)])
    assert len(waiting.points[LOUD]) <= 10
    assert waiting.points[LOUD][-1] == point(1, 999)
    assert waiting.points[QUIET] == [point(1, 7)]


def test_points_that_could_not_be_written_wait_for_the_next_cycle() -> None:
    store = MemoryStore()
    old, waiting = store.take_lead("me"), Inbox()
    new = store.take_lead("another")
    waiting.put_points(LOUD, [point(1, 1)])
    with pytest.raises(LeaderLost):
        waiting.write_points(store, old, ())
    waiting.put_points(LOUD, [point(1, 2)])
    waiting.write_points(store, new, [(LOUD, point(1, 3))])
    assert [one.step for one in store.points(LOUD)] == [1, 2, 3]
    assert waiting.points == {}


def test_points_are_known_to_be_on_their_way_until_they_are_written() -> None:
    class Slow(MemoryStore):
        def add_points(self, *said: object) -> None:
            seen.append(waiting.has_points(LOUD))

    seen: list[bool] = []
    store, waiting = Slow(), Inbox()
    waiting.put_points(LOUD, [point(1, 1)])
    assert (waiting.has_points(LOUD), waiting.has_points(QUIET)) == (True, False)
    waiting.write_points(store, store.take_lead("me"), ())
    assert (seen, waiting.has_points(LOUD)) == ([True], False)
