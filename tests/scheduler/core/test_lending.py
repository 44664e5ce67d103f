"""What a guarantee gave up is lent after a pause, and what runs already is in-guarantee first."""

from __future__ import annotations

from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.state import Cancel
from gpucommons.scheduler.core.types import HoldClass, State, TeamName, WorkloadId

PAUSE_MS = 120_000
NLP = TeamName("nlp")


def a_world(lend_after_ms: int = PAUSE_MS, gpus: int = 2) -> World:
    teams = [a_team("vision", guaranteed_milli_gpu=1000), a_team("nlp", guaranteed_milli_gpu=1000)]
    return World(a_node(gpus=gpus), teams=teams, pools=[a_pool(lend_after_ms=lend_after_ms)])


def hold_class(world: World, workload_id: WorkloadId) -> HoldClass:
    attempt = world.get(workload_id).current
    assert attempt is not None
    return attempt.hold_class


def busy_world(lend_after_ms: int = PAUSE_MS) -> tuple[World, WorkloadId, WorkloadId]:
    """Both teams inside their guarantee, and more work of vision waiting."""
    world = a_world(lend_after_ms)
    world.run(a_job("v-1"))
    other = world.run(a_job("n-1", team=NLP))
    waiting = world.submit(a_job("v-2"))
    assert world.state(waiting) is State.QUEUED
    return world, other, waiting


def test_a_guarantee_that_was_just_used_is_lent_after_the_pause() -> None:
    world, other, waiting = busy_world()

    world.end(other)

    assert world.state(waiting) is State.QUEUED
    assert world.outcome.wake_ms is not None
    assert world.outcome.wake_ms <= world.now + PAUSE_MS
    world.wait(PAUSE_MS)
    assert world.state(waiting) is State.STARTING


def test_without_a_pause_it_is_lent_at_once() -> None:
    world, other, waiting = busy_world(0)

    world.end(other)

    assert world.state(waiting) is State.STARTING


def test_the_team_itself_starts_at_once_and_stops_nobody() -> None:
    world, other, waiting = busy_world()
    world.end(other)

    back = world.submit(a_job("n-2", team=NLP))

    assert world.state(back) is State.STARTING
    assert hold_class(world, back) is HoldClass.GUARANTEED
    assert "stop-announced" not in world.kinds()
    assert world.state(waiting) is State.QUEUED


def test_a_team_that_came_back_elsewhere_holds_nothing_back() -> None:
    world = a_world(gpus=3)
    world.run(a_job("v-1"))
    first = world.run(a_job("n-1", team=NLP))
    lent = world.run(a_job("v-2"))
    world.end(first)
    world.step()
    world.end(lent)
    back = world.run(a_job("n-2", team=NLP))
    assert hold_class(world, back) is HoldClass.GUARANTEED

    waiting = world.submit(a_job("v-3"))

    assert world.state(waiting) is State.STARTING


def test_what_borrowers_give_up_is_lent_at_once() -> None:
    world = a_world()
    world.run(a_job("v-1"))
    lent = world.run(a_job("v-2"))
    waiting = world.submit(a_job("v-3"))

    verdict = world.ask(Cancel(workload_id=lent))
    assert verdict.error is None
    world.end(lent, 143)

    assert world.state(waiting) is State.STARTING


def test_a_running_borrower_takes_the_guarantee_before_a_waiting_job_reclaims_for_it() -> None:
    world = a_world()
    inside = world.run(a_job("v-1"))
    borrower = world.run(a_job("v-2"))
    older = world.submit(a_job("v-3"))
    assert hold_class(world, borrower) is HoldClass.OVER_QUOTA

    world.end(inside)

    assert hold_class(world, borrower) is HoldClass.GUARANTEED
    assert "stop-announced" not in world.kinds()
    assert world.state(older) in {State.QUEUED, State.STARTING}
