"""Elastic jobs that run take room that stays idle: when, how often, and never from anybody."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import builders
import pytest
from builders import World, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.elastic.gain import times_faster
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.state import CheckpointReported, ProgressReported
from gpucommons.scheduler.core.model.types import (
    Checkpoint,
    HoldClass,
    Millis,
    Progress,
    Spec,
    State,
    WorkloadId,
)
from gpucommons.scheduler.core.passes.elastic_sizes import PAUSE_MS

MINUTE = 60_000


def save(world: World, job: WorkloadId, step: int = 7) -> None:
    attempt_id = world.attempt_id(job)
    checkpoint = Checkpoint(
        attempt_id=attempt_id, step=step, path="x", size_bytes=1, sha256="0" * 64, at_ms=world.now
    )
    world.step(CheckpointReported(attempt_id=attempt_id, checkpoint=checkpoint))


def workers(world: World, job: WorkloadId) -> int:
    attempt = world.get(job).current
    return 0 if attempt is None else len(attempt.placements)


@pytest.fixture
def world() -> World:
    return World(a_node(gpus=4), teams=[a_team(), a_team("nlp", guaranteed_milli_gpu=1000)])


@pytest.fixture
def small(world: World) -> WorkloadId:
    """Two of four workers, in the room that another job leaves; that ends, and the rest is idle."""
    other = world.run(a_job("other", 2000))
    job = world.run(a_job("elastic", 1000, min_workers=1, max_workers=4))
    assert workers(world, job) == 2
    world.end(other)
    return job


def until_it_stops(world: World, job: WorkloadId) -> None:
    for _ in range(10):
        if world.stop_of(job) is not None:
            return
        assert world.outcome.wake_ms is not None, "nothing would ever look again"
        world.wait(max(1, world.outcome.wake_ms - world.now))
    raise AssertionError


def test_idle_room_is_taken_after_as_long_as_the_restart_costs(
    world: World, small: WorkloadId
) -> None:
    world.wait(5 * MINUTE)
    assert world.stop_of(small) is None, "what it did would be lost"
    save(world, small)
    until_it_stops(world, small)
    stop = world.stop_of(small)
    assert (stop.why, stop.text) == ("grow", "to go on with 4 workers")
    assert world.state(small) is State.PREEMPTING
    world.end(small, 143)
    attempt = world.get(small).current
    assert attempt is not None
    assert (len(attempt.placements), attempt.resumed_from.step) == (4, 7)  # type: ignore[union-attr]
    assert "evicted" not in world.kinds()
    assert world.get(small).attempts[0].ended_text == (
        "Stopped to go on with 4 workers: goes on from step 7; at most 5 s of work since then is repeated"
    )


def test_an_error_of_its_own_while_it_grows_is_its_own(world: World, small: WorkloadId) -> None:
    save(world, small)
    until_it_stops(world, small)
    world.end(small, 1)
    assert world.state(small) is State.FAILED


def test_room_that_somebody_waits_for_is_not_idle(world: World, small: WorkloadId) -> None:
    save(world, small)
    world.run(a_job("three", 1000))
    waits = world.submit(a_job("waits", 4000))
    assert world.state(waits) is State.QUEUED
    for _ in range(5):
        world.wait(10 * MINUTE)
        save(world, small)
        assert world.stop_of(small) is None
    assert world.cluster.pending_resizes == {}


@pytest.mark.parametrize("explain", [True, False])
@pytest.mark.parametrize(
    "never",
    [
        a_job("larger than any node", 5000),
        a_job("beyond its guarantee", 4000, team="nlp", over_quota=False),
        a_notebook("ann", 1000, team="speech"),
    ],
    ids=lambda spec: spec.name,
)
def test_who_can_never_start_keeps_nobody_from_growing(
    monkeypatch: pytest.MonkeyPatch, explain: bool, never: Spec
) -> None:
    # A replay tells no reasons, and grows the same jobs as the real pool.
    monkeypatch.setattr(builders, "advance", partial(builders.advance, explain=explain))
    teams = [a_team(), a_team("nlp", guaranteed_milli_gpu=1000), a_team("speech")]
    world = World(a_node(gpus=4), teams=teams)
    other = world.run(a_job("other", 2000))
    job = world.run(a_job("elastic", 1000, min_workers=1, max_workers=4))
    world.end(other)
    waits = world.try_submit(never).workload_id
    assert waits is not None
    save(world, job)
    until_it_stops(world, job)
    assert world.state(waits) in {State.QUEUED, State.WAITING}


def test_a_job_that_never_saves_never_grows(world: World, small: WorkloadId) -> None:
    for _ in range(10):
        world.wait(60 * MINUTE)
        assert world.stop_of(small) is None


def test_after_a_change_of_size_it_is_left_alone_for_a_while() -> None:
    world = World(a_node(gpus=4), teams=[a_team()], pools=[a_pool(min_run_ms=0)])
    blockers = [world.run(a_job(f"b-{i}")) for i in range(3)]
    job = world.run(a_job("elastic", 1000, min_workers=1, max_workers=4))
    assert workers(world, job) == 1
    world.end(blockers[0])
    world.wait(5 * MINUTE)
    save(world, job)
    until_it_stops(world, job)
    world.end(job, 143)
    world.start(job)
    assert workers(world, job) == 2
    changed_ms = world.get(job).attempts[0].ended_ms
    assert changed_ms is not None
    world.end(blockers[1])
    while world.now < changed_ms + PAUSE_MS:
        assert world.stop_of(job) is None
        world.wait(MINUTE)
        save(world, job)
    until_it_stops(world, job)


def test_of_two_one_grows_at_a_time(world: World) -> None:
    large, small = world.run(a_job("large", 2000)), world.run(a_job("small", 1000))
    first = world.run(a_job("e-1", 1000, min_workers=1, max_workers=2))
    world.end(small)
    second = world.run(a_job("e-2", 1000, min_workers=1, max_workers=2))
    jobs = [first, second]
    assert [workers(world, job) for job in jobs] == [1, 1]
    world.end(large)
    for job in jobs:
        save(world, job)
    for _ in range(3):
        world.wait(MINUTE)
    assert sum(world.stop_of(job) is not None for job in jobs) == 1


def test_who_grows_takes_the_room_that_an_older_one_waited_for(world: World) -> None:
    large, small = world.run(a_job("large", 2000)), world.run(a_job("small", 1000))
    older = world.run(a_job("e-1", 1000, min_workers=1, max_workers=2))
    world.end(small)
    younger = world.run(a_job("e-2", 1000, min_workers=1, max_workers=2))
    world.end(large)
    assert set(world.cluster.pending_resizes) == {older, younger}
    save(world, younger)
    until_it_stops(world, younger)
    assert set(world.cluster.pending_resizes) <= {older}
    decided = world.cluster
    world.step()
    assert world.cluster == decided


def test_its_place_goes_to_a_guarantee_that_comes_meanwhile(
    world: World, small: WorkloadId
) -> None:
    save(world, small)
    until_it_stops(world, small)
    owner = world.submit(a_job("owner", 1000, team="nlp"))
    assert world.state(owner) in (State.ADMITTED, State.STARTING)
    world.end(small, 143)
    assert workers(world, small) == 3


def report(world: World, job: WorkloadId, step: int, total_steps: int | None = None) -> None:
    progress = Progress(step=step, total_steps=total_steps, at_ms=Millis(world.now))
    world.step(ProgressReported(attempt_id=world.attempt_id(job), progress=progress))


def go_on(world: World, job: WorkloadId, minutes: int, per_minute: int) -> None:
    """It works for so long, reports and saves each minute, unless it is stopped."""
    for _ in range(minutes):
        if world.stop_of(job) is not None:
            return
        world.wait(MINUTE)
        progress = world.get(job).progress
        step = (0 if progress is None else progress.step) + per_minute
        report(world, job, step)
        save(world, job, step)


def grown(world: World, job: WorkloadId) -> None:
    """It grew as it asked to, and runs."""
    stop = world.stop_of(job)
    assert stop is not None
    assert stop.why == StopCause.OWN_SIZE
    world.end(job, 143)
    world.start(job)


def test_more_workers_that_were_measured_to_be_slower_are_given_back(
    world: World, small: WorkloadId
) -> None:
    report(world, small, 0)
    go_on(world, small, 120, per_minute=100)
    grown(world, small)
    assert workers(world, small) == 4
    go_on(world, small, 600, per_minute=50)
    assert world.stop_of(small).text == "to go on with 2 workers"  # type: ignore[union-attr]
    grown(world, small)
    assert workers(world, small) == 2
    go_on(world, small, 600, per_minute=100)
    assert world.stop_of(small) is None, "it knows that four are slower"


def test_inside_a_guarantee_workers_that_were_measured_to_be_slower_stay_away() -> None:
    world = World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=4000)])
    other = world.run(a_job("other", 2000))
    job = world.run(a_job("elastic", 1000, workers=4, min_workers=1, max_workers=4))
    assert workers(world, job) == 2
    world.end(other)
    report(world, job, 0)
    go_on(world, job, 120, per_minute=100)
    grown(world, job)
    assert workers(world, job) == 4
    go_on(world, job, 600, per_minute=50)
    grown(world, job)
    assert workers(world, job) == 2
    attempt = world.get(job).current
    assert attempt is not None
    assert attempt.hold_class is HoldClass.GUARANTEED


def test_it_does_not_grow_beyond_twice_what_it_was_measured_with() -> None:
    world = World(a_node(gpus=8), teams=[a_team()])
    other = world.run(a_job("other", 7000))
    job = world.run(a_job("elastic", 1000, min_workers=1, max_workers=8))
    world.end(other)
    report(world, job, 0)
    go_on(world, job, 120, per_minute=100)
    grown(world, job)
    assert workers(world, job) == 2
    go_on(world, job, 600, per_minute=50)
    assert world.stop_of(job).text == "to go on with 1 worker"  # type: ignore[union-attr]


def test_it_does_not_grow_where_it_is_done_before_a_restart_has_paid(
    world: World, small: WorkloadId
) -> None:
    report(world, small, 0, total_steps=12_000)
    world.wait(20 * MINUTE)
    for _ in range(100):
        world.wait(MINUTE)
        report(world, small, 11_990, total_steps=12_000)
        save(world, small)
        assert world.stop_of(small) is None


@pytest.mark.parametrize("team", ["vision", "nlp"])
def test_a_job_that_borrows_shrinks_for_one_that_waits_and_goes_on(team: str) -> None:
    world = World(a_node(gpus=4), teams=[a_team(), a_team("nlp")])
    job = world.run(a_job("elastic", 1000, workers=2, min_workers=1, max_workers=4))
    assert workers(world, job) == 4
    waits = world.submit(a_job("waits", 2000, team=team))
    assert world.stop_of(job) is None, "it has had no time to do anything yet"
    world.wait(world.cluster.pools[world.get(job).spec.pools[0]].min_run_ms)
    stop = world.stop_of(job)
    assert (stop.why, stop.beneficiary) == ("resize", waits)  # type: ignore[union-attr]
    world.end(job, 143)
    assert workers(world, job) == 2
    assert world.state(waits) is State.STARTING


def test_nobody_is_stopped_whole_for_room(world: World) -> None:
    rigid = world.run(a_job("rigid", 3000))
    job = world.run(a_job("elastic", 1000, min_workers=1, max_workers=2))
    world.submit(a_job("waits", 1000))
    world.wait(120 * MINUTE)
    assert world.stop_of(rigid) is None
    assert world.stop_of(job) is None


def test_a_script_that_saves_before_it_tells_its_step_grows_by_what_it_tells(world: World) -> None:
    """Not to all that is idle at its first save, as if it told nothing."""
    other = world.run(a_job("other", 3000))
    job = world.run(a_job("elastic", 1000, min_workers=1, max_workers=4))
    world.end(other)
    world.wait(5 * MINUTE)
    world.wait(60 * MINUTE)
    save(world, job, step=1)
    assert world.stop_of(job) is None
    report(world, job, step=1)
    go_on(world, job, 120, per_minute=100)
    grown(world, job)
    assert workers(world, job) == 2


def test_an_attempt_that_was_cut_short_does_not_hide_how_much_faster_more_workers_are(
    world: World, small: WorkloadId
) -> None:
    report(world, small, 0)
    go_on(world, small, 120, per_minute=100)
    grown(world, small)
    report(world, small, 100_000)
    world.wait(MINUTE)
    report(world, small, 100_200)
    found = world.get(small)
    first, large = found.attempts
    assert times_faster(found, large) == 2
    cut_short = replace(first, number=2, pace=None)
    large = replace(large, number=3)
    assert times_faster(replace(found, attempts=(first, cut_short, large)), large) == 2
