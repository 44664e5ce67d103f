"""Once an hour it is looked at which nodes were slow for what ran there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import a_device, a_node
from service_world import CONFIG, ServiceWorld, a_request

from gpucommons.scheduler.background_tasks.slow_nodes import SlowNodes
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import ProgressReported
from gpucommons.scheduler.core.model.types import Millis, NodeId, Progress, WorkloadId
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service.jobs.jobs import submit
from gpucommons.scheduler.service.views.cluster import node_views

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
RUN_MS = 120_000
#: Of each node, how many steps a job does there in two minutes.
STEPS = {NodeId("n1"): 100, NodeId("n2"): 150}


def a_real_node(name: str) -> Node:
    device = replace(a_device(f"{name}-g0"), simulated=False)
    return a_node(name, devices=(device,), pool="gpu")


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    nodes = (*map(a_real_node, STEPS), a_node("c1", 0, pool="cpu"))
    made = ServiceWorld(tmp_path, config={**CONFIG, "teams": [_TEAM]}, nodes=nodes)
    made.script = Script(run_ms=RUN_MS)
    return made


_TEAM = {"name": "vision", "members": ["ann"], "quotas": {"gpu": {"guaranteed_milli_gpu": 2000}}}


def run_two(world: ServiceWorld) -> None:
    """The same job on each node, to its end."""
    request = a_request(role={"milli_gpu": 1000}, environment="/env")
    made = [submit(world.service, world.principal("ann"), request, key=None) for _ in STEPS]
    world.pass_time(0)
    for after_ms in (0, RUN_MS - 1000):
        world.pass_time(after_ms)
        for job in made:
            attempt = world.cluster.workloads[WorkloadId(job.id)].current
            assert attempt is not None
            steps = STEPS[attempt.placements[0].node_id] if after_ms else 0
            progress = Progress(step=steps, at_ms=Millis(world.now_ms))
            world.loop.observe(ProgressReported(attempt_id=attempt.attempt_id, progress=progress))
    world.pass_time(RUN_MS)


def slow(world: ServiceWorld) -> dict[str, int]:
    return {one.id: one.slow.percent for one in node_views(world.admin, world.cluster) if one.slow}


def test_a_node_is_slow_from_the_first_look_after_enough_runs_until_a_week_later(
    world: ServiceWorld,
) -> None:
    for _ in range(5):
        run_two(world)
    task = SlowNodes(world.service)
    task.step()
    assert slow(world) == {"n1": 50}

    world.pass_time(6 * DAY_MS)
    SlowNodes(world.service).step()
    assert slow(world) == {"n1": 50}

    world.pass_time(DAY_MS)
    task.step()
    assert slow(world) == {}


def test_a_node_stays_avoided_for_as_long_as_is_set_though_that_is_more_than_runs_count(
    world: ServiceWorld,
) -> None:
    for _ in range(5):
        run_two(world)
    SlowNodes(world.service, avoided_ms=30 * DAY_MS).step()
    world.pass_time(29 * DAY_MS)
    SlowNodes(world.service, avoided_ms=30 * DAY_MS).step()
    assert slow(world) == {"n1": 50}


def test_it_looks_once_an_hour(world: ServiceWorld) -> None:
    task = SlowNodes(world.service)
    task.step()
    for _ in range(5):
        run_two(world)
    task.step()
    assert slow(world) == {}
    world.pass_time(HOUR_MS)
    task.step()
    assert slow(world) == {"n1": 50}


def test_who_is_no_admin_is_not_told(world: ServiceWorld) -> None:
    for _ in range(5):
        run_two(world)
    SlowNodes(world.service).step()
    views = node_views(world.principal("ann"), world.cluster)
    assert [one.slow for one in views] == [None] * 3
