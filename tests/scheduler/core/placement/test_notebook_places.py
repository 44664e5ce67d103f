"""Where notebooks lie: free and headroom blocks first, then swaps, then one reclaim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import World, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.events.leases import MAX_TICKETS
from gpucommons.scheduler.core.model.actions import RestartServer, StartServer, StopServer
from gpucommons.scheduler.core.model.intents import (
    Cancel,
    Intent,
    Keep,
    ReportIdle,
    Restarted,
    Started,
    Submit,
)
from gpucommons.scheduler.core.model.resources import Quota
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    Idleness,
    IntentId,
    Millis,
    PoolName,
    ReasonClass,
    State,
    TeamName,
    UserName,
    WorkloadId,
)


def test_an_acquire_takes_a_free_slice_in_the_same_cycle() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.get(world.submit(a_notebook(milli_gpu=500), redeem=True))
    assert lease.state is State.GRANTED
    assert lease.redeem_by_ms is None
    assert lease.current is not None
    assert lease.current.hold_class is HoldClass.FIXED
    assert world.outcome.actions == ()


def test_a_ticket_on_a_free_slice_is_granted_and_its_server_started() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    ticket = world.submit(a_notebook())
    assert world.state(ticket) is State.GRANTED
    assert world.outcome.actions == (StartServer(workload_id=ticket),)
    assert world.submit(a_notebook(), redeem=True) == ticket
    assert world.outcome.actions == ()
    world.ask(Started(workload_id=ticket))
    assert world.state(ticket) is State.ACTIVE


def test_an_unredeemed_grant_lapses_and_keeps_its_age() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=500)])
    ticket = world.submit(a_notebook("ann"))
    submitted = world.get(ticket).submitted_ms
    world.wait(119_999)
    assert world.state(ticket) is State.GRANTED
    other = world.submit(a_notebook("bob"))
    world.wait(1)
    assert world.state(ticket) is State.WAITING
    assert world.get(ticket).submitted_ms == submitted
    assert world.state(other) is State.GRANTED


def test_a_refused_acquire_leaves_no_trace() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=500)])
    world.submit(a_notebook("ann"), redeem=True)
    before = world.cluster.workloads
    verdict = world.try_submit(a_notebook("bob"), redeem=True)
    assert verdict.error == "NoFreeSlice"
    assert "vision has 0 of ½ notebook GPUs free" in verdict.text
    assert world.cluster.workloads == before
    assert world.outcome.actions == ()


def test_a_refused_acquire_of_another_size_keeps_the_ticket_it_would_have_replaced() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=500)])
    world.submit(a_notebook("bob"), redeem=True)
    ticket = world.submit(a_notebook("ann", 500))
    assert world.try_submit(a_notebook("ann", 250), redeem=True).error == "NoFreeSlice"
    assert world.state(ticket) is State.WAITING


def test_a_smaller_ticket_replaces_the_first_and_keeps_its_age() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=500)])
    world.submit(a_notebook("bob"), redeem=True)
    first = world.submit(a_notebook("ann", 500))
    age = world.get(first).submitted_ms
    world.wait(5_000)
    second = world.submit(a_notebook("ann", 250))
    assert second != first
    assert world.state(first) is State.ENDED
    assert world.get(second).submitted_ms == age
    assert world.submit(a_notebook("ann", 250)) == second


@pytest.mark.parametrize("elsewhere", [{"team": TeamName("nlp")}, {"pools": (PoolName("second"),)}])
def test_a_ticket_brings_no_age_into_another_line(elsewhere: dict[str, Any]) -> None:
    quotas = {PoolName(name): Quota(fixed_milli_gpu=500) for name in ("train", "second")}
    world = World(
        a_node(gpus=1),
        a_node("n2", pool="second", gpus=1),
        pools=[a_pool(), a_pool("second")],
        teams=[replace(a_team(name), quotas=quotas) for name in ("vision", "nlp")],
    )
    world.submit(a_notebook("bob"), redeem=True)
    first = world.submit(a_notebook("ann", 500))
    world.wait(5_000)
    second = world.submit(replace(a_notebook("ann", 250), **elsewhere))
    assert world.state(first) is State.ENDED
    assert world.get(second).submitted_ms == world.get(first).submitted_ms + 5_000


def test_a_lent_block_swaps_with_an_unused_one_of_another_team() -> None:
    world = World(
        a_node(gpus=2),
        teams=[a_team("vision", fixed_milli_gpu=1000), a_team("nlp", fixed_milli_gpu=1000)],
    )
    lent = world.run(a_job("digits-1", 1000))
    held = world.get(lent).current
    assert held is not None
    team = next(
        block.team
        for block in world.cluster.blocks
        if block.device_ids == held.placements[0].device_ids
    )
    ticket = world.submit(a_notebook("ann", 1000, team=team), redeem=True)
    assert world.state(ticket) is State.GRANTED
    assert world.stop_of(lent) is None


def test_a_lent_block_swaps_with_free_area_outside_blocks() -> None:
    world = World(
        a_node(gpus=1), a_node("n2", gpus=1), teams=[a_team("vision", fixed_milli_gpu=1000)]
    )
    outside = world.run(a_job("digits-1", 1000))
    lent = world.run(a_job("digits-2", 1000))
    world.end(outside)
    ticket = world.submit(a_notebook("ann", 1000), redeem=True)
    assert world.state(ticket) is State.GRANTED
    assert world.stop_of(lent) is None


def test_headroom_is_never_lent() -> None:
    world = World(
        a_node(gpus=2),
        pools=[a_pool(headroom_milli_gpu=1000)],
        teams=[a_team("vision", fixed_milli_gpu=2000)],
    )
    first, second = world.submit(a_job("digits-1")), world.submit(a_job("digits-2"))
    assert world.state(first) is State.STARTING
    assert world.state(second) is State.QUEUED
    assert world.try_submit(a_notebook("ann", 1000), redeem=True).error is None


def test_another_teams_notebook_is_never_in_the_way() -> None:
    world = World(
        a_node(gpus=1),
        teams=[a_team("vision", fixed_milli_gpu=500), a_team("nlp", fixed_milli_gpu=500)],
    )
    for team in ("vision", "nlp"):
        assert world.try_submit(a_notebook(team, team=team), redeem=True).error is None
    refused = world.try_submit(a_notebook("cyd"), redeem=True)
    assert refused.error == "NoFreeSlice"


def test_a_ticket_within_quota_is_nominated_and_told_so() -> None:
    world = World(a_node(gpus=1), teams=[a_team("vision", fixed_milli_gpu=1000), a_team("nlp")])
    world.run(a_job("bert-1", 1000, team="nlp"))
    ticket = world.get(world.submit(a_notebook()))
    assert ticket.state is State.WAITING
    assert ticket.nomination is not None
    assert ticket.reason is not None
    assert ticket.reason.code is ReasonClass.DRAINING
    assert ticket.reason.text == (
        "Next in line: ½ GPU is being cleared, a borrowing job of another team ends there first."
    )


def test_leaving_the_line_spares_the_borrower() -> None:
    world = World(a_node(gpus=1), teams=[a_team("vision", fixed_milli_gpu=1000), a_team("nlp")])
    borrower = world.run(a_job("bert-1", 1000, team="nlp"))
    ticket = world.submit(a_notebook())
    assert world.stop_of(borrower) is not None
    world.ask(Cancel(workload_id=ticket, why="left"))
    assert world.state(ticket) is State.ENDED
    assert world.stop_of(borrower) is None
    assert world.state(borrower) is State.RUNNING
    assert "spared" in world.kinds()


def test_a_stopped_server_frees_its_device_only_when_its_processes_are_gone() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.submit(a_notebook(), redeem=True)
    world.ask(Started(workload_id=lease))
    attempt_id = world.attempt_id(lease)
    world.ask(Cancel(workload_id=lease, why="stopped"))
    assert world.get(lease).current is not None
    assert world.outcome.actions == ()
    world.step(AttemptEnded(attempt_id=attempt_id, exit_code=None))
    assert world.state(lease) is State.ENDED
    world.ask(Cancel(workload_id=lease, why="culled", text="idle 60 min"))
    assert world.get(lease).ended_text == "idle 60 min"


def test_a_reclaimed_server_is_stopped_until_the_hub_says_so() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.submit(a_notebook(), redeem=True)
    world.ask(Started(workload_id=lease))
    world.ask(Cancel(workload_id=lease, why="reclaimed", text="an admin took it back"))
    assert world.outcome.actions == (StopServer(workload_id=lease),)
    assert world.step().actions == (StopServer(workload_id=lease),)
    world.ask(Cancel(workload_id=lease, why="stopped"))
    assert world.outcome.actions == ()
    world.end(lease, None)
    assert world.get(lease).ended_text == "an admin took it back"


def test_a_notebook_that_gave_its_gpu_back_is_restarted_until_it_runs_again() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.submit(a_notebook(), redeem=True)
    world.ask(Started(workload_id=lease))
    world.ask(Cancel(workload_id=lease, why="released"))
    assert world.outcome.actions == (StopServer(workload_id=lease),)
    world.ask(Cancel(workload_id=lease, why="stopped"))
    assert world.outcome.actions == (RestartServer(workload_id=lease),)
    world.end(lease, None)
    assert world.state(lease) is State.ENDED
    assert world.step().actions == (RestartServer(workload_id=lease),)
    world.ask(Restarted(workload_id=lease))
    assert world.outcome.actions == ()


def test_a_restart_without_gpu_is_given_up_after_two_minutes() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.submit(a_notebook(), redeem=True)
    world.ask(Started(workload_id=lease))
    world.ask(Cancel(workload_id=lease, why="released"))
    world.end(lease, None)
    assert world.wait(119_999).actions == (RestartServer(workload_id=lease),)
    assert world.wait(1).actions == ()
    assert world.ask(Restarted(workload_id=lease)).error is None


def test_who_starts_a_server_by_hand_after_giving_the_gpu_back_is_not_restarted_without_one() -> (
    None
):
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.submit(a_notebook(), redeem=True)
    world.ask(Started(workload_id=lease))
    world.ask(Cancel(workload_id=lease, why="released"))
    assert world.try_submit(a_notebook(), redeem=True).error is not None
    world.end(lease, None)
    assert world.step().actions == ()


def test_a_warning_is_given_and_taken_back() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.submit(a_notebook(), redeem=True)
    world.ask(Started(workload_id=lease))
    returns = Millis(world.now + 600_000)
    world.ask(ReportIdle(workload_id=lease, idle_since_ms=world.now, returns_ms=returns))
    assert world.state(lease) is State.WARNED
    idleness = world.get(lease).idleness
    assert idleness is not None
    assert idleness.warned_ms == world.now
    world.ask(ReportIdle(workload_id=lease, idle_since_ms=None, returns_ms=None))
    assert world.state(lease) is State.ACTIVE


def test_an_admins_reclaim_stands_until_the_notebook_works_or_is_kept() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.submit(a_notebook(), redeem=True)
    world.ask(Started(workload_id=lease))
    since, returns = world.now, Millis(world.now + 600_000)

    def told(returns_ms: Millis | None, since_ms: Millis | None = since, by: str = "") -> Idleness:
        world.ask(
            ReportIdle(
                workload_id=lease,
                idle_since_ms=since_ms,
                returns_ms=returns_ms,
                reclaimed=by == "admin",
            )
        )
        idleness = world.get(lease).idleness
        assert idleness is not None
        return idleness

    world.ask(Keep(workload_id=lease, for_ms=1_800_000))
    assert told(returns, by="admin").reclaimed
    assert told(returns).kept_until_ms == 0
    # A look from before the admin asked, and one that knows of it.
    assert (told(None).returns_ms, world.state(lease)) == (returns, State.WARNED)
    assert told(returns).reclaimed
    at_work = told(None, None)
    assert (at_work.reclaimed, at_work.kept_until_ms) == (False, 0)
    assert told(returns, by="admin").reclaimed
    world.ask(Keep(workload_id=lease, for_ms=1_800_000))
    idleness = world.get(lease).idleness
    assert idleness is not None
    assert (idleness.reclaimed, idleness.returns_ms) == (False, None)


def test_only_one_notebook_may_have_the_last_piece() -> None:
    world = World(a_node(gpus=1), teams=[a_team("vision", fixed_milli_gpu=1000)])
    first = world.submit(a_notebook("ann", 500))
    second = world.submit(a_notebook("bob", 1000))
    assert world.state(first) is State.GRANTED
    reason = world.get(second).reason
    assert reason is not None
    assert reason.code is ReasonClass.LIMIT
    assert reason.text == "Needs 1 GPU; vision has ½ of 1 notebook GPUs free."
    assert reason.unblock == "Would start now with ½ GPU."
    assert reason.startable_milli_gpu == 500


def test_who_is_first_in_line_takes_over_from_a_notebook_of_its_team_and_no_borrower_between() -> (
    None
):
    world = World(
        a_node(gpus=2),
        teams=[a_team("vision"), a_team("nlp", fixed_milli_gpu=1000)],
    )
    mine = {"team": TeamName("nlp")}
    first = world.submit(a_notebook("bob", 1000, **mine), redeem=True)
    world.ask(Started(workload_id=first))
    borrower = world.submit(a_job(workers=2))
    ticket = world.submit(a_notebook("nora", 250, **mine))
    other = world.submit(a_notebook("nils", 1000, **mine))
    assert world.get(ticket).nomination is None

    world.ask(Cancel(workload_id=first, why="stopped"))
    assert world.state(first) is State.ACTIVE
    nomination = world.get(ticket).nomination
    assert nomination is not None
    assert nomination.victims == (world.attempt_id(first),)
    # The quota has room for one of the two, and borrowers have none of it.
    assert world.get(other).nomination is None
    assert world.get(borrower).nomination is None

    world.end(first)
    assert world.state(ticket) is State.GRANTED
    assert world.state(borrower) is State.QUEUED
    assert "stop-announced" not in world.kinds()[world.kinds().index("lease-ended") :]


def test_of_tickets_that_are_asked_for_at_once_a_user_gets_so_many() -> None:
    world = World(a_node(gpus=1), teams=[a_team(fixed_milli_gpu=500)])
    world.submit(a_notebook("bob", 500), redeem=True)
    asked = [
        Intent(
            intent_id=IntentId(f"i-{number}"),
            action=Submit(
                workload_id=WorkloadId(f"t-{number}"),
                spec=a_notebook("ann", 500, server_name=f"server-{number}"),
            ),
            by=UserName("ann"),
            at_ms=world.now,
        )
        for number in range(MAX_TICKETS + 2)
    ]
    verdicts = world.step(intents=asked).changes.verdicts
    refused = [verdict.error for verdict in verdicts]
    assert refused == [None] * MAX_TICKETS + ["PolicyRefused"] * 2

    replaced = world.try_submit(a_notebook("ann", 250, server_name="server-0"))
    assert replaced.error is None
    assert world.try_submit(a_notebook("eve", 500)).error is None
    world.ask(Cancel(workload_id=WorkloadId("t-1"), why="left"))
    assert world.try_submit(a_notebook("ann", 500, server_name="new")).error is None
    again = world.try_submit(a_notebook("ann", 500, server_name="newer"))
    assert "waits in line for 5 servers already" in again.text
