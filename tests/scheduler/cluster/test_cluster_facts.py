"""What the agents of many nodes say reaches pools and the admins' log; silence changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from service_world import NODES, ServiceWorld

from gpucommons.gpu.client.agent_client import NodeReport
from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.gpu.slices.usage import AuditEntry
from gpucommons.scheduler.background_tasks.housekeeping import AGENT_EVENTS, OPERATOR
from gpucommons.scheduler.cluster.cluster_facts import ClusterFacts, NoAgents
from gpucommons.scheduler.core.model.intents import NoteFacts, PoolFacts, PutPools
from gpucommons.scheduler.core.model.types import NodeId, PoolName

GPU = PoolName("gpu")
NAMES = tuple(node.node_id for node in NODES if node.pool == GPU)
CARD = Device(device_id="GPU-1", index=0, kind="A100-40", memory_mib=40_960)  # type: ignore[arg-type]


def report(node: NodeId, isolation: str, *, simulated: bool = False) -> NodeReport:
    card = replace(CARD, simulated=simulated)
    return NodeReport(
        node=node,
        devices=(card,),
        cpu_milli=1,
        memory_mib=1,
        isolation=isolation,
        isolations={card.device_id: isolation},
    )


class Agents:
    """Agents that say what a test put into their mouths."""

    def __init__(self) -> None:
        self.said: dict[NodeId, NodeReport] = {}
        self.records: dict[NodeId, list[AuditEntry]] = {}
        self.away: set[NodeId] = set()

    def reports(self) -> Mapping[NodeId, NodeReport]:
        return self.said

    def audit(self, node: NodeId, after: int = 0) -> Sequence[AuditEntry]:
        if node in self.away:
            raise AgentUnavailable
        return [one for one in self.records.get(node, ()) if one.number > after]


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    world = ServiceWorld(tmp_path)
    pool = replace(world.cluster.pools[GPU], executor="kubernetes", isolation="none")
    world.service.ask(OPERATOR, PutPools(pools=(pool,)))
    world.pass_time(1000)
    return world


@pytest.fixture
def agents() -> Agents:
    return Agents()


def isolation_after_a_pass(world: ServiceWorld, facts: ClusterFacts) -> str:
    facts.step()
    world.pass_time(1000)
    return world.cluster.pools[GPU].isolation


def test_a_pool_promises_what_its_weakest_node_keeps(world: ServiceWorld, agents: Agents) -> None:
    facts = ClusterFacts(world.service, agents)
    agents.said = {name: report(name, "cooperative") for name in NAMES}
    assert isolation_after_a_pass(world, facts) == "cooperative"
    agents.said[NAMES[0]] = report(NAMES[0], "watched")
    assert isolation_after_a_pass(world, facts) == "watched"


@pytest.mark.parametrize("admin_first", [True, False])
def test_what_nodes_say_and_what_an_admin_sets_do_not_undo_each_other(
    world: ServiceWorld, agents: Agents, admin_first: bool
) -> None:
    facts = ClusterFacts(world.service, agents)
    agents.said = {name: report(name, "hardware") for name in NAMES}
    # Both have read the pool as it was before the other spoke.
    changed = PutPools(pools=(replace(world.cluster.pools[GPU], grace_ms=300_000),))
    if admin_first:
        world.service.ask(world.admin, changed)
        facts.step()
    else:
        facts.step()
        world.service.ask(world.admin, changed)
    world.pass_time(1000)
    pool = world.cluster.pools[GPU]
    assert (pool.grace_ms, pool.isolation) == (300_000, "hardware")


def test_nodes_say_the_same_once(world: ServiceWorld, agents: Agents) -> None:
    facts = ClusterFacts(world.service, agents)
    agents.said = {name: report(name, "kernel") for name in NAMES}
    for _ in range(3):
        isolation_after_a_pass(world, facts)
    said = world.store.events(kinds=frozenset({"pool-changed"}), limit=10, newest=True)
    assert said[-1].event.text == "The isolation of slices in pool gpu was none, is kernel."
    assert sum("isolation" in one.event.text for one in said) == 1


def test_a_node_that_is_away_changes_nothing(world: ServiceWorld, agents: Agents) -> None:
    facts = ClusterFacts(world.service, agents)
    agents.said = {NAMES[0]: report(NAMES[0], "kernel")}
    assert isolation_after_a_pass(world, facts) == "kernel"
    agents.said = {}
    assert isolation_after_a_pass(world, facts) == "kernel"


def test_nodes_of_other_pools_and_without_gpus_say_nothing_about_a_pool(
    world: ServiceWorld, agents: Agents
) -> None:
    facts = ClusterFacts(world.service, agents)
    stranger = NodeId("stranger")
    agents.said = {
        NAMES[0]: replace(report(NAMES[0], "none"), devices=()),
        stranger: report(stranger, "none"),
    }
    said = PoolFacts(isolation="kernel", simulated=False)
    world.service.ask(OPERATOR, NoteFacts(pools={GPU: said}))
    world.pass_time(1000)
    assert isolation_after_a_pass(world, facts) == "kernel"


@pytest.mark.parametrize("there_are_agents", [True, False])
def test_a_pool_of_another_system_promises_what_that_keeps(
    world: ServiceWorld, agents: Agents, there_are_agents: bool
) -> None:
    agents.said = {name: report(name, "cooperative") for name in NAMES}
    asked = agents if there_are_agents else NoAgents()
    foreign = ClusterFacts(world.service, asked, another=lambda _pool: "watched")
    assert isolation_after_a_pass(world, foreign) == "watched"


def test_pools_of_other_executors_are_left_alone(world: ServiceWorld, agents: Agents) -> None:
    pool = replace(world.cluster.pools[GPU], executor="local", isolation="none")
    world.service.ask(OPERATOR, PutPools(pools=(pool,)))
    world.pass_time(1000)
    agents.said = {name: report(name, "cooperative") for name in NAMES}
    assert isolation_after_a_pass(world, ClusterFacts(world.service, agents)) == "none"


def test_each_nodes_record_is_in_the_log_once(world: ServiceWorld, agents: Agents) -> None:
    def entry(node: NodeId, number: int) -> AuditEntry:
        return AuditEntry(
            number=number, key=f"{node}-{number}", at_ms=1, event="memory-kill", text="stopped"
        )

    one, other = NodeId("one"), NodeId("other")
    agents.said = {name: report(name, "watched") for name in (one, other)}
    agents.records = {one: [entry(one, 1), entry(one, 2)], other: [entry(other, 1)]}
    facts = ClusterFacts(world.service, agents)
    facts.step()
    facts.step()
    # A restarted scheduler asks for everything again; a node that is away is asked later.
    agents.away = {other}
    ClusterFacts(world.service, agents).step()
    world.pass_time(1000)
    found = [one.event for one in world.store.events(kinds=AGENT_EVENTS)]
    assert sorted((event.by, event.data["number"]) for event in found) == [
        ("agent of one", 1),
        ("agent of one", 2),
        ("agent of other", 1),
    ]
