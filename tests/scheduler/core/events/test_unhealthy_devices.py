"""A GPU that its driver calls lost takes nothing new, stops nobody, and comes back by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from builders import World, a_job, a_node, a_notebook, a_team
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.events.nodes.unhealthy_devices import WELL_FOR_MS, told_to
from gpucommons.scheduler.core.model.intents import Started
from gpucommons.scheduler.core.model.resources import Node, NodeState, UnhealthyDevice
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import NodeId, ReasonClass, State, WorkloadId

N1 = NodeId("n1")
LOST = "GPU is lost"


def with_ill(node: Node, ill: Iterable[int]) -> Node:
    """As an executor reports the node while these of its GPUs are unhealthy."""
    numbers = set(ill)
    return replace(
        node,
        devices=tuple(one for one in node.devices if one.index not in numbers),
        unhealthy=tuple(
            UnhealthyDevice(device=one, text=LOST) for one in node.devices if one.index in numbers
        ),
    )


def report(world: World, node: Node, *ill: int) -> None:
    world.step(NodesObserved(executor="fake", nodes=(with_ill(node, ill),)))


def gpus_of(world: World, workload_id: WorkloadId) -> list[DeviceId]:
    attempt = world.get(workload_id).current
    assert attempt is not None
    return [device for one in attempt.placements for device in one.device_ids]


def test_a_job_that_needs_all_gpus_of_a_node_waits_and_is_told_for_what() -> None:
    node = a_node(gpus=2)
    world = World(node, teams=[a_team()])
    report(world, node, 1)
    job = world.submit(a_job("large", 2000))
    reason = world.get(job).reason
    assert reason is not None
    assert reason.code is ReasonClass.NODES
    assert reason.text == (
        "Needs 2 GPUs on one node, and in pool train n1 gives out 1 of its 2 GPUs (GPU 1: GPU"
        " is lost)."
    )
    assert reason.unblock == ("Wait until a GPU takes work again, or ask an admin to look at it.")


def test_what_runs_on_it_is_told_and_goes_on() -> None:
    node = a_node(gpus=2)
    world = World(node, teams=[a_team(fixed_milli_gpu=1000)])
    job = world.run(a_job())
    (held,) = gpus_of(world, job)
    index = next(one.index for one in node.devices if one.device_id == held)
    report(world, node, index)
    assert world.state(job) is State.RUNNING
    assert world.stop_of(job) is None
    said = [one.text for one in world.events if one.workload_id == job]
    assert said[-1] == (
        f'GPU {index} of n1, which it has, is unhealthy: its driver says "GPU is lost".'
        " It is not stopped."
    )
    assert told_to(world.get(job).current, world.cluster.nodes) == [said[-1]]
    report(world, node)
    assert told_to(world.get(job).current, world.cluster.nodes) == []
    world.end(job)
    assert world.state(job) is State.SUCCEEDED


def test_what_was_placed_on_it_and_has_not_begun_begins_elsewhere() -> None:
    node = a_node(gpus=2)
    world = World(node, teams=[a_team()])
    job = world.submit(a_job())
    (first,) = gpus_of(world, job)
    index = next(one.index for one in node.devices if one.device_id == first)
    report(world, node, index)
    assert world.stop_of(job).why == "lost"
    world.end(job, None)
    world.wait(600_000)
    assert gpus_of(world, job) != [first]


def test_it_comes_back_by_itself_after_it_was_well_for_a_while() -> None:
    node = a_node(gpus=1)
    world = World(node, teams=[a_team()])
    report(world, node, 0)
    job = world.submit(a_job())
    assert world.state(job) is State.QUEUED
    report(world, node)
    assert world.state(job) is State.QUEUED
    assert world.outcome.wake_ms == world.now + WELL_FOR_MS
    world.wait(WELL_FOR_MS - 1)
    assert world.state(job) is State.QUEUED
    world.wait(1)
    assert world.state(job) is State.STARTING
    assert world.cluster.nodes[N1].unhealthy == ()
    assert world.kinds().count("device-back") == 1


def test_one_that_comes_and_goes_takes_nothing() -> None:
    node = a_node(gpus=1)
    world = World(node, teams=[a_team()])
    job = None
    for _ in range(5):
        report(world, node, 0)
        job = job or world.submit(a_job())
        world.wait(WELL_FOR_MS // 2)
        report(world, node)
        world.wait(WELL_FOR_MS // 2)
    assert job is not None
    assert world.state(job) is State.QUEUED
    assert world.kinds().count("device-unhealthy") == 1


def test_fixed_quota_is_laid_on_gpus_that_work() -> None:
    node = a_node(gpus=2)
    world = World(node, teams=[a_team(fixed_milli_gpu=1000)])
    (block,) = world.cluster.blocks
    index = next(one.index for one in node.devices if one.device_id == block.device_ids[0])
    report(world, node, index)
    notebook = world.submit(a_notebook("ann", 1000), redeem=True)
    assert gpus_of(world, notebook) == [node.devices[1 - index].device_id]


def test_a_notebook_on_it_keeps_it_and_counts_against_its_team() -> None:
    node = a_node(gpus=2)
    world = World(node, teams=[a_team(fixed_milli_gpu=1000)])
    notebook = world.submit(a_notebook("ann", 1000), redeem=True)
    world.ask(Started(workload_id=notebook))
    (held,) = gpus_of(world, notebook)
    report(world, node, next(one.index for one in node.devices if one.device_id == held))
    assert world.state(notebook) is State.ACTIVE
    second = world.submit(a_notebook("ben", 500))
    assert world.state(second) is State.WAITING


def test_who_has_one_that_is_gone_from_its_node_is_ended_as_ever() -> None:
    node = a_node(gpus=2)
    world = World(node, teams=[a_team()])
    job = world.run(a_job())
    (held,) = gpus_of(world, job)
    report(world, node, next(one.index for one in node.devices if one.device_id == held))
    left = tuple(one for one in node.devices if one.device_id != held)
    world.step(NodesObserved(executor="fake", nodes=(replace(node, devices=left),)))
    assert world.stop_of(job).text == f"Its GPU {held} is gone from n1"


def test_a_node_that_joins_with_an_unhealthy_gpu_says_so() -> None:
    node = a_node(gpus=2)
    world = World(with_ill(node, [0]), teams=[a_team()])
    assert "device-unhealthy" in world.kinds()
    assert world.cluster.nodes[N1].state is NodeState.READY


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ill"), st.integers(0, 5)),
        st.tuples(st.just("well"), st.integers(0, 5)),
        st.tuples(st.just("job"), st.sampled_from([250, 500, 1000, 2000])),
        st.tuples(st.just("borrows"), st.sampled_from([1000, 2000, 3000])),
        st.tuples(st.just("notebook"), st.sampled_from([250, 500, 1000])),
        st.tuples(st.just("start"), st.integers(0, 20)),
        st.tuples(st.just("end"), st.integers(0, 20)),
        st.tuples(st.just("wait"), st.sampled_from([1_000, 30_000, 61_000, 600_000])),
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(_STEPS)
def test_nothing_is_ever_placed_on_a_gpu_that_is_unhealthy(steps: list[tuple[str, Any]]) -> None:
    nodes = {"n1": a_node("n1", gpus=4), "n2": a_node("n2", gpus=2)}
    ill: dict[str, set[int]] = {"n1": set(), "n2": set()}
    teams = [
        a_team("vision", fixed_milli_gpu=1000, guaranteed_milli_gpu=2000),
        a_team("nlp", fixed_milli_gpu=1000, guaranteed_milli_gpu=1000),
    ]
    world = World(*nodes.values(), teams=teams)
    known: set[str] = set()
    for number, (what, value) in enumerate(steps):
        if what in ("ill", "well"):
            name, index = ("n1", value) if value < 4 else ("n2", value - 4)
            (ill[name].add if what == "ill" else ill[name].discard)(index)
            told = tuple(with_ill(node, ill[name]) for name, node in nodes.items())
            world.step(NodesObserved(executor="fake", nodes=told))
        elif what == "job":
            world.try_submit(a_job(f"g-{number}", value))
        elif what == "borrows":
            world.try_submit(a_job(f"b-{number}", value, team="nlp", owner="zoe"))
        elif what == "notebook":
            world.try_submit(a_notebook(f"u{number}", value))
        elif what == "wait":
            world.wait(value)
        else:
            live = sorted(
                one.workload_id for one in world.cluster.workloads.values() if one.current
            )
            if live:
                (world.start if what == "start" else world.end)(live[value % len(live)])
        known = placed_well(world, known)


def placed_well(world: World, known: set[str]) -> set[str]:
    """Attempts that are new lie on GPUs that take work; returns all that there are now."""
    usable = {
        device.device_id
        for node in world.cluster.nodes.values()
        if node.state is NodeState.READY
        for device in node.devices
    }
    current = {
        w.current.attempt_id: w.current for w in world.cluster.workloads.values() if w.current
    }
    for attempt_id in current.keys() - known:
        held = {device for one in current[attempt_id].placements for device in one.device_ids}
        assert held <= usable
    return known | current.keys()
