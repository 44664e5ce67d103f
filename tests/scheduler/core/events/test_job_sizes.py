"""Another size for a job that waits: the same job, in its place, with its saved progress."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.events.job_size import as_submitted, size_of, with_size
from gpucommons.scheduler.core.model.intents import Pause, ResizeJob, Resume
from gpucommons.scheduler.core.model.types import State, WorkloadId


@pytest.fixture
def world() -> World:
    return World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=4000)])


def resized(world: World, job: WorkloadId, **size: int) -> str | None:
    now = size_of(world.get(job).spec)
    return world.ask(ResizeJob(workload_id=job, size=replace(now, **size))).error


def test_a_waiting_job_starts_at_another_size_as_the_same_job(world: World) -> None:
    world.run(a_job("digits-1", 2000))
    job = world.submit(a_job("digits-2", 4000))
    submitted = world.get(job).submitted_ms
    world.wait(1000)
    assert resized(world, job, milli_gpu=2000) is None
    found = world.get(job)
    assert (found.state, found.submitted_ms) == (State.STARTING, submitted)
    assert [len(one.device_ids) for one in found.attempts[-1].placements] == [2]
    assert size_of(as_submitted(found)).milli_gpu == 4000
    assert [event.kind for event in world.events][-3:].count("resized") == 1
    (told,) = [event for event in world.events if event.kind == "resized"]
    assert (told.text, told.by) == ("digits-2: 4 GPUs → 2 GPUs, by ann.", "ann")


def test_who_is_next_gives_its_place_up_to_none_by_asking_for_less(world: World) -> None:
    """It leaves the line of its old size whole: those behind it there do not move with it."""
    world.run(a_job("digits-1", 3000))
    first = world.submit(a_job("digits-2", 4000))
    second = world.submit(a_job("digits-3", 4000))
    assert resized(world, first, milli_gpu=2000) is None
    assert (world.state(first), world.state(second)) == (State.QUEUED, State.QUEUED)
    world.end(WorkloadId("workload-000001"))
    assert (world.state(first), world.state(second)) == (State.STARTING, State.QUEUED)


def test_a_paused_job_changes_its_size_and_resumes_with_it(world: World) -> None:
    job = world.run(a_job("digits-1", 4000, workers=1))
    assert resized(world, job, milli_gpu=1000) == "InvalidTransition"
    world.ask(Pause(workload_id=job))
    world.end(job, exit_code=143)
    assert world.state(job) is State.PAUSED
    assert resized(world, job, milli_gpu=1000, workers=2) is None
    assert world.state(job) is State.PAUSED
    world.ask(Resume(workload_id=job))
    assert len(world.get(job).attempts[-1].placements) == 2
    assert [one.number for one in world.get(job).attempts] == [1, 2]


def test_the_size_it_was_submitted_with_is_remembered_over_several_changes(world: World) -> None:
    world.run(a_job("digits-1", 4000))
    job = world.submit(a_job("digits-2", 4000, cpu_milli=8000))
    spec = world.get(job).spec
    for milli_gpu in (3000, 2000):
        assert resized(world, job, milli_gpu=milli_gpu) is None
    assert as_submitted(world.get(job)) == spec
    assert world.get(job).spec == with_size(spec, replace(size_of(spec), milli_gpu=2000))


def test_what_is_over_has_no_size_to_change(world: World) -> None:
    job = world.run(a_job("digits-1"))
    world.end(job)
    verdict = world.ask(ResizeJob(workload_id=job, size=size_of(world.get(job).spec)))
    assert verdict.error is not None
