"""An autoscaler's nodes come and go under new names: those that are gone for good are forgotten."""

from __future__ import annotations

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.events.nodes.new_and_lost import FORGOTTEN_AFTER_MS
from gpucommons.scheduler.core.model.intents import SetNodeState
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import NodeId, State

N1, N2 = NodeId("n1"), NodeId("n2")


def report(world: World, *names: str) -> None:
    nodes = tuple(a_node(name) for name in names)
    world.step(NodesObserved(executor="fake", nodes=nodes))


@pytest.fixture
def world() -> World:
    return World(a_node("n1"), a_node("n2"), teams=[a_team()])


def test_as_many_nodes_are_kept_as_came_within_a_day(world: World) -> None:
    hour_ms = FORGOTTEN_AFTER_MS // 24
    for hour in range(3 * 24):
        world.now += hour_ms
        report(world, "n1", f"spot-{hour}")
    assert len(world.cluster.nodes) == 1 + 25
    assert {N1, NodeId("spot-71")} <= world.cluster.nodes.keys()


@pytest.mark.parametrize("fenced", [False, True])
def test_a_node_that_holds_nothing_is_forgotten_after_a_day_and_not_before(
    world: World, *, fenced: bool
) -> None:
    report(world, "n1")
    assert world.cluster.nodes[N2].state is NodeState.LOST
    if fenced:
        world.ask(SetNodeState(node_id=N2, state=NodeState.FENCED))
    world.now += FORGOTTEN_AFTER_MS - 1
    report(world, "n1")
    assert N2 in world.cluster.nodes
    world.now += 1
    report(world, "n1")
    assert N2 not in world.cluster.nodes
    assert world.outcome.changes.removed_nodes == (N2,)
    assert not world.outcome.changes.empty
    assert world.kinds()[-1] == "node-forgotten"
    report(world, "n1", "n2")
    assert world.cluster.nodes[N2].state is NodeState.READY


def test_one_that_comes_back_begins_its_day_anew(world: World) -> None:
    report(world, "n1")
    world.now += FORGOTTEN_AFTER_MS
    report(world, "n1", "n2")
    report(world, "n1")
    world.now += FORGOTTEN_AFTER_MS - 1
    report(world, "n1")
    assert world.cluster.nodes[N2].state is NodeState.LOST


def test_a_node_on_which_something_may_still_run_is_kept(world: World) -> None:
    job = world.run(a_job("d-1", 4000))
    held = world.get(job).current
    assert held is not None
    node_id = held.placements[0].node_id
    other = "n2" if node_id == "n1" else "n1"
    report(world, other)
    world.now += 2 * FORGOTTEN_AFTER_MS
    report(world, other)
    assert world.state(job) is State.RUNNING
    assert node_id in world.cluster.nodes
    world.end(job)
    report(world, other)
    assert node_id not in world.cluster.nodes


def test_a_node_of_another_executors_pool_is_not_missed(world: World) -> None:
    world.now += FORGOTTEN_AFTER_MS
    world.step(NodesObserved(executor="other", nodes=()))
    assert {N1, N2} == world.cluster.nodes.keys()
