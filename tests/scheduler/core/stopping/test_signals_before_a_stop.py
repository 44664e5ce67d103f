"""Who asks for a signal with a notice has it before SIGTERM, whoever stops them for a while."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.events.due_actions import due
from gpucommons.scheduler.core.model.actions import Act, AnnounceStop, SignalAttempt
from gpucommons.scheduler.core.model.intents import Cancel, NoticeNode, Pause, PutPools, Resume
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
    save(world, job)


def save(world: World, job: WorkloadId) -> None:
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


def grow(world: World, job: WorkloadId) -> None:
    """One worker of two that it likes, beside a GPU that has been idle; it has just saved."""
    world.wait(120 * SECOND)
    save(world, job)
    for _ in range(10):
        if world.stop_of(job) is not None:
            return
        assert world.outcome.wake_ms is not None
        world.wait(max(1, world.outcome.wake_ms - world.now))
    raise AssertionError


def take_back(world: World, job: WorkloadId, in_s: int = 120) -> None:
    attempt = world.get(job).current
    assert attempt is not None
    at_ms = Millis(world.now + in_s * SECOND)
    world.ask(NoticeNode(node_id=attempt.placements[0].node_id, leaves_ms=at_ms), "admin")


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


def test_who_was_told_has_as_long_as_was_said_whatever_the_pool_says_by_now() -> None:
    world = a_world(min_run_ms=0)
    job = world.run(a_job(notice_signal="SIGUSR1"))
    preempt(world, job)
    told_ms = world.now
    shorter = a_pool(notice_ms=5 * SECOND, grace_ms=SECOND, drills="on", min_run_ms=0)
    world.ask(PutPools(pools=(shorter,)), "admin")
    world.wait(10 * SECOND)
    pause(world, job)
    stop = world.stop_of(job)
    assert (stop.why, stop.signalled) == ("pause", False)
    assert (stop.term_ms, stop.kill_ms) == (told_ms + 30_000, told_ms + 50_000)


def test_who_was_told_without_a_signal_waits_for_none_when_it_is_paused() -> None:
    world = a_world(min_run_ms=0)
    job = world.run(a_job())
    preempt(world, job)
    asks = a_pool(
        notice_ms=30 * SECOND, grace_ms=20 * SECOND, notice_signal="SIGUSR1", min_run_ms=0
    )
    world.ask(PutPools(pools=(asks,)), "admin")
    pause(world, job)
    assert world.stop_of(job).signalled, "its notice is written, and none follows"


def test_a_job_that_changes_its_size_is_told_first() -> None:
    world = a_world(drills="off", min_run_ms=0)
    other = world.run(a_job("other"))
    job = world.run(a_job("elastic", min_workers=1, max_workers=2, notice_signal="SIGUSR1"))
    world.end(other)
    grow(world, job)
    found = world.stop_of(job)
    assert (found.why, found.notice_signal, found.signalled) == ("grow", "SIGUSR1", False)
    assert world.state(job) is State.RUNNING
    assert acts(world, job) == (AnnounceStop(attempt_id=world.attempt_id(job)),)
    world.wait(30 * SECOND)
    assert world.stop_of(job).signalled
    world.end(job, 143, told=True)
    attempt = world.get(job).current
    assert attempt is not None
    assert len(attempt.placements) == 2


@pytest.mark.parametrize(
    ("in_s", "term_s", "kill_s"),
    [(120, 30, 115), (55, 30, 50), (30, 15, 25), (5, 0, 0)],
)
def test_before_its_node_goes_notice_and_grace_share_the_seconds(
    in_s: int, term_s: int, kill_s: int
) -> None:
    world = a_world()
    job = world.run(a_job(notice_signal="SIGUSR1"))
    told_ms = world.now
    take_back(world, job, in_s)
    found = world.stop_of(job)
    assert (found.why, found.notice_signal) == ("spot", "SIGUSR1")
    assert (found.term_ms, found.kill_ms) == (told_ms + term_s * SECOND, told_ms + kill_s * SECOND)
    world.wait(term_s * SECOND)
    stop = world.stop_of(job)
    assert (stop.signalled, stop.kill_ms) == (True, told_ms + kill_s * SECOND), (
        "a cloud waits for none"
    )


def test_a_node_that_goes_sooner_than_was_said_leaves_less_of_both() -> None:
    world = a_world()
    job = world.run(a_job(notice_signal="SIGUSR1"))
    told_ms = world.now
    take_back(world, job, 120)
    world.wait(10 * SECOND)
    take_back(world, job, 30)
    stop = world.stop_of(job)
    assert (stop.announced_ms, stop.kill_ms) == (told_ms, told_ms + 35_000)
    assert told_ms + 10_000 < stop.term_ms < told_ms + 30_000


def test_a_paused_job_whose_node_goes_is_paused() -> None:
    world = a_world()
    job = world.run(a_job(notice_signal="SIGUSR1"))
    pause(world, job)
    take_back(world, job)
    assert (world.stop_of(job).why, world.state(job)) == ("spot", State.PAUSING)
    world.end(job, 143, told=True)
    assert world.state(job) is State.PAUSED


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
