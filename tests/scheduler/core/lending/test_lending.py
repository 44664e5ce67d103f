"""What a guarantee gave up is lent after a pause, and what runs already is in-guarantee first."""

from __future__ import annotations

from dataclasses import replace

from builders import World, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.model.intents import Cancel, Started
from gpucommons.scheduler.core.model.lifecycle import REDEEM_WITHIN_MS
from gpucommons.scheduler.core.model.types import HoldClass, State, TeamName, WorkloadId

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


def a_wide_world(unlent_permille: int) -> World:
    """Ten GPUs, of which nlp is guaranteed five and vision borrows."""
    teams = [a_team("vision"), a_team("nlp", guaranteed_milli_gpu=5000)]
    pool = replace(a_pool(), unlent_permille=unlent_permille)
    return World(a_node(gpus=10), teams=teams, pools=[pool])


def test_a_few_gpus_are_kept_from_borrowers_so_that_a_return_stops_nobody() -> None:
    world = a_wide_world(200)
    borrowers = [world.submit(a_job(f"v-{i}")) for i in range(10)]
    assert [world.state(one) for one in borrowers].count(State.STARTING) == 8

    back = [world.submit(a_job(f"n-{i}", team=NLP)) for i in range(2)]

    assert [world.state(one) for one in back] == [State.STARTING, State.STARTING]
    assert "stop-announced" not in world.kinds()

    # The gap is filled by whoever ends, and nobody who borrows is stopped for that.
    world.start(borrowers[0])
    world.end(borrowers[0])
    assert world.state(borrowers[8]) is State.QUEUED
    assert "stop-announced" not in world.kinds()


def test_no_more_is_kept_than_guarantees_may_still_ask_for() -> None:
    world = a_wide_world(800)
    for i in range(4):
        world.run(a_job(f"n-{i}", team=NLP))

    borrowers = [world.submit(a_job(f"v-{i}")) for i in range(6)]

    # Five are guaranteed, four of them in use: one is kept.
    assert [world.state(one) for one in borrowers].count(State.STARTING) == 5


def test_who_waits_is_told_of_what_is_kept() -> None:
    world = a_wide_world(200)
    gang = world.get(world.submit(a_job("gang", workers=10)))
    assert gang.reason is not None
    assert gang.reason.text == (
        "Needs 10 workers at once, each with 1 GPU on one node; 8 GPUs are free, and 2 more are kept for guarantees."
    )
    for i in range(8):
        world.run(a_job(f"v-{i}"))

    one = world.get(world.submit(a_job("one")))

    assert one.reason is not None
    assert one.reason.text == "Needs 1 GPU; none is free, and 2 more are kept for guarantees."


def test_of_few_gpus_all_are_lent() -> None:
    world = a_wide_world(99)

    borrowers = [world.submit(a_job(f"v-{i}")) for i in range(10)]

    assert all(world.state(one) is State.STARTING for one in borrowers)


def test_what_is_kept_lies_on_the_fullest_nodes() -> None:
    teams = [a_team("vision"), a_team("nlp", guaranteed_milli_gpu=5000)]
    pool = replace(a_pool(), unlent_permille=125)
    world = World(a_node("a", gpus=4), a_node("b", gpus=4), teams=teams, pools=[pool])
    small = world.run(a_job("small"))

    large = world.submit(a_job("large", 4000))

    assert world.state(small) is State.RUNNING
    assert world.state(large) is State.STARTING


def test_what_its_owner_ends_is_not_lent_sooner_than_what_comes_to_its_end() -> None:
    world, other, waiting = busy_world()

    world.ask(Cancel(workload_id=other))
    world.end(other, 143)

    assert world.state(waiting) is State.QUEUED
    world.wait(PAUSE_MS)
    assert world.state(waiting) is State.STARTING


NOTEBOOK = a_notebook("ann", 1000)


