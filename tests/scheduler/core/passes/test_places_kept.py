"""In-guarantee work that waits for other such work keeps one place per team."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from builders import World, a_device, a_job, a_node, a_team

from gpucommons.scheduler.core.model.intents import SetNodeState
from gpucommons.scheduler.core.model.resources import Node, NodeState
from gpucommons.scheduler.core.model.types import HoldClass, NodeId, Spec, State


def of_kind(kind: str, name: str) -> Node:
    devices = tuple(a_device(f"{name}-g{i}", i, kind=kind) for i in range(2))
    return replace(a_node(name), devices=devices)


def a_job_of_kind(kind: str, name: str, milli_gpu: int, **changes: Any) -> Spec:
    job = a_job(name, milli_gpu, over_quota=False, **changes)
    return replace(job, roles=(replace(job.roles[0], gpu_kind=kind),))


def a_full_world() -> World:
    """One of the two old GPUs is held inside b's guarantee."""
    nodes = (of_kind("old", "n1"), of_kind("new", "n2"), of_kind("new", "n3"))
    teams = [a_team(name, guaranteed_milli_gpu=3000) for name in ("a", "b")]
    world = World(*nodes, teams=teams)
    world.run(a_job_of_kind("old", "b-1", 1000, team="b"))
    return world


def test_a_job_that_no_node_could_hold_keeps_no_place_from_its_team() -> None:
    world = a_full_world()
    world.submit(a_job("a-too-wide", 3000, team="a", priority="high"))
    waits = world.submit(a_job_of_kind("old", "a-1", 2000, team="a", priority="high"))

    later = world.submit(a_job_of_kind("old", "b-2", 1000, team="b"))

    assert world.state(later) is State.QUEUED
    held = next(one for one in world.cluster.workloads.values() if one.spec.name == "b-1")
    world.end(held.workload_id)
    attempt = world.get(waits).current
    assert attempt is not None
    assert attempt.placements[0].node_id == NodeId("n1")


def test_a_place_is_not_kept_for_a_guarantee_that_its_own_team_has_used() -> None:
    teams = [a_team(name, guaranteed_milli_gpu=2000) for name in ("a", "b")]
    world = World(of_kind("old", "n1"), of_kind("new", "n2"), teams=teams)
    world.run(a_job_of_kind("new", "b-1", 1000, team="b"))
    world.submit(a_job_of_kind("new", "a-wide", 2000, team="a"))
    other = world.submit(a_job_of_kind("new", "b-2", 1000, team="b"))
    assert world.state(other) is State.QUEUED

    world.submit(a_job_of_kind("old", "a-small", 250, team="a"))

    assert world.state(other) is State.STARTING
    assert world.step().changes.empty


def test_who_borrows_in_a_kept_place_and_may_have_it_for_good_has_it_in_the_same_cycle() -> None:
    teams = [a_team("a", guaranteed_milli_gpu=2000), a_team("b", guaranteed_milli_gpu=1500)]
    world = World(a_node("n1", 2), a_node("n2", 2), teams=teams)
    world.run(a_job("b-1", team="b", over_quota=False))
    world.ask(SetNodeState(node_id=NodeId("n2"), state=NodeState.CORDONED), "admin")
    world.submit(a_job("a-wide", 2000, team="a", over_quota=False))

    small = world.submit(a_job("b-small", 250, team="b"))

    attempt = world.get(small).current
    assert attempt is not None
    assert attempt.hold_class is HoldClass.GUARANTEED
    assert world.step().changes.empty
