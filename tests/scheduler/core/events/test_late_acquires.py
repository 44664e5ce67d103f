"""An acquire that is decided after its spawner gave up: it takes nothing, and stops no other server."""

from __future__ import annotations

import pytest
from builders import World, a_notebook, a_team

from gpucommons.scheduler.core.events.applied_intents import ACQUIRE_PATIENCE_MS
from gpucommons.scheduler.core.events.due_actions import due
from gpucommons.scheduler.core.model.intents import Cancel, Intent, Started, Submit, Verdict
from gpucommons.scheduler.core.model.types import IntentId, Millis, State, UserName, WorkloadId


@pytest.fixture
def world() -> World:
    return World(teams=[a_team(fixed_milli_gpu=1000)])


def acquired_after(world: World, late_ms: int) -> Verdict:
    asked = Intent(
        intent_id=IntentId("late"),
        action=Submit(workload_id=WorkloadId("late"), spec=a_notebook("ann"), redeem=True),
        by=UserName("hub"),
        at_ms=world.now,
    )
    world.now = Millis(world.now + late_ms)
    world.step(intents=(asked,))
    (verdict,) = world.outcome.changes.verdicts
    return verdict


def test_an_acquire_decided_in_time_takes_its_slice(world: World) -> None:
    assert acquired_after(world, ACQUIRE_PATIENCE_MS).error is None
    assert world.state(WorkloadId("late")) is State.GRANTED


def test_an_acquire_that_nobody_waits_for_any_more_takes_nothing(world: World) -> None:
    verdict = acquired_after(world, ACQUIRE_PATIENCE_MS + 1)
    assert verdict.error == "Unavailable"
    assert "Start it again" in verdict.text
    assert WorkloadId("late") not in world.cluster.workloads


def test_a_late_acquire_leaves_the_grant_of_a_ticket_to_who_asks_in_time(world: World) -> None:
    world.submit(a_notebook("ann"))
    ticket = world.submit(a_notebook("ann"))
    acquired_after(world, ACQUIRE_PATIENCE_MS + 1)
    assert world.get(ticket).redeem_by_ms is not None


@pytest.mark.parametrize("why", ["timeout", "reclaimed"])
def test_a_server_that_never_reported_is_not_stopped_by_its_name(world: World, why: str) -> None:
    lease = world.submit(a_notebook("ann"), redeem=True)
    if why == "timeout":
        world.wait(300_000)
    else:
        world.ask(Cancel(workload_id=lease, why=why))
    assert world.stop_of(lease).why == why
    assert due(world.cluster.workloads.values(), world.now) == ()
    assert world.get(lease).current is not None


def test_a_server_that_comes_after_its_time_is_refused_and_gives_the_slice_back(
    world: World,
) -> None:
    lease = world.submit(a_notebook("ann"), redeem=True)
    world.wait(300_000)
    verdict = world.ask(Started(workload_id=lease))
    assert verdict.error == "InvalidTransition"
    assert verdict.text == (
        "The notebook server did not start in time: its GPU is being taken back."
        " Start the server again."
    )
    world.ask(Cancel(workload_id=lease, why="failed"))
    world.end(lease, None)
    assert world.state(lease) is State.ENDED
    assert world.get(lease).ended_text == "The notebook server did not start in time"
