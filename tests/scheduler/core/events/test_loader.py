"""How a job loads its data, chosen for its next attempt: on record, and never in what runs."""

from __future__ import annotations

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.events.loader import IN_A_ROW, SPAN_MS
from gpucommons.scheduler.core.model.intents import ChooseLoader, Pause, Resume
from gpucommons.scheduler.core.model.state import ProgressReported
from gpucommons.scheduler.core.model.types import Progress, WorkloadId
from gpucommons.scheduler.data_loading import Loading


@pytest.fixture
def world() -> World:
    return World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=4000)])


def test_a_choice_is_told_with_what_was_before_and_only_where_it_changes_something(
    world: World,
) -> None:
    job = world.run(a_job("digits-1", 1000))
    for workers in (4, 4, 0, None):
        assert world.ask(ChooseLoader(workload_id=job, workers=workers)).error is None
    told = [event for event in world.events if event.kind == "loader"]
    assert [dict(event.data) for event in told] == [
        {"old": "what its script says", "new": "4 workers, 2 batches ahead each"},
        {"old": "4 workers, 2 batches ahead each", "new": "no workers"},
        {"old": "no workers", "new": "what its script says"},
    ]
    assert told[0].by == "ann"
    assert told[0].text.startswith("digits-1 loads its data with 4 workers")
    assert world.get(job).loader is None


def test_who_changes_it_without_end_does_not_fill_the_history(world: World) -> None:
    job = world.run(a_job("digits-1", 1000))

    def told_of(changes: int) -> int:
        before = len(world.events)
        for number in range(changes):
            world.ask(ChooseLoader(workload_id=job, workers=(number + 1) % 2 or None))
        return sum(event.kind == "loader" for event in world.events[before:])

    assert told_of(IN_A_ROW - 1) == IN_A_ROW - 1, "who tries a few is on record with each"
    assert told_of(201) == 1
    assert world.get(job).loader is not None, "the choice itself counts, told or not"
    world.wait(3 * SPAN_MS)
    assert told_of(20) == 3


def test_it_outlives_a_pause_and_what_is_over_takes_none(world: World) -> None:
    job = world.run(a_job("digits-1", 1000))
    world.ask(ChooseLoader(workload_id=job, workers=2, prefetch=1))
    world.ask(Pause(workload_id=job))
    world.end(job, exit_code=143)
    world.ask(Resume(workload_id=job))
    found = world.get(job).loader
    assert found is not None
    assert found.variables() == {
        "GPUCOMMONS_LOADER_WORKERS": "2",
        "GPUCOMMONS_LOADER_PREFETCH": "1",
    }
    unknown = ChooseLoader(workload_id=WorkloadId("workload-000009"), workers=1)
    assert world.ask(unknown).error == "UnknownWorkload"


def test_what_an_attempt_tells_of_its_loader_stays_with_it(world: World) -> None:
    job = world.run(a_job("digits-1", 1000))
    attempt = world.get(job).current
    assert attempt is not None
    told = Loading(batches=30, batch_us=100, wait_us=60)
    for step, loading in ((1, told), (2, None)):
        world.step(
            ProgressReported(
                attempt_id=attempt.attempt_id, progress=Progress(step=step), loading=loading
            )
        )
    found = world.get(job)
    assert found.current is not None
    assert found.current.loading == told
    assert found.progress is not None
    assert found.progress.step == 2
