"""Who is stopped for nobody any more has its turn in the cycle that spares it; who is done was not stopped."""

from __future__ import annotations

from builders import World, a_job, a_node, a_notebook, a_team

from gpucommons.scheduler.core.model.intents import Cancel, Intent
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import HoldClass, IntentId, State, UserName


def test_a_spared_borrower_enters_the_guarantee_that_became_free_meanwhile() -> None:
    teams = [a_team("vision", guaranteed_milli_gpu=1000), a_team("nlp", guaranteed_milli_gpu=1000)]
    world = World(a_node(gpus=2), teams=teams)
    first, borrower = (world.run(a_job(f"d-{i}", team="vision")) for i in range(2))
    owner = world.submit(a_job("bert", team="nlp"))
    assert world.stop_of(borrower) is not None
    gone = Intent(
        intent_id=IntentId("gone"),
        action=Cancel(workload_id=owner),
        by=UserName("ann"),
        at_ms=world.now,
    )
    world.step(AttemptEnded(attempt_id=world.attempt_id(first), exit_code=0), intents=[gone])
    held = world.get(borrower).current
    assert held is not None
    assert held.stop is None
    assert held.hold_class is HoldClass.GUARANTEED
    assert world.step().changes.empty


def test_a_notice_goes_over_to_who_still_waits_for_it() -> None:
    teams = [
        a_team("vision", fixed_milli_gpu=500),
        a_team("nlp", fixed_milli_gpu=500),
        a_team("ops"),
    ]
    world = World(a_node(gpus=1), teams=teams)
    borrower = world.run(a_job("borrower", 1000, team="ops", owner="bob"))
    first = world.submit(a_notebook("ann", 500))
    second = world.submit(a_notebook("nils", 500, team="nlp"))
    before = world.stop_of(borrower)
    assert before.beneficiary == first

    world.ask(Cancel(workload_id=first, why="left"))

    after = world.stop_of(borrower)
    assert (after.beneficiary, after.text) == (second, "for nlp (its notebooks)")
    assert (after.term_ms, after.kill_ms) == (before.term_ms, before.kill_ms)
    world.wait(30_000)
    world.end(borrower, 143)
    (receipt,) = [event.data for event in world.events if event.kind == "evicted"]
    assert (receipt["beneficiary_team"], receipt["rule"]) == ("nlp", "fixed quota of nlp")


def test_who_waits_by_its_guarantee_inherits_a_notice_by_that_right() -> None:
    teams = [
        a_team("vision", guaranteed_milli_gpu=1000),
        a_team("nlp", guaranteed_milli_gpu=1000),
        a_team("ops"),
    ]
    world = World(a_node(gpus=2), teams=teams)
    borrower = world.run(a_job("borrower", 2000, team="ops", owner="bob"))
    first = world.submit(a_job("first"))
    second = world.submit(a_job("second", team="nlp", owner="nils"))
    assert world.stop_of(borrower).rule == "guarantee of vision"

    world.ask(Cancel(workload_id=first))

    stop = world.stop_of(borrower)
    assert (stop.beneficiary, stop.why) == (second, "reclaim")
    assert (stop.text, stop.rule) == ("for nlp (its guarantee)", "guarantee of nlp")


def test_who_finishes_within_its_notice_was_not_stopped_for_anybody() -> None:
    teams = [a_team("vision"), a_team("nlp", guaranteed_milli_gpu=1000)]
    world = World(a_node(gpus=1), teams=teams)
    borrower = world.run(a_job("train-digits-2"))
    owner = world.submit(a_job("bert", team="nlp"))
    assert world.stop_of(borrower).beneficiary == owner

    world.end(borrower)

    assert world.state(borrower) is State.SUCCEEDED
    assert world.state(owner) is State.STARTING
    told = [event.kind for event in world.events if event.workload_id == borrower]
    assert told[-2:] == ["stop-announced", "succeeded"]


def test_who_did_not_start_in_time_meanwhile_ends_as_soon_as_it_is_spared() -> None:
    world = World(
        a_node(gpus=1), teams=[a_team("vision", guaranteed_milli_gpu=1000), a_team("nlp")]
    )
    late = world.submit(a_job("late", team="nlp", owner="bob", start_timeout_ms=60_000))
    world.wait(50_000)
    owner = world.submit(a_job("owner"))
    assert world.stop_of(late).beneficiary == owner
    world.wait(20_000)

    world.ask(Cancel(workload_id=owner))

    assert world.stop_of(late) is None
    assert world.outcome.wake_ms == world.now + 1
    world.wait(1)
    assert world.stop_of(late).why == "timeout"


def the_demo() -> World:
    """Two fixed blocks and one GPU outside them, as in the demo."""
    vision = a_team(fixed_milli_gpu=2000, guaranteed_milli_gpu=500, limit_milli_gpu=4000)
    nlp = a_team("nlp", fixed_milli_gpu=1000, guaranteed_milli_gpu=500, limit_milli_gpu=4000)
    return World(a_node(gpus=4), teams=[vision, nlp])


def test_a_guaranteed_job_that_fits_beside_a_notebook_stops_nobody() -> None:
    world = the_demo()
    world.submit(a_notebook(), redeem=True)
    borrower = world.run(a_job("train", 2000))
    filler = world.run(a_job("filler", 1000, team="nlp", owner="bob"))

    small = world.submit(a_job("small", 250))

    assert world.state(small) is State.STARTING
    assert [world.stop_of(job) for job in (borrower, filler)] == [None, None]
    held = world.get(small).current
    assert held is not None
    assert held.hold_class is HoldClass.OVER_QUOTA, "a notebook may take the rest of its GPU back"
    assert world.step().changes.empty


def test_a_guaranteed_job_that_a_notebook_stops_wins_back_what_its_guarantee_gives_it() -> None:
    world = the_demo()
    notebook = world.submit(a_notebook(), redeem=True)
    borrower = world.run(a_job("train", 2000))
    world.run(a_job("filler", 1000, team="nlp", owner="bob"))
    small = world.run(a_job("small", 250))
    other = world.submit(a_notebook("ada", 500))
    assert world.stop_of(small).beneficiary == other, world.get(notebook)
    world.wait(30_000)

    world.end(small, 143)

    assert world.state(other) is State.GRANTED
    assert world.state(small) is State.NOMINATED
    assert world.stop_of(borrower).text == "for vision (its guarantee)"


def test_a_job_that_does_not_want_to_borrow_wins_its_guarantee_back_at_once() -> None:
    world = the_demo()
    world.submit(a_notebook(), redeem=True)
    borrower = world.run(a_job("train", 2000))
    firm = world.submit(a_job("firm", 250, over_quota=False))
    assert world.state(firm) is State.NOMINATED
    assert world.stop_of(borrower).beneficiary == firm


def test_what_becomes_free_within_the_notice_is_taken_and_the_victim_goes_on() -> None:
    world = the_demo()
    world.submit(a_notebook(), redeem=True)
    borrower = world.run(a_job("train", 2000))
    fillers = [world.run(a_job(f"filler-{size}", size, team="nlp")) for size in (1000, 500)]
    small = world.submit(a_job("small", 250))
    assert world.state(small) is State.NOMINATED
    assert world.stop_of(borrower) is not None

    world.end(fillers[1])

    assert world.state(small) is State.STARTING
    assert world.stop_of(borrower) is None
    assert world.step().changes.empty
