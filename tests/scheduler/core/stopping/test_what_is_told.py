"""A stop is told as it stands when its cycle is over: what the cycle takes back was never announced."""

from __future__ import annotations

import pytest
from builders import World, a_job, a_node, a_team, ids

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.types import TeamName, WorkloadId
from gpucommons.scheduler.core.stopping import notice

MOVE = eviction_cause.of_move("big")
GUARANTEE = eviction_cause.of_guarantee(TeamName("nlp"))


@pytest.fixture
def world() -> World:
    return World(a_node(gpus=2), teams=[a_team(guaranteed_milli_gpu=0)])


def a_cycle(world: World) -> tuple[CycleState, WorkloadId, WorkloadId]:
    job, waiting = world.run(a_job("borrower")), world.run(a_job("waiting"))
    return CycleState.of(world.cluster.apart(), world.now, ids("x")), job, waiting


def told(cycle: CycleState) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in cycle.told.events]


def test_who_is_spared_in_the_cycle_of_its_notice_is_told_nothing(world: World) -> None:
    cycle, job, waiting = a_cycle(world)
    announced = notice.announce(cycle, cycle.workloads[job], GUARANTEE, waiting)
    notice.spare(cycle, announced)
    assert told(cycle) == []


def test_who_is_spared_after_its_notice_is_told_so(world: World) -> None:
    cycle, job, waiting = a_cycle(world)
    notice.announce(cycle, cycle.workloads[job], GUARANTEE, waiting)
    cluster, _ = cycle.finish(None)
    later = CycleState.of(cluster, world.now, ids("y"))
    notice.spare(later, later.workloads[job])
    assert told(later) == [("spared", "borrower goes on: its devices are not needed.")]


def test_who_is_stopped_for_another_reason_in_the_same_cycle_is_told_the_last(world: World) -> None:
    cycle, job, waiting = a_cycle(world)
    announced = notice.announce(cycle, cycle.workloads[job], MOVE, waiting)
    notice.announce(cycle, announced, GUARANTEE, waiting)
    expected = "borrower will be stopped for nlp (its guarantee)."
    assert told(cycle) == [("stop-announced", expected)]
