"""Who is paused is told so, and is looked at again only when something of it changes."""

from __future__ import annotations

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.model.intents import Pause
from gpucommons.scheduler.core.model.types import State, WorkloadId
from gpucommons.scheduler.core.queue import eligibility, reasons_not_eligible
from gpucommons.scheduler.parents import Parent, ParentId, ParentKind

SWEEP = Parent(parent_id=ParentId("s-1"), kind=ParentKind.SWEEP, name="search", number=1)


@pytest.fixture
def world() -> World:
    """A team with one GPU."""
    return World(a_node(gpus=1), teams=[a_team(guaranteed_milli_gpu=1000)])


def told(world: World, job: WorkloadId) -> str:
    reason = world.get(job).reason
    assert reason is not None
    return reason.text


def test_hundreds_of_paused_jobs_are_told_once_and_cost_later_cycles_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(a_job("runs"))
    jobs = [world.submit(a_job(f"trial-{number}")) for number in range(9)]
    for job in jobs:
        world.ask(Pause(workload_id=job))
    assert {told(world, job) for job in jobs} == {"Paused."}
    looked: list[str] = []
    known = reasons_not_eligible.known
    monkeypatch.setattr(
        eligibility,
        "QUESTIONS",
        (
            lambda cycle, one: looked.append(one.spec.name) or known(cycle, one),
            reasons_not_eligible.paused,
        ),
    )
    world.submit(a_job("another"))
    assert looked == []
    # A scheduler that begins anew knows by what is stored of them that they were told.
    world.cluster = world.cluster.apart()
    world.submit(a_job("yet-another"))
    assert looked == []


def test_a_trial_that_people_pause_too_is_told_what_is_true_now(world: World) -> None:
    world.run(a_job("runs"))
    trial = world.submit(a_job("trial", part_of=SWEEP))
    world.ask(Pause(workload_id=trial, of_parent=True))
    assert told(world, trial).startswith("Paused at a rung of its sweep search")
    world.ask(Pause(workload_id=trial))
    assert (world.state(trial), told(world, trial)) == (State.PAUSED, "Paused.")
