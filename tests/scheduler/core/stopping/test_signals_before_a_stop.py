"""Who asks for a signal with a notice has it before SIGTERM, whoever stops them for a while."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.events.due_actions import due
from gpucommons.scheduler.core.model.actions import Act, AnnounceStop, SignalAttempt
from gpucommons.scheduler.core.model.intents import Cancel, Pause, Resume
from gpucommons.scheduler.core.model.state import CheckpointReported
from gpucommons.scheduler.core.model.types import Checkpoint, Millis, State, WorkloadId

SECOND = 1000


def a_world(**pool: object) -> World:
    """Nobody has a guarantee but nlp: vision borrows, and is tested."""
    settings = {"notice_ms": 30 * SECOND, "grace_ms": 20 * SECOND, "drills": "on", **pool}
    teams = [a_team(), a_team("nlp", guaranteed_milli_gpu=2000)]
    return World(a_node(gpus=2), teams=teams, pools=[a_pool(**settings)])


def pause(world: World, job: WorkloadId) -> None:
    world.ask(Pause(workload_id=job))


def drill(world: World, job: WorkloadId) -> None:
    world.now += 60 * SECOND
    attempt_id = world.attempt_id(job)
    saved = Checkpoint(
        attempt_id=attempt_id,
        step=1,
        path="x",
        size_bytes=1,
        sha256="0" * 64,
        at_ms=Millis(world.now),
    )
    world.step(CheckpointReported(attempt_id=attempt_id, checkpoint=saved))


def preempt(world: World, _job: WorkloadId) -> None:
    world.submit(a_job("theirs", 2000, team="nlp"))


def acts(world: World, job: WorkloadId) -> tuple[Act, ...]:
    return due([world.get(job)], world.now)


STOPS: list[tuple[Callable[[World, WorkloadId], None], State, State]] = [
    (pause, State.PAUSING, State.PAUSED),
    (drill, State.RUNNING, State.STARTING),
    (preempt, State.RUNNING, State.QUEUED),
]


@pytest.mark.parametrize(("stop", "meanwhile", "after"), STOPS)
@pytest.mark.parametrize("by_pool", [True, False])
def test_the_signal_comes_at_once_and_sigterm_after_the_notice(
    stop: Callable[[World, WorkloadId], None], meanwhile: State, after: State, *, by_pool: bool
) -> None:
    world = a_world(notice_signal="SIGUSR1" if by_pool else "none", min_run_ms=0)
    job = world.run(a_job(snapshot="a" * 64, notice_signal=None if by_pool else "SIGUSR1"))
    stop(world, job)
    told_ms = world.now
    found = world.stop_of(job)
    assert (found.notice_signal, found.signalled) == ("SIGUSR1", False)
    assert (found.term_ms, found.kill_ms) == (told_ms + 30_000, told_ms + 50_000)
    assert world.state(job) is meanwhile
    attempt_id = world.attempt_id(job)
    world.wait(29 * SECOND)
    assert acts(world, job) == (AnnounceStop(attempt_id=attempt_id),)
    world.wait(SECOND)
    assert acts(world, job) == (SignalAttempt(attempt_id=attempt_id),)
    assert world.stop_of(job).signalled
    world.now += SECOND
    world.end(job, 0, told=True)
    assert world.state(job) is after


@pytest.mark.parametrize(("stop", "_meanwhile", "after"), STOPS)
def test_who_has_saved_leaves_before_the_notice_is_over(
    stop: Callable[[World, WorkloadId], None], _meanwhile: State, after: State
) -> None:
    world = a_world(min_run_ms=0)
    job = world.run(a_job(snapshot="a" * 64, notice_signal="SIGUSR1"))
    stop(world, job)
    world.now += 2 * SECOND
    world.end(job, 0, told=True)
    assert world.state(job) is after


@pytest.mark.parametrize("stop", [pause, drill])
def test_who_asks_for_no_signal_is_told_by_sigterm_at_once(
    stop: Callable[[World, WorkloadId], None],
) -> None:
    world = a_world(notice_signal="SIGUSR1")
    job = world.run(a_job(snapshot="a" * 64, notice_signal="none"))
    stop(world, job)
    assert world.stop_of(job).signalled
    assert world.stop_of(job).kill_ms == world.now + 20_000


def test_a_job_that_was_told_already_is_not_told_twice_when_it_is_paused() -> None:
    world = a_world(min_run_ms=0)
    job = world.run(a_job(notice_signal="SIGUSR1"))
    preempt(world, job)
    told_ms = world.now
    world.wait(10 * SECOND)
    pause(world, job)
    assert world.stop_of(job).why == "pause"
    assert world.stop_of(job).announced_ms == told_ms
    assert world.stop_of(job).term_ms == told_ms + 30_000
    world.wait(20 * SECOND)
    assert acts(world, job) == (SignalAttempt(attempt_id=world.attempt_id(job)),)


def test_a_pause_stays_one_whoever_needs_the_gpu_meanwhile() -> None:
    world = a_world(min_run_ms=0)
    job = world.run(a_job(notice_signal="SIGUSR1"))
    pause(world, job)
    preempt(world, job)
    assert world.stop_of(job).why == "pause"
    world.end(job, 0, told=True)
    assert world.state(job) is State.PAUSED
    world.ask(Resume(workload_id=job))
    assert world.state(job) is State.QUEUED


def test_a_cancel_waits_for_no_notice() -> None:
    world = a_world()
    job = world.run(a_job(notice_signal="SIGUSR1"))
    pause(world, job)
    world.ask(Cancel(workload_id=job))
    assert world.stop_of(job).signalled
    assert world.state(job) is State.CANCELLING


def test_an_error_of_its_own_within_the_notice_of_a_pause_is_its_own() -> None:
    world = a_world()
    job = world.run(a_job(notice_signal="SIGUSR1"))
    pause(world, job)
    world.end(job, 1, told=False)
    assert world.state(job) is State.FAILED
