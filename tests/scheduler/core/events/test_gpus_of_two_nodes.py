"""A GPU that two nodes have, or that has gone to another node, is still one GPU: granted once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.model.intents import SetNodeState
from gpucommons.scheduler.core.model.resources import Node, NodeState
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import NodeId, State, WorkerPlacement, WorkloadId

#: The machine as it was called when the job began, and by its new name: with the same GPUs.
OLD = a_node("old", gpus=2)
NEW = replace(OLD, node_id=NodeId("new"))


def report(world: World, *nodes: Node) -> None:
    world.step(NodesObserved(executor="fake", nodes=nodes))


@pytest.fixture
def world() -> World:
    pool = a_pool(notice_ms=0)
    return World(OLD, teams=[a_team(guaranteed_milli_gpu=2000)], pools=[pool])


@pytest.fixture
def job(world: World) -> WorkloadId:
    found = world.run(a_job("d-1", 2000))
    report(world, NEW)
    return found


def test_what_is_held_on_a_lost_node_is_granted_under_no_other_name(
    world: World, job: WorkloadId
) -> None:
    waiting = world.submit(a_job("d-2"))
    assert world.cluster.nodes[NodeId("old")].state is NodeState.LOST
    assert (world.state(job), world.state(waiting)) == (State.RUNNING, State.QUEUED)
    world.end(job)
    assert world.state(waiting) is State.STARTING


def test_a_fence_frees_it_everywhere(world: World, job: WorkloadId) -> None:
    waiting = world.submit(a_job("d-2"))
    world.ask(SetNodeState(node_id=NodeId("old"), state=NodeState.FENCED))
    assert world.get(job).current is None
    assert world.state(waiting) is State.STARTING


def test_a_part_that_is_free_is_granted(world: World) -> None:
    held = world.run(a_job("d-1", 500))
    report(world, NEW)
    found = [world.run(a_job(f"e-{index}", 500)) for index in range(3)]
    more = world.submit(a_job("e-4", 500))
    assert world.state(more) is State.QUEUED
    world.end(found[0])
    assert world.state(more) is State.STARTING
    assert world.state(held) is State.RUNNING


def test_a_gpu_that_went_to_another_node_is_granted_when_its_holder_has_ended() -> None:
    before, other = a_node("n1", gpus=2), a_node("n2", gpus=0)
    team = a_team(guaranteed_milli_gpu=2000)
    world = World(before, other, teams=[team], pools=[a_pool()])
    job = world.run(a_job("d-1", 2000))
    report(world, replace(before, devices=()), replace(other, devices=before.devices))
    waiting = world.submit(a_job("d-2"))
    assert world.stop_of(job).why == "lost"
    assert world.state(waiting) is State.QUEUED
    world.end(job)
    assert world.state(waiting) is State.STARTING


def test_a_gpu_granted_twice_long_ago_is_free_when_both_have_ended() -> None:
    """As an earlier version left it: one GPU is held under two names, and promised on."""
    nodes = {one.node_id: one for one in (a_node("n1", gpus=1), a_node("n2", gpus=1))}
    teams = [a_team(), a_team("nlp", guaranteed_milli_gpu=2000)]
    world = World(*nodes.values(), teams=teams, pools=[a_pool()])
    jobs = [world.run(a_job(f"d-{index}")) for index in (1, 2)]
    nominee = world.submit(a_job("d-3", team=teams[1].name))
    promise = world.get(nominee).nomination
    assert promise is not None
    node = nodes[promise.placements[0].node_id]
    (victim,) = (one for one in jobs if place_of(world, one).node_id == node.node_id)
    (other,) = (one for one in jobs if one != victim)
    hold_twice(world, other, node)
    world.end(victim)
    assert world.get(nominee).current is None
    world.end(other)
    assert place_of(world, nominee).device_ids == (node.devices[0].device_id,)


def place_of(world: World, workload_id: WorkloadId) -> WorkerPlacement:
    return world.get(workload_id).attempts[-1].placements[0]


def hold_twice(world: World, workload_id: WorkloadId, node: Node) -> None:
    """Have a job hold the GPUs of a node under the name of its own."""
    cluster, job, place = world.cluster, world.get(workload_id), place_of(world, workload_id)
    device_ids = tuple(one.device_id for one in node.devices)
    attempt = replace(job.attempts[-1], placements=(replace(place, device_ids=device_ids),))
    twin = replace(cluster.nodes[place.node_id], devices=node.devices)
    world.cluster = replace(
        cluster,
        nodes={**cluster.nodes, twin.node_id: twin},
        workloads={**cluster.workloads, workload_id: replace(job, attempts=(attempt,))},
    )
