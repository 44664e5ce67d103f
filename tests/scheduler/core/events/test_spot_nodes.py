"""A node that its cloud takes back: what runs there goes on elsewhere before it is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import T0, World, a_job, a_node, a_notebook, a_team

from gpucommons.scheduler.core.model.going_on import Hibernation
from gpucommons.scheduler.core.model.intents import NoticeNode, Pause, SetNodeState, Started
from gpucommons.scheduler.core.model.resources import Node, NodeState
from gpucommons.scheduler.core.model.state import AttemptStarted, CheckpointReported, NodesObserved
from gpucommons.scheduler.core.model.types import Checkpoint, Millis, NodeId, State, WorkloadId

SECOND = 1_000
FIRST = NodeId("n1")


@pytest.fixture
def world() -> World:
    return World(a_node("n1", 2), a_node("n2", 2), teams=[a_team(guaranteed_milli_gpu=2000)])


def node_of(world: World, job: WorkloadId) -> NodeId:
    attempt = world.get(job).current
    assert attempt is not None
    return attempt.placements[0].node_id


def take_back(world: World, node: NodeId, in_s: int = 120) -> str | None:
    at_ms = Millis(world.now + in_s * SECOND)
    return world.ask(NoticeNode(node_id=node, leaves_ms=at_ms), "admin").error


def save(world: World, job: WorkloadId, step: int) -> None:
    attempt_id = world.attempt_id(job)
    saved = Checkpoint(
        attempt_id=attempt_id, step=step, path="x", size_bytes=1, sha256="0" * 64, at_ms=world.now
    )
    world.step(CheckpointReported(attempt_id=attempt_id, checkpoint=saved))


def test_a_job_saves_until_shortly_before_the_node_goes_and_goes_on_elsewhere(
    world: World,
) -> None:
    job = world.run(a_job())
    leaving = node_of(world, job)
    take_back(world, leaving)
    stop = world.stop_of(job)
    assert (stop.why, stop.text) == ("spot", f"because the cloud takes {leaving} back in 120 s")
    assert stop.signalled
    assert stop.kill_ms == world.now + 115 * SECOND
    save(world, job, 5430)
    world.end(job, 143, told=True)
    assert world.state(job) is State.STARTING
    assert node_of(world, job) != leaving
    assert world.get(job).attempts[0].ended_text == (
        f"Stopped because the cloud takes {leaving} back in 120 s: goes on from step 5,430"
    )


def test_the_node_takes_nothing_new_until_an_admin_lets_it(world: World) -> None:
    take_back(world, FIRST)
    assert world.cluster.nodes[FIRST].state is NodeState.CORDONED
    jobs = [world.run(a_job(f"j-{i}")) for i in range(2)]
    assert {node_of(world, job) for job in jobs} == {"n2"}
    waits = world.submit(a_job("j-3"))
    assert world.state(waits) is State.QUEUED
    world.ask(SetNodeState(node_id=FIRST, state=NodeState.READY), "admin")
    node = world.cluster.nodes[FIRST]
    assert (node.state, node.leaves_ms) == (NodeState.READY, None)
    assert node_of(world, waits) == FIRST


def test_what_the_cluster_says_of_a_node_is_a_notice_too(world: World) -> None:
    job = world.run(a_job())
    leaving = node_of(world, job)
    at_ms = Millis(world.now + 30 * SECOND)
    seen = tuple(
        replace(a_node(name, 2), leaves_ms=at_ms if name == leaving else None)
        for name in ("n1", "n2")
    )
    world.step(NodesObserved(executor="fake", nodes=seen))
    assert world.stop_of(job).kill_ms == at_ms - 5 * SECOND
    assert world.kinds().count("node-leaves") == 1
    world.step(NodesObserved(executor="fake", nodes=seen))
    world.step(NodesObserved(executor="fake", nodes=(a_node("n1", 2), a_node("n2", 2))))
    assert world.kinds().count("node-leaves") == 1, "said once"
    assert world.cluster.nodes[leaving].leaves_ms == at_ms, "it stands until it was away"


def test_a_notice_that_was_lifted_does_not_end_what_started_after_its_time(world: World) -> None:
    at_ms = Millis(world.now + 30 * SECOND)
    seen = (replace(a_node("n1", 2), leaves_ms=at_ms), a_node("n2", 2))
    world.step(NodesObserved(executor="fake", nodes=seen))
    assert world.cluster.nodes[FIRST].state is NodeState.CORDONED
    world.wait(60 * SECOND)
    world.ask(SetNodeState(node_id=FIRST, state=NodeState.READY), "admin")
    jobs = [world.run(a_job(f"j-{i}")) for i in range(4)]
    world.step(NodesObserved(executor="fake", nodes=seen))
    assert world.cluster.nodes[FIRST].state is NodeState.READY
    assert [world.stop_of(job) for job in jobs] == [None] * 4
    assert world.kinds().count("node-leaves") == 1


def test_a_notice_that_was_lifted_is_not_new_to_a_scheduler_that_was_started_anew(
    world: World,
) -> None:
    def seen(in_s: int | None) -> None:
        at_ms = None if in_s is None else Millis(world.now + in_s * SECOND)
        nodes = (replace(a_node("n1", 2), leaves_ms=at_ms), a_node("n2", 2))
        world.step(NodesObserved(executor="fake", nodes=nodes))

    seen(30)
    world.wait(60 * SECOND)
    world.ask(SetNodeState(node_id=FIRST, state=NodeState.READY), "admin")
    jobs = [world.run(a_job(f"j-{i}")) for i in range(4)]
    # The taint stands, and whoever looks again counts its seconds from now.
    seen(30)
    assert world.cluster.nodes[FIRST].state is NodeState.READY
    assert [world.stop_of(job) for job in jobs] == [None] * 4
    # One that is gone and comes again is another one.
    seen(None)
    seen(30)
    assert world.cluster.nodes[FIRST].leaves_ms == world.now + 30 * SECOND
    assert world.kinds().count("node-leaves") == 2


def test_another_machine_of_the_same_name_takes_work_again(world: World) -> None:
    take_back(world, FIRST)
    world.wait(120 * SECOND)
    world.step(NodesObserved(executor="fake", nodes=(a_node("n2", 2),)))
    assert world.cluster.nodes[FIRST].state is NodeState.LOST
    both: tuple[Node, ...] = (a_node("n1", 2), a_node("n2", 2))
    world.step(NodesObserved(executor="fake", nodes=both))
    node = world.cluster.nodes[FIRST]
    assert (node.state, node.leaves_ms) == (NodeState.READY, None)


@pytest.mark.parametrize(("cost_s", "saved"), [(20, True), (600, False)])
def test_processes_are_saved_whole_where_the_seconds_are_enough(
    world: World, cost_s: int, saved: bool
) -> None:
    job = world.submit(a_job())
    known = Hibernation(cost_ms=cost_s * SECOND)
    world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=known))
    take_back(world, node_of(world, job), 120)
    assert world.stop_of(job).hibernates is saved


def test_what_is_being_stopped_already_keeps_its_reason_and_has_less_time(world: World) -> None:
    job = world.run(a_job())
    world.ask(Pause(workload_id=job))
    before = world.stop_of(job)
    take_back(world, node_of(world, job), 20)
    after = world.stop_of(job)
    assert (after.why, after.kill_ms) == ("pause", world.now + 15 * SECOND)
    assert after.kill_ms < before.kill_ms


def test_a_gang_with_one_worker_there_goes_whole(world: World) -> None:
    job = world.run(a_job(workers=2, milli_gpu=2000))
    take_back(world, FIRST)
    assert world.stop_of(job).why == "spot"


def test_a_notebook_there_is_stopped_and_says_why() -> None:
    world = World(a_node("n1", 2), teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.submit(a_notebook("ann", 500), redeem=True)
    world.ask(Started(workload_id=lease))
    take_back(world, FIRST)
    assert (world.stop_of(lease).why, world.stop_of(lease).text) == (
        "spot",
        "The cloud takes n1 back in 120 s",
    )


def test_a_node_that_nobody_knows_is_refused(world: World) -> None:
    assert take_back(world, NodeId("n9")) == "UnknownNode"
    assert world.now == T0
