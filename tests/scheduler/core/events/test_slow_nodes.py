"""A node that is noted as slow: of equal ones another is taken, and nobody waits for that."""

from __future__ import annotations

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.model.intents import NoteSlowNodes
from gpucommons.scheduler.core.model.resources import SlowNode
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import Millis, NodeId

N1 = NodeId("n1")
SLOW = SlowNode(percent=30, runs=17, jobs=2, since_ms=Millis(1), until_ms=Millis(2))


@pytest.fixture
def world() -> World:
    world = World(a_node("n1", 4), a_node("n2", 4), teams=[a_team(guaranteed_milli_gpu=0)])
    world.ask(NoteSlowNodes(slow={N1: SLOW}))
    return world


def node_of(world: World, job: str) -> str:
    attempt = world.get(job).current  # type: ignore[arg-type]
    assert attempt is not None
    return attempt.placements[0].node_id


@pytest.mark.parametrize("size", [500, 1000, 2000])
def test_of_equal_nodes_the_one_that_is_not_slow_is_taken(world: World, size: int) -> None:
    assert node_of(world, world.run(a_job("a", size))) == "n2"


def test_a_gang_goes_where_it_is_not_slow(world: World) -> None:
    assert node_of(world, world.run(a_job("a", 1000, workers=2))) == "n2"


def test_where_nothing_else_is_free_a_slow_node_is_taken(world: World) -> None:
    first = world.run(a_job("a", 4000))
    assert (node_of(world, first), node_of(world, world.run(a_job("b", 4000)))) == ("n2", "n1")


def test_what_is_no_longer_noted_is_over(world: World) -> None:
    world.ask(NoteSlowNodes(slow={}))
    assert node_of(world, world.run(a_job("a", 1000))) == "n1"
    told = [event.text for event in world.events if event.kind == "node-slow"]
    assert told == [
        "Steps take 30 % longer on n1 than the same steps elsewhere (17 runs of 2 jobs): of equal nodes another is taken.",
        "n1 is avoided no more: it is not known to be slow.",
    ]


def test_it_stays_when_the_executor_tells_of_the_node_again(world: World) -> None:
    world.step(NodesObserved(executor="fake", nodes=(a_node("n1", 2), a_node("n2", 4))))
    assert world.cluster.nodes[N1].slow == SLOW
