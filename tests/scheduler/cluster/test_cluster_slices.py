"""Slices of jobs on a cluster are open at their agents exactly while they are held."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import TRAIN, World, a_job, a_node, a_team

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.gpu.slices.slices import GpuSlice, SliceId
from gpucommons.scheduler.cluster.cluster_slices import ClusterSlices
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import NodeId, Role
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolPlace
from gpucommons.scheduler.wiring.cluster_parts import makes_slices

NODE = NodeId("n1")


class Agents:
    """Remembers what is open; one that is away refuses."""

    def __init__(self) -> None:
        self.open: dict[SliceId, GpuSlice] = {}
        self.asked = 0
        self.away = False
        self.memory = "first"

    def memories(self) -> dict[NodeId, str]:
        return {NODE: self.memory}

    def prepare(self, gpu_slice: GpuSlice) -> None:
        self.asked += 1
        if self.away:
            raise AgentUnavailable
        self.open[gpu_slice.slice_id] = gpu_slice

    def close_slice(self, slice_id: SliceId) -> None:
        if self.away:
            raise AgentUnavailable
        del self.open[slice_id]


def a_slotted_node() -> Node:
    """A node whose devices are slots, as on a cluster."""
    node = a_node(NODE, gpus=2)
    devices = (
        replace(one, device_id=DeviceId(f"{NODE}/gpu-{index}"))
        for index, one in enumerate(node.devices)
    )
    return replace(node, devices=tuple(devices))


@pytest.fixture
def world() -> World:
    return World(a_slotted_node(), teams=[a_team(guaranteed_milli_gpu=2000)])


def test_a_whole_card_is_opened_by_its_slot_once_and_closed_when_it_is_given_up(
    world: World,
) -> None:
    job = world.run(a_job())
    agents, slices = Agents(), ClusterSlices(dict, lambda: world.cluster)
    for _ in range(3):
        slices.step(agents)
    (opened,) = agents.open.values()
    assert opened.milli_gpu == 1000
    assert agents.asked == 1
    world.end(job)
    slices.step(agents)
    assert agents.open == {}


def test_a_share_waits_for_its_reservation(world: World) -> None:
    spec = a_job()
    half = replace(spec.roles[0], milli_gpu=500)
    job = world.run(replace(spec, roles=(half,)))
    current = world.get(job).current
    assert current is not None
    (slot,) = current.placements[0].device_ids
    cards: dict[DeviceId, DeviceId] = {}
    agents, slices = Agents(), ClusterSlices(lambda: cards, lambda: world.cluster)
    slices.step(agents)
    assert agents.asked == 0
    cards[slot] = DeviceId("GPU-1")
    slices.step(agents)
    assert len(agents.open) == 1


def test_an_agent_that_is_away_is_asked_again(world: World) -> None:
    job = world.run(a_job())
    agents, slices = Agents(), ClusterSlices(dict, lambda: world.cluster)
    agents.away = True
    slices.step(agents)
    agents.away = False
    slices.step(agents)
    assert len(agents.open) == 1
    world.end(job)
    agents.away = True
    slices.step(agents)
    assert len(agents.open) == 1
    agents.away = False
    slices.step(agents)
    assert agents.open == {}


def test_a_job_without_gpus_has_no_slice(world: World) -> None:
    spec = a_job()
    world.run(replace(spec, roles=(Role(command=("true",)),)))
    agents = Agents()
    ClusterSlices(dict, lambda: world.cluster).step(agents)
    assert agents.asked == 0


def test_an_agent_that_lost_what_it_knew_is_given_its_slices_again(world: World) -> None:
    world.run(a_job())
    agents, slices = Agents(), ClusterSlices(dict, lambda: world.cluster)
    slices.step(agents)
    (slice_id,) = agents.open
    agents.open, agents.memory = {}, "second"
    slices.step(agents)
    assert list(agents.open) == [slice_id]
    slices.step(agents)
    assert agents.asked == 2


def test_a_slice_that_another_system_makes_is_no_agents_matter(world: World) -> None:
    world.run(a_job())
    agents = Agents()
    ClusterSlices(dict, lambda: world.cluster, is_ours=lambda node: node != NODE).step(agents)
    assert agents.asked == 0


def test_whose_slices_a_nodes_are_its_pools_setting_says(world: World) -> None:
    foreign = KubernetesSettings(pools={TRAIN: PoolPlace(provider="kai")})
    assert makes_slices(KubernetesSettings(), world.cluster, NODE)
    assert not makes_slices(foreign, world.cluster, NODE)
    assert makes_slices(foreign, world.cluster, NodeId("unknown"))
