"""Who leaves the line again and again after others were stopped for it wins nothing back for a while."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import TRAIN, World, a_job, a_node, a_notebook, a_team

from gpucommons.scheduler.core.model.actions import RestartServer
from gpucommons.scheduler.core.model.intents import Cancel, Pause, Resume
from gpucommons.scheduler.core.model.lifecycle import WITHDRAWALS_REMEMBERED_MS
from gpucommons.scheduler.core.model.types import Spec, State, TeamName, UserName, WorkloadId
from gpucommons.scheduler.core.whatif.available_notebook_sizes import sizes

TICKET = a_notebook("ann", 1000)
JOB = a_job("ann", 1000)


@pytest.fixture
def world() -> World:
    """A GPU that vision's notebooks own, one that its jobs are guaranteed, both lent to nlp."""
    vision = a_team("vision", fixed_milli_gpu=1000, guaranteed_milli_gpu=1000)
    world = World(a_node(gpus=2), teams=[vision, a_team("nlp")])
    for number in range(2):
        world.run(a_job(f"borrower-{number}", team="nlp", owner="bob"))
    return world


def in_the_way(world: World, owner: WorkloadId) -> WorkloadId:
    nomination = world.get(owner).nomination
    assert nomination is not None
    (victim,) = (
        one.workload_id
        for one in world.cluster.workloads.values()
        if one.current is not None and one.current.attempt_id in nomination.victims
    )
    return victim


def go_on(world: World, victim: WorkloadId) -> None:
    """It ends as it was told, and borrows the same GPU again."""
    world.end(victim, 143)
    world.start(victim)


def leave(world: World, spec: Spec, *, signalled: bool = True) -> None:
    """Ask, wait until what is in the way was told to stop, and leave."""
    owner = world.submit(spec)
    victim = in_the_way(world, owner)
    world.wait(30_000 if signalled else 1000)
    world.ask(Cancel(workload_id=owner, why="left"))
    if signalled:
        go_on(world, victim)
    assert world.stop_of(victim) is None


def restart(world: World) -> None:
    """Nothing is known but what is stored."""
    world.cluster = replace(
        world.cluster.apart(), released=(), pending_resizes={}, fair_share_reservations={}
    )


@pytest.mark.parametrize("spec", [TICKET, JOB], ids=["a ticket", "a job"])
def test_the_fourth_within_an_hour_stops_nobody_until_the_hour_is_over(
    world: World, spec: Spec
) -> None:
    began = world.now
    for _ in range(3):
        leave(world, spec)
    restart(world)
    waits = world.submit(spec)
    asked = world.now
    assert world.get(waits).nomination is None
    reason = world.get(waits).reason
    assert reason is not None
    assert reason.text == (
        "ann left the line, or did not start, 3 times within 60 min after others' work had been stopped for it: this"
        " waits for GPUs that are free, and wins none back until 59 min after it was submitted."
    )
    until = began + 30_000 + WITHDRAWALS_REMEMBERED_MS
    assert world.outcome.wake_ms is not None
    world.wait(until - 1 - asked)
    assert world.get(waits).nomination is None
    assert world.outcome.wake_ms == until
    world.wait(1)
    assert world.get(waits).nomination is not None


@pytest.mark.parametrize("spec", [TICKET, JOB], ids=["a ticket", "a job"])
def test_what_is_free_is_had_at_once_all_the_same(world: World, spec: Spec) -> None:
    for _ in range(3):
        leave(world, spec)
    waits = world.submit(spec)
    for borrower in list(world.cluster.workloads.values()):
        if borrower.spec.team == "nlp":
            world.end(borrower.workload_id)
    assert world.state(waits) in {State.GRANTED, State.STARTING}


def test_leaving_while_all_can_be_spared_costs_nothing(world: World) -> None:
    for _ in range(5):
        leave(world, TICKET, signalled=False)
    assert world.get(world.submit(TICKET)).nomination is not None


def test_others_in_the_same_line_win_back_what_is_theirs(world: World) -> None:
    for _ in range(3):
        leave(world, JOB)
    waits = world.submit(JOB)
    mate = world.submit(replace(JOB, name="mate", owner=UserName("cyd")))
    assert world.get(waits).nomination is None
    assert world.get(mate).nomination is not None


