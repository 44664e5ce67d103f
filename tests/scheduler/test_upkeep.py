"""The first configuration waits for the GPUs; facts about pools come from the agent."""

from pathlib import Path

import pytest
from builders import a_node
from service_world import CONFIG, NODES, ServiceWorld

from gpucommons.gpu.agent_client import NodeReport
from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.scheduler import models
from gpucommons.scheduler.upkeep import Upkeep

FIRST = models.ConfigModel(**CONFIG)


def a_report() -> NodeReport:
    return NodeReport(node="n1", devices=(), cpu_milli=1, memory_mib=1, isolation="watched")


def test_the_first_configuration_waits_for_the_devices(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path, config={}, nodes=())
    upkeep = Upkeep(world.service, report=None, first_config=FIRST)
    upkeep.step()
    assert (upkeep.configured, world.cluster.teams) == (False, {})
    world.machine.nodes = (a_node("n1", 1, pool="gpu"),)
    world.pass_time(5000)
    upkeep.step()
    assert not upkeep.configured
    world.machine.nodes = NODES
    world.pass_time(5000)
    upkeep.step()
    assert upkeep.configured
    assert set(world.cluster.teams) == {"vision", "nlp"}


def test_later_starts_leave_admins_the_word(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    other = models.ConfigModel(teams=[models.TeamModel(name="other")])
    upkeep = Upkeep(world.service, report=None, first_config=other)
    upkeep.step()
    assert upkeep.configured
    assert "other" not in world.cluster.teams


def test_isolation_is_what_the_agent_says(tmp_path: Path) -> None:
    pools = [{"name": "gpu"}, {"name": "cpu"}]
    world = ServiceWorld(tmp_path, config={"pools": pools})
    upkeep = Upkeep(world.service, report=a_report, first_config=None)
    upkeep.step()
    gpu, cpu = world.cluster.pools["gpu"], world.cluster.pools["cpu"]  # type: ignore[index]
    assert (gpu.isolation, gpu.simulated) == ("watched", True)
    assert (cpu.isolation, cpu.simulated) == ("none", False)
    events = world.store.last_event_number()
    upkeep.step()
    assert world.store.last_event_number() == events


def test_an_agent_that_is_away_changes_nothing(world_of_demo: ServiceWorld) -> None:
    def away() -> NodeReport:
        raise AgentUnavailable

    before = world_of_demo.cluster.pools
    Upkeep(world_of_demo.service, report=away, first_config=None).step()
    assert world_of_demo.cluster.pools == before


@pytest.fixture
def world_of_demo(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)
