"""After a signal an exit is a preemption, whatever its status, unless the work was said to be done."""

from __future__ import annotations

from itertools import product

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.going_on.exits import PREEMPTED, SUCCESS, Exit, Meaning, meaning
from gpucommons.scheduler.core.model.intents import Cancel, Pause, SetNodeState
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.state import AttemptEnded, AttemptFinished, NodesObserved
from gpucommons.scheduler.core.model.types import NodeId, State, TeamName, UserName
from gpucommons.scheduler.core.queue.back_off import LONGEST_OF_JOB_MS
from gpucommons.scheduler.core.queue.giving_up import LOSSES
from gpucommons.scheduler.in_pod.command import exit_status


@pytest.fixture
def world() -> World:
    return World(a_node(gpus=2), teams=[a_team(guaranteed_milli_gpu=2000)])


def test_a_stopped_job_that_leaves_with_0_has_obeyed_and_not_succeeded(world: World) -> None:
    job = world.run(a_job())
    world.wait(720_000)
    world.ask(Pause(workload_id=job))
    world.end(job, 0, told=True)
    assert world.state(job) is State.PAUSED
    assert world.get(job).attempts[-1].ended_text == (
        "Paused by ann, left with exit status 0: starts its command anew and finds the files that it"
        " wrote, if any are kept; what it did since it last saved is repeated, 12 min of work at most"
    )


def test_a_job_that_was_done_before_the_signal_reached_it_has_succeeded(world: World) -> None:
    job = world.run(a_job())
    world.ask(Pause(workload_id=job))
    world.end(job, 0, told=False)
    assert world.state(job) is State.SUCCEEDED


@pytest.mark.parametrize("exit_code", [0, 1, 143, -15, -9])
def test_a_stopped_job_that_posted_that_it_is_done_has_succeeded(
    world: World, exit_code: int
) -> None:
    job = world.run(a_job())
    world.ask(Pause(workload_id=job))
    world.step(AttemptFinished(attempt_id=world.attempt_id(job)))
    world.end(job, exit_code, told=True)
    assert world.state(job) is State.SUCCEEDED
    assert "stopped" not in world.kinds()


def test_a_spec_may_say_that_an_exit_with_0_after_a_signal_is_success(world: World) -> None:
    job = world.run(a_job(exit_after_signal="success"))
    world.ask(Pause(workload_id=job))
    world.end(job, 0, told=True)
    assert world.state(job) is State.SUCCEEDED


def test_an_error_after_the_signal_is_a_preemption_as_well(world: World) -> None:
    job = world.run(a_job())
    world.ask(Pause(workload_id=job))
    world.end(job, 1, told=True)
    assert world.state(job) is State.PAUSED


@pytest.mark.parametrize(
    ("restarts", "state"), [(0, State.FAILED), (1, State.PAUSED)], ids=["no retry", "a retry"]
)
def test_an_error_of_its_own_before_the_signal_is_its_own(
    world: World, restarts: int, state: State
) -> None:
    job = world.run(a_job(max_restarts=restarts))
    world.ask(Pause(workload_id=job))
    world.end(job, 1, told=False)
    assert world.state(job) is state
    assert world.get(job).attempts[-1].ended_text == "It ended with exit status 1"


def test_the_receipt_of_one_that_left_with_0_counts_its_lost_work(world: World) -> None:
    job = world.run(a_job())
    world.wait(60_000)
    world.ask(Pause(workload_id=job))
    world.end(job, 0, told=True)
    (receipt,) = [event for event in world.events if event.kind == "stopped"]
    assert receipt.data["lost_milli_gpu_s"] == 60_000
    assert receipt.data["way_to_go_on"] == "start_over"
    assert receipt.text == "digits-1: paused by ann."


def test_who_obeyed_an_announcement_that_was_taken_back_goes_back_into_line(world: World) -> None:
    nlp = a_team("nlp", guaranteed_milli_gpu=2000)
    world = World(a_node(gpus=2), teams=[a_team(), nlp])
    borrower = world.run(a_job(workers=2))
    claim = world.submit(a_job("claim", 2000, team=TeamName("nlp"), owner=UserName("bob")))
    attempt = world.get(borrower).current
    assert attempt is not None
    assert attempt.stop is not None
    world.ask(Cancel(workload_id=claim), by="bob")
    attempt = world.get(borrower).current
    assert attempt is not None
    assert attempt.spared_ms is not None
    world.end(borrower, 143)
    # It is started again at once: nothing failed.
    assert world.state(borrower) is State.STARTING
    assert len(world.get(borrower).attempts) == 2


def test_a_job_that_is_done_within_its_notice_has_succeeded(world: World) -> None:
    nlp = a_team("nlp", guaranteed_milli_gpu=2000)
    world = World(a_node(gpus=2), teams=[a_team(), nlp])
    borrower = world.run(a_job(workers=2))
    world.submit(a_job("claim", 2000, team=TeamName("nlp"), owner=UserName("bob")))
    world.end(borrower, 0)
    assert world.state(borrower) is State.SUCCEEDED
    assert "evicted" not in world.kinds()


