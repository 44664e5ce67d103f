"""A node that is noted as slow: of equal ones another is taken, and nobody waits for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.model.intents import NoteSlowNodes
from gpucommons.scheduler.core.model.resources import Node, SlowNode, SlowPair
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import Millis, NodeId

N1 = NodeId("n1")
SLOW = SlowNode(percent=30, runs=17, jobs=2, since_ms=Millis(1), until_ms=Millis(10**15))


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


def test_it_is_tried_again_at_its_time_and_the_next_cycle_is_due_then(world: World) -> None:
    until_ms = Millis(world.now + 3_600_000)
    world.ask(NoteSlowNodes(slow={N1: replace(SLOW, until_ms=until_ms)}))
    world.wait(3_599_999)
    assert (world.outcome.wake_ms, world.cluster.nodes[N1].slow is None) == (until_ms, False)
    world.wait(1)
    assert world.cluster.nodes[N1].slow is None
    (*_, told) = [event.text for event in world.events if event.kind == "node-slow"]
    assert told == "n1 is avoided no more: its time is over, and it is tried again."
    assert node_of(world, world.run(a_job("a", 1000))) == "n1"


def slow_with(other: str, until_ms: int) -> SlowPair:
    slow = SlowNode(percent=40, runs=12, since_ms=Millis(1), until_ms=Millis(until_ms))
    return SlowPair(other=NodeId(other), slow=slow)


def three(*, for_ms: int = 10**12) -> World:
    """The first two are slow together."""
    nodes = [a_node(f"n{number}", 2) for number in (1, 2, 3)]
    world = World(*nodes, teams=[a_team(guaranteed_milli_gpu=0)])
    until_ms = world.now + for_ms
    pairs = {N1: (slow_with("n2", until_ms),), NodeId("n2"): (slow_with("n1", until_ms),)}
    world.ask(NoteSlowNodes(slow={}, slow_pairs=pairs))
    return world


def nodes_of(world: World, job: str) -> set[str]:
    attempt = world.get(job).current  # type: ignore[arg-type]
    assert attempt is not None
    return {one.node_id for one in attempt.placements}


def test_a_gang_on_several_nodes_takes_a_pair_that_is_not_slow_together() -> None:
    world = three()
    job = world.run(a_job("a", 2000, workers=2))
    assert nodes_of(world, job) in ({"n1", "n3"}, {"n2", "n3"})


def test_a_slow_pair_is_taken_where_there_is_no_other_and_when_its_time_is_over() -> None:
    world = three()
    assert nodes_of(world, world.run(a_job("a", 2000, workers=3))) == {"n1", "n2", "n3"}
    later = three(for_ms=3_600_000)
    later.wait(3_600_000)
    assert later.cluster.nodes[N1].slow_pairs == ()
    assert nodes_of(later, later.run(a_job("a", 2000, workers=2))) == {"n1", "n2"}


def with_pairs(*nodes: Node, pairs: Sequence[str]) -> World:
    """Nodes of one letter each; a pair is its two letters."""
    world = World(*nodes, teams=[a_team(guaranteed_milli_gpu=0)])
    noted: dict[NodeId, tuple[SlowPair, ...]] = {}
    for one, other in [*pairs, *(pair[::-1] for pair in pairs)]:
        noted[NodeId(one)] = (*noted.get(NodeId(one), ()), slow_with(other, 10**15))
    world.ask(NoteSlowNodes(slow={}, slow_pairs=noted))
    return world


def test_a_rack_without_a_slow_pair_goes_before_a_tighter_one_with_it() -> None:
    racks = [a_node(name, 1, rack="r1" if name in "AB" else "r2") for name in "ABCDE"]
    world = with_pairs(*racks, pairs=["AB"])
    job = world.run(a_job("a", 1000, workers=2))
    assert nodes_of(world, job) < {"C", "D", "E"}


def test_a_slow_pair_in_one_rack_is_taken_where_no_other_rack_has_room() -> None:
    racks = [a_node(name, 1, rack="r1" if name in "AB" else None) for name in "ABCD"]
    world = with_pairs(*racks, pairs=["AB"])
    assert nodes_of(world, world.run(a_job("a", 1000, workers=2))) == {"A", "B"}


@pytest.mark.parametrize("is_shared", [False, True], ids=["whole GPUs", "shares"])
def test_slow_pairs_of_nodes_without_room_are_in_nobodys_way(*, is_shared: bool) -> None:
    world = with_pairs(*(a_node(name, 2) for name in "ABCDEF"), pairs=["AB", "CD", "EF"])
    filling = [world.run(a_job(f"f{number}", 2000)) for number in range(6)]
    for job in filling:
        if nodes_of(world, job) & {"A", "B", "D", "E"}:
            world.end(job)
    size = 1500 // 2 if is_shared else 2000
    workers = 6 if is_shared else 3
    found = nodes_of(world, world.run(a_job("a", size, workers=workers)))
    assert found in ({"A", "D", "E"}, {"B", "D", "E"})


def test_one_node_that_has_room_for_all_is_tighter_than_any_pair() -> None:
    world = three()
    assert len(nodes_of(world, world.run(a_job("a", 1000, workers=2)))) == 1


def test_more_workers_of_an_elastic_job_go_where_it_is_not_slow_together() -> None:
    world = three()
    world.run(a_job("other", 1000))
    job = world.run(a_job("a", 2000, workers=1, max_workers=2))
    assert nodes_of(world, job) == {"n2", "n3"}


def test_a_pair_is_told_once_and_at_its_time_it_is_tried_again() -> None:
    world = three(for_ms=3_600_000)
    world.wait(3_600_000)
    told = [event.text for event in world.events if event.kind == "pair-slow"]
    assert told == [
        "Steps take 40 % longer on n1 and n2 together than the same steps on other pairs of nodes (12 runs of 1 job):"
        " a job on several nodes first looks for others.",
        "n1 and n2 are avoided together no more: their time is over, and they are tried again.",
    ]


def test_a_pair_that_is_no_longer_noted_is_not_known_to_be_slow() -> None:
    world = three()
    world.ask(NoteSlowNodes(slow={}))
    (*_, told) = [event.text for event in world.events if event.kind == "pair-slow"]
    assert told == "n1 and n2 are avoided together no more: they are not known to be slow."
