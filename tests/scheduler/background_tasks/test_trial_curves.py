"""A trial's curve is read once; what is written then is heard of, and weighed against others where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from stored_rows import job, point, running

from gpucommons.scheduler.background_tasks import trial_curves
from gpucommons.scheduler.background_tasks.trial_curves import CurveReader, ToldPoints
from gpucommons.scheduler.core.model.types import State
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.store.base import LogPoint
from gpucommons.scheduler.store.memory import MemoryStore

JOB = running(1)


class World:
    """A curve that the loop writes, and who reads it."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.epoch = self.store.take_lead("me")
        self.reader = CurveReader(self.store)

    def write(self, *points: LogPoint) -> None:
        self.store.add_points(self.epoch, {JOB.workload_id: points})
        self.reader.tell(JOB.workload_id, points)

    def new_steps(self) -> list[int]:
        return [one.step for one in self.reader.new_points(JOB)]


def test_what_was_written_before_the_first_look_is_read_and_what_comes_then_is_heard_of() -> None:
    world = World()
    world.write(point(1, 1), point(1, 2))
    assert not world.reader.is_up_to_date(JOB.workload_id)
    assert world.new_steps() == [1, 2]
    world.store = world.reader._store = None  # nothing is read any more
    assert (world.reader.is_up_to_date(JOB.workload_id), world.new_steps()) == (True, [])
    world.reader.tell(JOB.workload_id, [point(1, 4), point(1, 3)])
    assert not world.reader.is_up_to_date(JOB.workload_id)
    assert world.new_steps() == [3, 4]


def test_a_second_source_is_weighed_against_the_first_by_all_of_both() -> None:
    world = World()
    world.write(replace(point(1, 1), source="log"), replace(point(1, 2), source="log"))
    assert world.new_steps() == [1, 2]
    # The script's own word counts more than what was read of its log: from its first point on.
    world.write(point(1, 3))
    assert [one.source for one in world.reader.new_points(JOB)] == ["report"]
    world.write(replace(point(1, 4), source="log"))
    assert [one.source for one in world.reader.new_points(JOB)] in ([], ["report"])


def test_what_was_told_before_a_read_that_failed_is_read_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.write(replace(point(1, 1), source="log"))
    assert world.new_steps() == [1]
    world.write(point(1, 2))
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "curve_sources", _failing)
        with pytest.raises(OSError, match="no store"):
            world.new_steps()
    assert [(one.source, one.step) for one in world.reader.new_points(JOB)] == [("report", 2)]


def _failing(*_: object, **__: object) -> None:
    raise OSError("no store")


def test_of_more_points_at_once_than_are_kept_the_whole_curve_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial_curves, "_MOST", 3)
    world, told = World(), ToldPoints()
    world.write(point(1, 0))
    assert world.new_steps() == [0]
    many: Sequence[LogPoint] = [point(1, step) for step in range(1, 9)]
    world.store.add_points(world.epoch, {JOB.workload_id: many})
    told.put(ParentId("s-1"), JOB.workload_id, many)
    ((parent, job_id, kept),) = told.take()
    assert (parent, len(kept)) == ("s-1", 4)
    world.reader.tell(job_id, kept)
    assert {0, 8} <= set(world.new_steps())
    assert list(told.take()) == []


def test_a_job_that_is_over_is_judged_by_all_that_the_store_has_of_it() -> None:
    world = World()
    assert world.new_steps() == []
    over = job(1, State.SUCCEEDED)
    world.store.add_points(world.epoch, {JOB.workload_id: [point(1, 5)]})
    assert [one.step for one in world.reader.new_points(over)] == [5]
    assert not world.reader.is_up_to_date(JOB.workload_id)


def test_of_a_job_that_has_not_begun_nothing_is_read_and_all_is_heard_of() -> None:
    world, waits = World(), job(1)
    world.store, world.reader._store = None, None  # nothing is read
    assert world.reader.new_points(waits) == []
    world.reader.tell(JOB.workload_id, [point(1, 1)])
    assert world.new_steps() == [1]


def test_of_a_job_that_was_just_submitted_all_is_heard_of_though_it_runs_at_the_first_look() -> (
    None
):
    world = World()
    world.reader.begins(JOB.workload_id)
    world.write(point(1, 1))
    world.store = world.reader._store = None  # nothing is read
    assert world.new_steps() == [1]