def test_a_job_that_obeyed_within_its_notice_waits_with_its_age(world: World) -> None:
    nlp = a_team("nlp", guaranteed_milli_gpu=2000)
    world = World(a_node(gpus=2), teams=[a_team(), nlp])
    borrower = world.run(a_job(workers=2))
    submitted_ms = world.get(borrower).submitted_ms
    world.submit(a_job("claim", 2000, team=TeamName("nlp"), owner=UserName("bob")))
    world.end(borrower, 0, told=True)
    assert world.state(borrower) is State.QUEUED
    assert world.get(borrower).submitted_ms == submitted_ms
    assert "evicted" in world.kinds()


@pytest.mark.parametrize("exit_code", [0, 1, 143])
def test_a_job_that_only_says_it_was_told_to_leave_rests_and_fails_in_the_end(
    world: World, exit_code: int
) -> None:
    job = world.run(a_job())
    for _ in range(LOSSES - 1):
        world.end(job, exit_code, told=True)
        assert world.state(job) is State.QUEUED, "it was not started again at once"
        world.wait(LONGEST_OF_JOB_MS)
        world.start(job)
    world.end(job, exit_code, told=True)
    assert world.state(job) is State.FAILED
    assert "nobody here had told it" in (world.get(job).ended_text or "")


def test_what_was_posted_in_the_same_moment_as_the_end_counts(world: World) -> None:
    job = world.run(a_job())
    world.ask(Pause(workload_id=job))
    attempt_id = world.attempt_id(job)
    world.step(
        AttemptFinished(attempt_id=attempt_id),
        AttemptEnded(attempt_id=attempt_id, exit_code=0, told=True),
    )
    assert world.state(job) is State.SUCCEEDED


@pytest.mark.parametrize("after_signal", [SUCCESS, PREEMPTED])
def test_what_a_pod_ends_with_means_what_its_command_did(after_signal: str) -> None:
    for code, told, finished in product((0, 1, 3, 74, 137, 138, 143), (False, True), (False, True)):
        known = Exit(
            exit_code=code,
            announced=True,
            told=told,
            finished=finished,
            after_signal=after_signal,
        )
        status = exit_status(code, told=told, finished=finished, after_signal=after_signal)
        # Of the pod the status alone is known.
        seen = Exit(exit_code=status, announced=True, told=False, finished=finished)
        if code in (0, 143) or told:
            assert meaning(seen) is meaning(known), (code, told, finished)
        else:
            assert status == code
            done = finished and code > 128
            assert meaning(known) is (Meaning.SUCCEEDED if done else Meaning.FAILED)


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize(
    ("exit_code", "finished", "means"),
    [
        (None, True, Meaning.SUCCEEDED),
        (-9, True, Meaning.SUCCEEDED),
        (137, True, Meaning.SUCCEEDED),
        (129, True, Meaning.SUCCEEDED),
        (192, True, Meaning.SUCCEEDED),
        (None, False, Meaning.LOST),
    ],
)
def test_who_said_that_the_work_is_done_is_done_also_if_it_was_killed_or_not_seen_to_end(
    exit_code: int | None, told: bool, finished: bool, means: Meaning
) -> None:
    end = Exit(exit_code=exit_code, announced=told, told=told, finished=finished)
    assert meaning(end) is means


@pytest.mark.parametrize("exit_code", [1, 128, 193, 255])
def test_an_error_of_its_own_after_it_said_so_is_an_error(exit_code: int) -> None:
    end = Exit(exit_code=exit_code, announced=False, told=False, finished=True)
    assert meaning(end) is Meaning.FAILED


@pytest.mark.parametrize("asks", [None, "pause", "claim"])
def test_a_job_that_is_done_has_succeeded_though_its_supervisor_was_killed(
    asks: str | None,
) -> None:
    world = World(a_node(gpus=2), teams=[a_team(), a_team("nlp", guaranteed_milli_gpu=2000)])
    job = world.run(a_job(workers=2))
    if asks == "pause":
        world.ask(Pause(workload_id=job))
    if asks == "claim":
        world.submit(a_job("claim", 2000, team=TeamName("nlp"), owner=UserName("bob")))
        world.wait(30_000)
    world.step(AttemptFinished(attempt_id=world.attempt_id(job)))
    world.end(job, None, killed=True, text="Its supervisor was killed from outside.")
    assert world.state(job) is State.SUCCEEDED
    assert not {"lost", "evicted", "stopped"} & set(world.kinds())


def test_a_job_that_is_done_before_its_start_was_reported_has_succeeded(world: World) -> None:
    job = world.submit(a_job())
    world.step(AttemptFinished(attempt_id=world.attempt_id(job)))
    world.ask(Pause(workload_id=job))
    world.end(job, None, killed=True)
    assert world.state(job) is State.SUCCEEDED


def test_a_job_that_is_done_on_a_node_that_is_lost_has_succeeded(world: World) -> None:
    job = world.run(a_job())
    world.step(AttemptFinished(attempt_id=world.attempt_id(job)))
    world.step(NodesObserved(executor="fake", nodes=()))
    world.ask(SetNodeState(node_id=NodeId("n1"), state=NodeState.FENCED), "admin")
    assert world.state(job) is State.SUCCEEDED