def test_tickets_and_jobs_of_one_owner_count_together(world: World) -> None:
    for spec in (TICKET, JOB, TICKET):
        leave(world, spec)
    assert world.get(world.submit(JOB)).nomination is None
    assert world.get(world.submit(TICKET)).nomination is None
    assert world.get(world.submit(a_notebook("cyd", 1000))).nomination is not None


def test_pausing_instead_of_leaving_counts_alike(world: World) -> None:
    job = world.submit(JOB)
    for _ in range(3):
        victim = in_the_way(world, job)
        world.wait(30_000)
        world.ask(Pause(workload_id=job))
        go_on(world, victim)
        world.ask(Resume(workload_id=job))
    assert world.state(job) is State.QUEUED
    assert world.get(job).nomination is None


def test_a_grant_for_which_others_were_stopped_is_left_in_vain_too(world: World) -> None:
    for _ in range(3):
        ticket = world.submit(TICKET)
        victim = in_the_way(world, ticket)
        world.wait(30_000)
        world.end(victim, 143)
        assert world.state(ticket) is State.GRANTED
        world.ask(Cancel(workload_id=ticket, why="left"))
        world.start(victim)
    assert world.get(world.submit(TICKET)).nomination is None


def let_pass(world: World, ticket: WorkloadId) -> None:
    """Its turn comes, others are stopped for it, and no server takes what it is granted."""
    victim = in_the_way(world, ticket)
    world.wait(30_000)
    world.end(victim, 143)
    assert world.state(ticket) is State.GRANTED
    world.wait(120_000)
    world.start(victim)


def rest(world: World, ticket: WorkloadId) -> None:
    world.wait(world.get(ticket).not_before_ms - world.now)


def test_turns_that_a_ticket_lets_pass_count_one_by_one(world: World) -> None:
    for letting_pass in (2, 1):
        ticket = world.submit(TICKET)
        for _ in range(letting_pass):
            let_pass(world, ticket)
            rest(world, ticket)
        world.ask(Cancel(workload_id=ticket, why="left"))
    assert world.get(world.submit(TICKET)).nomination is None


def test_another_ticket_rests_after_the_turn_that_was_let_pass(world: World) -> None:
    ticket = world.submit(TICKET)
    let_pass(world, ticket)
    anew = world.submit(replace(TICKET, environment="torch"))
    assert world.state(ticket) is State.ENDED
    assert world.get(anew).nomination is None
    reason = world.get(anew).reason
    assert reason is not None
    assert reason.text == "The last start did not work. Tries again after 30 s."
    rest(world, anew)
    assert world.get(anew).nomination is not None
    assert len(world.get(ticket).withdrawn_ms) == 1


def test_who_starts_by_hand_need_not_rest(world: World) -> None:
    ticket = world.submit(TICKET)
    let_pass(world, ticket)
    for borrower in list(world.cluster.workloads.values()):
        if borrower.spec.team == "nlp":
            world.end(borrower.workload_id)
    started = world.submit(replace(TICKET, roles=a_notebook("ann", 500).roles), redeem=True)
    assert world.state(started) is State.GRANTED


def test_who_saves_and_leaves_within_its_notice_was_stopped_too(world: World) -> None:
    for _ in range(3):
        ticket = world.submit(TICKET)
        victim = in_the_way(world, ticket)
        world.wait(5000)
        world.end(victim, 143)
        world.ask(Cancel(workload_id=ticket, why="left"))
        world.start(victim)
    assert world.get(world.submit(TICKET)).nomination is None


def test_who_came_to_its_own_end_within_its_notice_lost_nothing(world: World) -> None:
    for number in range(3):
        ticket = world.submit(TICKET)
        victim = in_the_way(world, ticket)
        world.wait(5000)
        world.end(victim, 0)
        world.ask(Cancel(workload_id=ticket, why="left"))
        world.run(a_job(f"next-{number}", team="nlp", owner="bob"))
    assert world.get(world.submit(TICKET)).nomination is not None


def test_leaving_counts_also_where_the_notice_was_given_for_a_ticket_before(world: World) -> None:
    for number in range(3):
        first = world.submit(TICKET)
        victim = in_the_way(world, first)
        world.wait(1000)
        second = world.submit(replace(TICKET, environment=f"torch-{number}"))
        stop = world.stop_of(victim)
        assert stop is not None
        assert stop.beneficiary == second
        world.wait(29_000)
        world.ask(Cancel(workload_id=second, why="left"))
        go_on(world, victim)
    assert world.get(world.submit(TICKET)).nomination is None


