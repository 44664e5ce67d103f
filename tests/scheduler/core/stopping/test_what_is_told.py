"""A stop is told as it stands when its cycle is over: what the cycle takes back was never announced."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import TRAIN, World, a_job, a_node, a_team, ids

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.outcome import finish
from gpucommons.scheduler.core.eviction import policies, solver
from gpucommons.scheduler.core.eviction.policies import QuotaShortfall
from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    TeamName,
    WorkerPlacement,
    WorkloadId,
)
from gpucommons.scheduler.core.passes import guarantee
from gpucommons.scheduler.core.placement import admission
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
    cluster, _ = finish(cycle, None)
    later = CycleState.of(cluster, world.now, ids("y"))
    notice.spare(later, later.workloads[job])
    assert told(later) == [("spared", "borrower goes on: its devices are not needed.")]


def test_who_is_stopped_for_another_reason_in_the_same_cycle_is_told_the_last(world: World) -> None:
    cycle, job, waiting = a_cycle(world)
    announced = notice.announce(cycle, cycle.workloads[job], MOVE, waiting)
    notice.announce(cycle, announced, GUARANTEE, waiting)
    expected = "borrower will be stopped for nlp (its guarantee)."
    assert told(cycle) == [("stop-announced", expected)]


def test_who_is_promised_devices_and_then_finds_some_is_told_that_it_has_them() -> None:
    teams = [a_team(guaranteed_milli_gpu=1000), a_team("nlp", guaranteed_milli_gpu=0)]
    world = World(a_node(gpus=2), teams=teams)
    borrower = world.run(a_job("borrower", 2000, team=TeamName("nlp")))
    waiting = world.submit(a_job("waiting"))
    cycle = CycleState.of(world.cluster.apart(), world.now, ids("x"))
    spec = cycle.workloads[waiting].spec
    policy = policies.for_guarantee(spec.team, QuotaShortfall.of(cycle, spec, TRAIN))
    plan = solver.solve(cycle, spec, TRAIN, policy)
    assert plan is not None
    promised = admission.nominate(cycle, cycle.workloads[waiting], plan)
    assert [kind for kind, _ in told(cycle)] == ["nominated"]
    notice.spare(cycle, cycle.workloads[borrower])
    admission.admit(cycle, promised, plan.placements, HoldClass.GUARANTEED)
    assert [kind for kind, _ in told(cycle)] == ["spared", "admitted"]


def test_who_starts_as_a_borrower_and_is_inside_the_guarantee_at_the_end_is_told_that_alone() -> (
    None
):
    world = World(a_node("full", gpus=1), teams=[a_team(guaranteed_milli_gpu=1000)])
    world.run(a_job("first"))
    job, node = world.submit(a_job("j")), a_node("new", gpus=1)
    cluster = replace(
        world.cluster.apart(),
        nodes={**world.cluster.nodes, node.node_id: node},
        teams={TeamName("vision"): a_team(guaranteed_milli_gpu=2000)},
    )
    cycle = CycleState.of(cluster, world.now, ids("x"))
    worker = WorkerPlacement(
        role=cycle.workloads[job].spec.roles[0].name,
        index=0,
        node_id=node.node_id,
        device_ids=(node.devices[0].device_id,),
        milli_gpu=1000,
        offset=0,
        cpu_milli=0,
        memory_mib=0,
    )
    started = admission.admit(cycle, cycle.workloads[job], [worker], HoldClass.OVER_QUOTA)
    guarantee.upgrade(cycle, started)
    assert told(cycle) == [("admitted", "j has 1 GPU on new (guaranteed).")]
