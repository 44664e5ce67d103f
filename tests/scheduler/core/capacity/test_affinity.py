"""Where a job would rather run: near other jobs and its data, never as a reason to wait."""

from __future__ import annotations

from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.capacity.affinity import NONE, affinity_of
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import NodeId, State, WorkloadId

RACKS = {"n1": "left", "n2": "left", "n3": "right", "n4": "right"}


def nodes(**data: str) -> list[Node]:
    return [
        a_node(name, 2, rack=rack, data=frozenset({data[name]} if name in data else ()))
        for name, rack in RACKS.items()
    ]


def node_of(world: World, job: WorkloadId) -> str:
    attempt = world.get(job).current
    assert attempt is not None
    return attempt.placements[0].node_id


def test_a_job_lies_where_its_data_lies_then_in_the_same_rack() -> None:
    world = World(*nodes(n3="images"), teams=[a_team()])
    jobs = [world.submit(a_job(f"d-{i}", 1000, data=("images",))) for i in range(6)]
    assert [node_of(world, job) for job in jobs[:4]] == ["n3", "n3", "n4", "n4"]
    # All of that is full: it starts elsewhere rather than wait.
    assert {node_of(world, job) for job in jobs[4:]} <= {"n1", "n2"}


def test_a_job_lies_near_another() -> None:
    world = World(*nodes(), teams=[a_team()])
    blocker = world.run(a_job("blocker", 2000))
    server = world.run(a_job("server", 1000, data=("nothing",)))
    client = world.submit(a_job("client", 1000, near=(server,)))
    assert node_of(world, client) == node_of(world, server) != node_of(world, blocker)
    second = world.submit(a_job("second", 2000, near=(server,)))
    assert RACKS[node_of(world, second)] == RACKS[node_of(world, server)] or (
        RACKS[node_of(world, blocker)] == RACKS[node_of(world, server)]
    )


def test_near_to_what_is_over_or_unknown_is_near_to_nothing() -> None:
    world = World(*nodes(), teams=[a_team()])
    first = world.run(a_job("first"))
    world.end(first)
    job = world.submit(a_job("job", near=(first, WorkloadId("nobody")), data=("moon",)))
    assert world.state(job) is State.STARTING


def test_each_wish_counts_alike_and_the_node_twice_its_rack() -> None:
    there = {node.node_id: node for node in nodes(n1="a", n2="b", n4="b")}
    spec = a_job("job", data=("a", "b"))
    assert affinity_of(spec, there, {}) == {"n1": 3, "n2": 3, "n4": 2, "n3": 1}
    assert affinity_of(a_job("plain"), there, {}) is NONE
    alone = {NodeId("n"): a_node("n", 1, data=frozenset({"a"}))}
    assert affinity_of(spec, alone, {}) == {"n": 2}
