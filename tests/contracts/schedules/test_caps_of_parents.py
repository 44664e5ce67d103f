"""So many schedules and pipelines of one owner are kept, however many are written at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName
from gpucommons.scheduler.errors import PolicyRefused
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.pipelines.pipeline import Pipeline, PipelineId
from gpucommons.scheduler.schedules.schedule import Concurrency, Schedule, ScheduleId
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.sweeps.sweep import Budget, Sweep

ADA, MOST = UserName("ada"), 5
SCHEDULE = Schedule(
    schedule_id=ScheduleId("s"),
    name="s",
    owner=ADA,
    team=TeamName("vision"),
    cron="@daily",
    time_zone="UTC",
    concurrency=Concurrency.FORBID,
    since_ms=Millis(0),
    request="{}",
)
PIPELINE = Pipeline(
    pipeline_id=PipelineId("p"),
    name="p",
    owner=ADA,
    team=TeamName("vision"),
    submitted_ms=Millis(0),
    steps=(),
)


SWEEP = Sweep(
    sweep_id=ParentId("w"),
    kind=ParentKind.SWEEP,
    name="w",
    owner=ADA,
    team=TeamName("vision"),
    made_ms=Millis(0),
    budget=Budget(trials=3),
    request="{}",
)


def put_schedule(store: Store, number: int, owner: UserName = ADA) -> None:
    name = f"s-{number:02}"
    made = replace(SCHEDULE, schedule_id=ScheduleId(f"{owner}-{name}"), name=name, owner=owner)
    store.schedules.put(made, next_ms=None, most=MOST)


def put_pipeline(store: Store, number: int, *, over: bool = False) -> None:
    name = f"p-{number:02}"
    made = replace(PIPELINE, pipeline_id=PipelineId(name), name=name)
    store.pipelines.put(made, next_ms=None if over else Millis(1), most=MOST)


def put_sweep(store: Store, number: int) -> None:
    made = replace(SWEEP, sweep_id=ParentId(f"w-{number:02}"), name=f"w-{number:02}")
    store.sweeps.put(made, most=MOST)


def kept(store: Store) -> list[str]:
    return [one.pipeline.name for one in store.pipelines.of(ADA)]


@pytest.mark.parametrize("put", [put_schedule, put_pipeline, put_sweep])
def test_of_many_that_are_written_at_once_no_more_are_kept_than_may(
    url: str, store: Store, put: Callable[[Store, int], None]
) -> None:
    replicas = [store] if url == "memory:" else [store, open_store(url)]
    begin = threading.Barrier(8)

    def flood(thread: int) -> int:
        begin.wait(60)
        let_in = 0
        for number in range(3):
            try:
                put(replicas[thread % len(replicas)], 10 * thread + number)
            except PolicyRefused:
                continue
            let_in += 1
        return let_in

    with ThreadPoolExecutor(8) as threads:
        let_in = sum(threads.map(flood, range(8)))

    schedules, pipelines = store.schedules.all(ADA), store.pipelines.of(ADA)
    assert let_in == len(schedules) + len(pipelines) + len(store.sweeps.live()) == MOST
    for other in replicas[1:]:
        other.close()


def test_a_schedule_that_is_there_is_written_anew_and_others_have_room(store: Store) -> None:
    for number in range(MOST):
        put_schedule(store, number)
    with pytest.raises(PolicyRefused, match="ada has 5 schedules, as many as one may"):
        put_schedule(store, MOST)
    first = store.schedules.all(ADA)[0].schedule
    changed = replace(first, cron="@hourly")
    store.schedules.put(changed, next_ms=None, before=first, most=MOST)
    put_schedule(store, 0, UserName("bob"))
    assert store.schedules.all(ADA)[0].schedule == changed
    assert len(store.schedules.all()) == MOST + 1


def test_a_sweep_that_is_stopped_makes_room_and_has_none_when_it_is_to_go_on(store: Store) -> None:
    for number in range(MOST):
        put_sweep(store, number)
    with pytest.raises(PolicyRefused, match="ada has 5 sweeps and maps that go on"):
        put_sweep(store, MOST)
    first = store.sweeps.live()[0].sweep
    stopped = replace(first, stopped=True)
    store.sweeps.put(stopped, before=first, most=MOST)
    put_sweep(store, MOST)
    with pytest.raises(PolicyRefused, match="stop one first"):
        store.sweeps.put(first, before=stopped, most=MOST)


def test_the_oldest_pipeline_that_is_over_makes_room(store: Store) -> None:
    for number in range(MOST):
        put_pipeline(store, number, over=number in (1, 3))
    put_pipeline(store, 5)
    assert kept(store) == ["p-00", "p-02", "p-03", "p-04", "p-05"]
    put_pipeline(store, 6)
    with pytest.raises(PolicyRefused, match="You have 5 pipelines that are not over"):
        put_pipeline(store, 7)
    assert kept(store) == ["p-00", "p-02", "p-04", "p-05", "p-06"]
