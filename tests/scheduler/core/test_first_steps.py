"""The main story: admit, reclaim, requeue, resume, finish."""

from __future__ import annotations

from builders import World, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.model.actions import AnnounceStop, SignalAttempt, StartAttempt
from gpucommons.scheduler.core.model.types import HoldClass, State


def test_a_job_inside_the_guarantee_starts_at_once() -> None:
    world = World(teams=[a_team(guaranteed_milli_gpu=2000)])
    job = world.submit(a_job())
    attempt = world.get(job).current
    assert attempt is not None
    assert attempt.hold_class is HoldClass.GUARANTEED
    assert world.state(job) is State.STARTING
    assert world.outcome.actions == (StartAttempt(attempt_id=attempt.attempt_id),)
    world.start(job)
    assert world.state(job) is State.RUNNING
    world.end(job)
    assert world.state(job) is State.SUCCEEDED


def test_a_guarantee_is_won_back_and_the_borrower_resumes_later() -> None:
    world = World(
        a_node(gpus=2),
        teams=[a_team("vision"), a_team("nlp", guaranteed_milli_gpu=2000)],
    )
    borrower = world.run(a_job("digits-1", 2000))
    world.wait(100_000)
    claimer = world.submit(a_job("bert-1", 2000, team="nlp"))
    assert world.state(claimer) is State.NOMINATED
    assert world.state(borrower) is State.RUNNING
    assert AnnounceStop(attempt_id=world.attempt_id(borrower)) in world.outcome.actions
    world.wait(30_000)
    assert world.state(borrower) is State.PREEMPTING
    assert world.outcome.actions == (SignalAttempt(attempt_id=world.attempt_id(borrower)),)
    world.end(borrower, 143)
    assert world.state(claimer) is State.STARTING
    assert world.state(borrower) is State.QUEUED
    (receipt,) = [event for event in world.events if event.kind == "evicted"]
    assert receipt.data["lost_milli_gpu_s"] == 2000 * 130
    assert receipt.data["beneficiary"] == "nlp/bert-1"
    assert receipt.text == "digits-1 was stopped for nlp (its guarantee)."
    world.start(claimer)
    world.end(claimer)
    assert world.state(borrower) is State.STARTING
    assert len(world.get(borrower).attempts) == 2


def test_a_server_that_is_named_like_a_job_reads_as_a_notebook_in_receipts() -> None:
    world = World(a_node(gpus=1), teams=[a_team("vision", fixed_milli_gpu=1000), a_team("nlp")])
    borrower = world.run(a_job("bert-1", team="nlp"))
    world.submit(a_notebook("ann", 1000, name="digits-1", server_name="digits-1"))
    world.wait(30_000)
    world.end(borrower, 143)
    (receipt,) = [event for event in world.events if event.kind == "evicted"]
    assert receipt.data["beneficiary"] == "vision/notebook of ann"


def test_a_notebook_gets_its_block_back_from_a_borrower() -> None:
    world = World(a_node(gpus=1), teams=[a_team("vision", fixed_milli_gpu=1000), a_team("nlp")])
    borrower = world.run(a_job("bert-1", 1000, team="nlp"))
    refused = world.try_submit(a_notebook(), redeem=True)
    assert refused.error == "NoFreeSlice"
    ticket = world.submit(a_notebook())
    assert world.get(ticket).nomination is not None
    assert world.state(ticket) is State.WAITING
    world.wait(30_000)
    world.end(borrower, -15)
    assert world.state(ticket) is State.GRANTED


def test_nothing_new_means_nothing_to_write() -> None:
    world = World(
        a_node(gpus=2),
        pools=[a_pool(headroom_milli_gpu=500)],
        teams=[a_team("vision", fixed_milli_gpu=1000, guaranteed_milli_gpu=1000), a_team("nlp")],
    )
    world.run(a_job("digits-1"))
    world.submit(a_job("digits-2", 4000))
    world.submit(a_job("bert-1", 2000, team="nlp"))
    world.submit(a_notebook())
    before = world.cluster
    again = world.step()
    assert again.changes.empty
    assert again.cluster == before