def a_lent_block(lend_after_ms: int = PAUSE_MS) -> tuple[World, WorkloadId]:
    teams = [a_team("vision", fixed_milli_gpu=1000), a_team("nlp")]
    world = World(a_node(gpus=1), teams=teams, pools=[a_pool(lend_after_ms=lend_after_ms)])
    return world, world.run(a_job("borrower", team=NLP))


def win_back(world: World, borrower: WorkloadId) -> WorkloadId:
    lease = world.submit(NOTEBOOK)
    world.wait(30_000)
    world.end(borrower, 143)
    assert world.state(lease) is State.GRANTED
    return lease


def use_for(world: World, lease: WorkloadId, duration_ms: int) -> None:
    world.submit(NOTEBOOK, redeem=True)
    world.ask(Started(workload_id=lease))
    world.wait(duration_ms)
    world.ask(Cancel(workload_id=lease, why="stopped"))
    world.end(lease)


def test_what_was_won_back_for_a_notebook_is_not_lent_again_before_the_pause() -> None:
    world, borrower = a_lent_block()
    won_ms = world.now + 30_000
    use_for(world, win_back(world, borrower), 1000)
    assert world.state(borrower) is State.QUEUED

    again = world.submit(NOTEBOOK)

    assert world.state(again) is State.GRANTED
    use_for(world, again, 1000)
    assert world.state(borrower) is State.QUEUED
    world.wait(won_ms + PAUSE_MS - world.now - 1)
    reason = world.get(borrower).reason
    assert reason is not None
    assert reason.text == (
        "Needs 1 GPU; none is free, and 1 more is kept for vision's notebooks,"
        " for 2 min after it was won back."
    )
    world.wait(1)
    assert world.state(borrower) is State.STARTING


def test_what_a_notebook_used_for_longer_is_lent_at_once() -> None:
    world, borrower = a_lent_block()

    use_for(world, win_back(world, borrower), PAUSE_MS)

    assert world.state(borrower) is State.STARTING


def test_what_a_notebook_found_free_is_lent_at_once() -> None:
    world, borrower = a_lent_block()
    world.end(borrower)
    lease = world.submit(NOTEBOOK)
    waiting = world.submit(a_job("next", team=NLP))

    use_for(world, lease, 1000)

    assert world.state(waiting) is State.STARTING


def a_block_with_half_a_gpu_lent(headroom_milli_gpu: int) -> tuple[World, WorkloadId]:
    teams = [a_team("vision", fixed_milli_gpu=1000), a_team("nlp")]
    pool = a_pool(lend_after_ms=PAUSE_MS, headroom_milli_gpu=headroom_milli_gpu)
    world = World(a_node(gpus=1), teams=teams, pools=[pool])
    return world, world.run(a_job("borrower", 500, team=NLP))


def test_what_was_won_back_is_not_lent_beside_the_headroom_in_it() -> None:
    world, borrower = a_block_with_half_a_gpu_lent(headroom_milli_gpu=500)

    use_for(world, win_back(world, borrower), 1000)

    assert world.state(borrower) is State.QUEUED
    world.wait(PAUSE_MS)
    assert world.state(borrower) is State.STARTING


def test_what_was_won_back_is_not_lent_beside_a_smaller_notebook_in_it() -> None:
    world, borrower = a_block_with_half_a_gpu_lent(headroom_milli_gpu=0)
    use_for(world, win_back(world, borrower), 1000)

    half = world.submit(a_notebook("ann", 500))

    assert world.state(half) is State.GRANTED
    assert world.state(borrower) is State.QUEUED
    world.wait(PAUSE_MS)
    assert world.state(borrower) is State.STARTING


def test_what_nobody_took_up_is_not_lent_before_the_pause_either() -> None:
    world, borrower = a_lent_block(2 * PAUSE_MS)
    lease = win_back(world, borrower)

    world.wait(REDEEM_WITHIN_MS)

    assert world.state(lease) is State.WAITING
    assert world.state(borrower) is State.QUEUED
    world.wait(world.get(lease).not_before_ms - world.now)
    assert world.state(lease) is State.GRANTED
