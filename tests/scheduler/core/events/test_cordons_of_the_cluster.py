"""A cluster cordons nodes as well: that comes and goes with its reports, an admin's word does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.model.intents import SetNodeState
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import NodeId, State

N1 = NodeId("n1")


@pytest.fixture
def world() -> World:
    return World(a_node("n1", gpus=2), a_node("n2", gpus=2), teams=[a_team()])


def report(world: World, state: NodeState) -> None:
    first = replace(a_node("n1", gpus=2), state=state)
    world.step(NodesObserved(executor="fake", nodes=(first, a_node("n2", gpus=2))))


@pytest.mark.parametrize("state", [NodeState.CORDONED, NodeState.FENCED])
def test_an_admins_reason_stands_at_the_node_as_long_as_their_word(
    world: World, state: NodeState
) -> None:
    def say(to: NodeState, text: str = "") -> str:
        world.ask(SetNodeState(node_id=N1, state=to, text=text))
        report(world, NodeState.READY)
        return world.cluster.nodes[N1].state_text

    assert say(state, "Its disk is replaced.") == "Its disk is replaced."
    assert say(NodeState.READY, "It is back.") == ""


def test_a_node_that_the_cluster_cordons_keeps_what_runs_and_takes_nothing_new(
    world: World,
) -> None:
    running = world.run(a_job("d-1"))
    report(world, NodeState.CORDONED)
    assert world.state(running) is State.RUNNING
    current = world.get(world.submit(a_job("d-2"))).current
    assert current is not None
    assert current.placements[0].node_id == "n2"


def test_it_takes_work_again_when_the_cluster_lifts_it(world: World) -> None:
    report(world, NodeState.CORDONED)
    report(world, NodeState.READY)
    node = world.cluster.nodes[N1]
    assert (node.state, node.cordoned_outside) == (NodeState.READY, False)


def test_an_admins_cordon_outlasts_the_clusters(world: World) -> None:
    world.ask(SetNodeState(node_id=N1, state=NodeState.CORDONED))
    report(world, NodeState.CORDONED)
    report(world, NodeState.READY)
    assert world.cluster.nodes[N1].state is NodeState.CORDONED


def test_only_the_cluster_lifts_its_own_cordon(world: World) -> None:
    report(world, NodeState.CORDONED)
    verdict = world.ask(SetNodeState(node_id=N1, state=NodeState.READY))
    assert verdict.error is not None
    assert "kubectl uncordon" in verdict.text
    assert world.cluster.nodes[N1].state is NodeState.CORDONED


def test_an_admins_cordon_outlasts_the_nodes_absence(world: World) -> None:
    world.ask(SetNodeState(node_id=N1, state=NodeState.CORDONED, text="broken fan"))
    world.step(NodesObserved(executor="fake", nodes=(a_node("n2", gpus=2),)))
    assert world.cluster.nodes[N1].state is NodeState.LOST
    report(world, NodeState.READY)
    assert world.cluster.nodes[N1].state is NodeState.CORDONED
    world.ask(SetNodeState(node_id=N1, state=NodeState.READY))
    report(world, NodeState.READY)
    assert world.cluster.nodes[N1].state is NodeState.READY


def test_an_admins_cordon_is_lifted_while_the_node_is_away(world: World) -> None:
    world.ask(SetNodeState(node_id=N1, state=NodeState.CORDONED))
    gone = NodesObserved(executor="fake", nodes=(a_node("n2", gpus=2),))
    world.step(gone)
    world.ask(SetNodeState(node_id=N1, state=NodeState.READY))
    world.step(gone)
    report(world, NodeState.READY)
    assert world.cluster.nodes[N1].state is NodeState.READY


def test_an_admin_cordons_what_the_cluster_has_cordoned_already(world: World) -> None:
    report(world, NodeState.CORDONED)
    world.ask(SetNodeState(node_id=N1, state=NodeState.CORDONED))
    report(world, NodeState.READY)
    assert world.cluster.nodes[N1].state is NodeState.CORDONED


def test_a_cordon_that_an_earlier_version_stored_is_an_admins(world: World) -> None:
    before = replace(world.cluster.nodes[N1], state=NodeState.CORDONED)
    assert not before.cordoned_here
    world.cluster = replace(world.cluster, nodes={**world.cluster.nodes, N1: before})
    report(world, NodeState.READY)
    assert world.cluster.nodes[N1].state is NodeState.CORDONED
