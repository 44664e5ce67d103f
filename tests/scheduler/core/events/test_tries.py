"""Tries that come to nothing end after a while: each one holds GPUs that others could use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import World, a_job, a_node, a_notebook, a_team

from gpucommons.scheduler.core.events.due_actions import is_due
from gpucommons.scheduler.core.events.leases import NOT_STARTED
from gpucommons.scheduler.core.model.actions import StartServer, StopServer
from gpucommons.scheduler.core.model.intents import Cancel, Started
from gpucommons.scheduler.core.model.state import CheckpointReported
from gpucommons.scheduler.core.model.types import Checkpoint, State, WorkloadId


@pytest.fixture
def world() -> World:
    return World(teams=[a_team(guaranteed_milli_gpu=4000)])


def test_a_ticket_that_nobody_redeems_stops_few_borrowers_and_then_leaves_the_line() -> None:
    world = World(a_node(gpus=1), teams=[a_team("vision", fixed_milli_gpu=1000), a_team("nlp")])
    job = world.run(a_job("train", 1000, team="nlp", owner="bob"))
    ticket = world.submit(a_notebook("ann", 1000))
    for _ in range(4 * 360):
        world.wait(10_000)
        current = world.get(job).current
        if current is not None and current.stop is not None and current.stop.signalled:
            world.end(job, None)
        elif current is not None and current.started_ms is None:
            world.start(job)
    assert world.state(ticket) is State.ENDED
    assert world.get(ticket).ended_text == (
        "Its turn came 3 times, and its server did not start: see on JupyterHub's page that it"
        " starts, then wait in line again"
    )
    assert world.kinds().count("granted") == 3
    assert world.kinds().count("evicted") <= 3
    assert world.state(job) is State.RUNNING


def test_a_hub_that_is_away_for_six_minutes_costs_no_place_in_line() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=500)])
    ticket = world.submit(a_notebook("ann"))
    submitted = world.get(ticket).submitted_ms
    for _ in range(36):
        world.wait(10_000)
    assert world.state(ticket) is State.GRANTED
    world.submit(a_notebook("ann"), redeem=True)
    world.ask(Started(workload_id=ticket))
    assert world.state(ticket) is State.ACTIVE
    assert world.get(ticket).submitted_ms == submitted


def test_each_grant_that_lapses_gives_others_twice_as_long() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=500)])
    ticket = world.submit(a_notebook("ann"))
    for rest_ms in (30_000, 60_000):
        world.wait(120_000)
        assert world.state(ticket) is State.WAITING
        world.wait(rest_ms - 1)
        assert world.state(ticket) is State.WAITING
        world.wait(1)
        assert world.state(ticket) is State.GRANTED
    world.wait(120_000)
    assert world.state(ticket) is State.ENDED


@pytest.mark.parametrize("change", [{"environment": "torch"}, {"other_options": {"a": ("b",)}}])
def test_who_lets_a_turn_pass_and_chooses_anew_comes_after_who_waited(
    change: dict[str, Any],
) -> None:
    world = World(a_node(gpus=1), teams=[a_team(fixed_milli_gpu=1000)])
    first = [world.submit(a_notebook("ann", 1000, server_name=f"s{n}")) for n in range(5)]
    world.wait(1_000)
    bob = world.submit(a_notebook("bob", 1000))
    for at in range(5):
        assert world.state(first[at]) is State.GRANTED
        world.wait(120_000)
        world.submit(replace(a_notebook("ann", 1000, server_name=f"s{at}"), **change))
    assert world.state(bob) is State.GRANTED


def test_a_ticket_whose_server_the_hub_does_not_start_leaves_the_line_at_once() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=500)])
    ticket = world.submit(a_notebook("ann"))
    other = world.submit(a_notebook("bob"))
    world.ask(Cancel(workload_id=ticket, why=NOT_STARTED, text="The server runs already"))
    assert world.state(ticket) is State.ENDED
    assert world.get(ticket).ended_text == "The server runs already"
    assert world.state(other) is State.GRANTED


def test_a_server_that_took_its_slice_meanwhile_keeps_it() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=500)])
    lease = world.submit(a_notebook("ann"))
    world.submit(a_notebook("ann"), redeem=True)
    world.ask(Cancel(workload_id=lease, why=NOT_STARTED, text="The server runs already"))
    assert world.stop_of(lease) is None
    world.ask(Started(workload_id=lease))
    assert world.state(lease) is State.ACTIVE


def test_what_the_hub_was_asked_for_is_due_until_its_effect_is_on_record() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=500)])
    lease = world.submit(a_notebook("ann"))
    start, stop = StartServer(workload_id=lease), StopServer(workload_id=lease)
    assert is_due(world.cluster.workloads, start)
    world.submit(a_notebook("ann"), redeem=True)
    assert not is_due(world.cluster.workloads, start)
    world.ask(Started(workload_id=lease))
    world.ask(Cancel(workload_id=lease, why="reclaimed"))
    assert is_due(world.cluster.workloads, stop)
    world.ask(Cancel(workload_id=lease, why="stopped"))
    assert not is_due(world.cluster.workloads, stop)
    assert not is_due({}, stop)


def test_a_job_whose_workers_never_all_run_fails_after_a_few_tries(world: World) -> None:
    job = world.submit(a_job(start_timeout_ms=300_000))
    held_ms = 0
    for _ in range(60 * 24):
        world.wait(60_000)
        if world.get(job).current is not None:
            held_ms += 60_000
            if world.stop_of(job) is not None:
                world.end(job, 143)
    assert world.state(job) is State.FAILED
    assert world.get(job).ended_text == "It never ran in 6 tries: Not all workers ran within 5 min"
    assert len(world.get(job).attempts) == 6
    assert held_ms <= 36 * 60_000


def test_a_job_that_is_lost_before_it_runs_fails_after_a_few_tries(world: World) -> None:
    job = world.submit(a_job())
    for _ in range(5):
        world.end(job, None, text="Its pod was gone")
        assert world.state(job) is State.QUEUED
        world.wait(600_000)
    world.end(job, None, text="Its pod was gone")
    assert world.state(job) is State.FAILED
    assert world.get(job).ended_text == "It never ran in 6 tries: Its pod was gone"


def lose(world: World, job: WorkloadId) -> None:
    world.start(job)
    world.end(job, None, text="Its node was lost")
    world.wait(600_000)


def save(world: World, job: WorkloadId, step: int) -> None:
    attempt_id = world.attempt_id(job)
    checkpoint = Checkpoint(
        attempt_id=attempt_id, step=step, path=f"step-{step}", size_bytes=1, sha256="0" * 64,
        at_ms=world.now,
    )  # fmt: skip
    world.step(CheckpointReported(attempt_id=attempt_id, checkpoint=checkpoint))


def test_a_job_that_runs_and_is_lost_each_time_ends_with_a_sentence(world: World) -> None:
    job = world.submit(a_job())
    for _ in range(5):
        lose(world, job)
        assert world.state(job) is State.STARTING
    lose(world, job)
    assert world.state(job) is State.FAILED
    assert world.get(job).ended_text == (
        "It was lost 6 times in a row and saved no checkpoint in between: Its node was lost"
    )


def test_a_start_that_fails_between_two_losses_makes_none_of_them_good(world: World) -> None:
    job = world.submit(a_job())
    for _ in range(5):
        lose(world, job)
        world.end(job, None, text="Its pod was gone")
        world.wait(600_000)
    lose(world, job)
    assert world.state(job) is State.FAILED


def test_what_is_saved_in_between_makes_a_job_worth_trying_again(world: World) -> None:
    job = world.submit(a_job())
    for step in range(1, 13):
        world.start(job)
        if step % 5 == 0:
            save(world, job, step)
        world.end(job, None, text="Its node was lost")
        assert world.state(job) is State.QUEUED
        world.wait(600_000)


def test_a_job_that_may_restart_more_often_is_lost_more_often(world: World) -> None:
    job = world.submit(a_job(max_restarts=9))
    for _ in range(9):
        lose(world, job)
    assert world.state(job) is State.STARTING
    lose(world, job)
    assert world.state(job) is State.FAILED


def test_a_job_that_may_restart_more_often_is_tried_more_often(world: World) -> None:
    job = world.submit(a_job(max_restarts=9))
    for _ in range(9):
        world.end(job, None, start_failed=True, text="No such image")
        world.wait(600_000)
    assert world.state(job) is State.STARTING
    world.end(job, None, start_failed=True, text="No such image")
    assert world.state(job) is State.FAILED


def test_one_run_makes_a_job_worth_trying_again(world: World) -> None:
    job = world.submit(a_job())
    for _ in range(3):
        for _ in range(5):
            world.end(job, None)
            world.wait(600_000)
        world.start(job)
        world.end(job, None, text="Its node was lost")
        assert world.state(job) is State.QUEUED
        world.wait(600_000)
    assert world.state(job) is State.STARTING


def test_being_stopped_for_others_before_it_runs_counts_for_nothing() -> None:
    world = World(
        a_node(gpus=1), teams=[a_team("vision", guaranteed_milli_gpu=1000), a_team("nlp")]
    )
    borrower = world.submit(a_job("borrower", team="nlp"))
    for number in range(8):
        owner = world.submit(a_job(f"owner-{number}"))
        world.wait(60_000)
        world.end(borrower, None)
        assert world.state(owner) is State.STARTING
        world.start(owner)
        world.end(owner)
        world.wait(0)
        assert world.state(borrower) is State.STARTING