def test_starts_that_take_too_long_by_their_own_limit_count_one_by_one(world: World) -> None:
    job = world.submit(replace(JOB, start_timeout_ms=1000))
    for _ in range(3):
        victim = in_the_way(world, job)
        world.wait(30_000)
        world.end(victim, 143)
        world.wait(1000)
        world.end(job, 143)
        world.start(victim)
        world.wait(world.get(job).not_before_ms - world.now)
    assert world.state(job) is State.QUEUED
    assert world.get(job).nomination is None


def test_starts_that_fail_count_one_by_one(world: World) -> None:
    job = world.submit(replace(JOB, max_restarts=100))
    for _ in range(3):
        victim = in_the_way(world, job)
        world.wait(30_000)
        world.end(victim, 143)
        world.end(job, None, start_failed=True)
        world.start(victim)
        world.wait(world.get(job).not_before_ms - world.now)
    assert world.state(job) is State.QUEUED
    assert world.get(job).nomination is None


def test_a_grant_of_what_was_free_may_be_left_as_often_as_one_likes() -> None:
    world = World(a_node(gpus=1), teams=[a_team("vision", fixed_milli_gpu=1000), a_team("nlp")])
    for _ in range(4):
        world.ask(Cancel(workload_id=world.submit(TICKET), why="left"))
    world.run(a_job("borrower", team="nlp", owner="bob"))
    assert world.get(world.submit(TICKET)).nomination is not None


def test_a_job_that_ran_was_not_in_vain(world: World) -> None:
    for _ in range(4):
        job = world.submit(JOB)
        victim = in_the_way(world, job)
        world.wait(30_000)
        world.end(victim, 143)
        world.start(job)
        world.ask(Cancel(workload_id=job))
        world.end(job, 143)
        world.start(victim)
    assert world.get(world.submit(JOB)).nomination is not None


def test_a_job_that_fails_before_its_start_is_reported_was_not_in_vain(world: World) -> None:
    for _ in range(3):
        job = world.submit(replace(JOB, max_restarts=3))
        victim = in_the_way(world, job)
        world.wait(30_000)
        world.end(victim, 143)
        world.end(job, 1)
        assert world.state(job) is State.QUEUED
        world.ask(Cancel(workload_id=job))
        world.start(victim)
    assert world.get(world.submit(JOB)).nomination is not None


def test_the_form_does_not_promise_what_will_not_be_won_back(world: World) -> None:
    for _ in range(3):
        leave(world, TICKET)
    texts = {
        user: [
            one.text
            for one in sizes(world.cluster, TeamName("vision"), TRAIN, UserName(user))
            if one.milli_gpu == 1000
        ]
        for user in ("ann", "cyd")
    }
    assert texts == {
        "ann": [
            "lent to training; too many turns of yours were in vain to win it back: wait until it is free"
        ],
        "cyd": ["yours, back in 60 s: lent to training, which makes room"],
    }


def test_what_left_is_forgotten_after_the_hour(world: World) -> None:
    leave(world, JOB)
    left = [one for one in world.cluster.workloads.values() if one.withdrawn_ms]
    assert [one.state for one in left] == [State.CANCELLED]
    world.wait(WITHDRAWALS_REMEMBERED_MS - 1)
    assert left[0].workload_id in world.cluster.workloads
    world.wait(1)
    assert left[0].workload_id not in world.cluster.workloads


def test_a_server_that_gave_up_what_was_cleared_is_started_anew_for_two_minutes_only(
    world: World,
) -> None:
    ticket = world.submit(TICKET)
    victim = in_the_way(world, ticket)
    world.wait(30_000)
    world.end(victim, 143)
    world.submit(TICKET, redeem=True)
    world.ask(Cancel(workload_id=ticket, why="released"))
    world.end(ticket, None)
    assert world.get(ticket).withdrawn_ms
    anew = RestartServer(workload_id=ticket)
    assert anew in world.outcome.actions
    world.wait(120_000)
    assert ticket in world.cluster.workloads
    assert anew not in world.outcome.actions
