"""The agents of many nodes as one: each slice's own node is asked, and one that is away proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpucommons.gpu.agent.control.requests import NodeFacts, Requests
from gpucommons.gpu.agent.limits.grants import Grants
from gpucommons.gpu.agent.limits.guard import Guard
from gpucommons.gpu.agent.state.state_file import StateFile
from gpucommons.gpu.agent.watch import Watch
from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.clouds.notice_source import CloudNotice
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import AgentUnavailable, UnknownDevice
from gpucommons.gpu.linux.fake_processes import FakeProcess, FakeProcesses
from gpucommons.gpu.node.fake import SimulatedGpus, simulated_devices
from gpucommons.gpu.providers.base import NodeTraits
from gpucommons.gpu.providers.stack import provider_stack
from gpucommons.gpu.slices.slice_folders import SliceFolders
from gpucommons.gpu.slices.slice_processes import SliceProcesses
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId
from gpucommons.scheduler.cluster.cluster_agents import (
    AWAY_S,
    REPORTS_S,
    ClusterAgents,
    node_of_slot,
)
from gpucommons.scheduler.core.model.types import NodeId
from gpucommons.scheduler.service.in_memory.slices import Agent

NODES = tuple(NodeId(f"node-{number}") for number in (1, 2, 3))


class Folders(SliceFolders):
    """Of pods, but for the mounting."""

    in_pods = True


class NodeAgent:
    """One node's agent behind a wire that can be cut."""

    def __init__(self, name: str, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.shown: dict[str, frozenset[str]] = {}
        self.processes = FakeProcesses()
        gpus = SimulatedGpus(simulated_devices(2), self.processes)
        stack = provider_stack(NodeTraits(simulated=True))
        grants = Grants(stack, gpus.devices(), folder / "grants.json")
        self.watch = Watch(
            gpus,
            SliceProcesses(self.processes, own_uid=0),
            StateFile(folder / "open-slices.json"),
            Guard(grants=grants, watchdog=None),
            shown=lambda slice_id: self.shown.get(slice_id, frozenset()),
        )
        self.watch.restore(now_ms=0)
        self.facts = NodeFacts(name=name, cpu_milli=8000, memory_mib=64_000, isolation="none")
        self.cloud_says = CloudNotice()
        self.folders = Folders(folder / "slices")
        self.is_away = False
        self.asked = 0
        #: Whatever it is asked.
        self.says: bytes | None = None
        self.now_ms = 0

    def ask(self, line: bytes, timeout_s: float) -> bytes:
        self.asked += 1
        if self.is_away:
            raise TimeoutError("timed out")
        if self.says is not None:
            return self.says
        requests = Requests(self.watch, self.facts, self.folders, cloud=lambda: self.cloud_says)
        return requests.answer(line, now_ms=self.now_ms)

    @property
    def open(self) -> set[str]:
        return {one.slice_id for one in self.watch.slices}


class Wire:
    """Leads to whatever agent a node has now."""

    def __init__(self, cluster: Cluster, node: NodeId) -> None:
        self._cluster, self._node = cluster, node
        self.place, self.advice = node, "mend the wire"

    def ask(self, line: bytes, timeout_s: float) -> bytes:
        return self._cluster.nodes[self._node].ask(line, timeout_s)


class Cluster:
    """Three nodes with two GPUs each, all slots held."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes = {name: NodeAgent(name, folder / name) for name in NODES}
        self.addresses = {name: f"http://{name}" for name in NODES}
        self.slots = {
            DeviceId(f"{name}/gpu-{index}"): DeviceId(f"sim-{index}")
            for name in NODES
            for index in (0, 1)
        }
        self.now_s = 0.0
        self.holders: dict[SliceId, NodeId] = {}
        self.agents = self.new_agents()

    def new_agents(self) -> ClusterAgents:
        return ClusterAgents(
            addresses=lambda: self.addresses,
            connect=lambda address: AgentClient(Wire(self, NodeId(address[7:].split(":")[0]))),
            devices_of=lambda: self.slots,
            node_of=self.holders.get,
            now_s=lambda: self.now_s,
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.agents.close()


def a_slice(name: str, *slots: str) -> GpuSlice:
    return GpuSlice(
        slice_id=SliceId(name),
        shares=tuple(DeviceShare(device_id=DeviceId(slot), milli_gpu=500) for slot in slots),
        memory_mib=8192,
    )


def test_it_is_what_the_service_expects_of_an_agent(cluster: Cluster) -> None:
    agent: Agent = cluster.agents
    assert agent.slices() == ()


def test_a_slot_names_its_node() -> None:
    assert node_of_slot(DeviceId("gpu-7.rack.example/gpu-0")) == "gpu-7.rack.example"


def test_a_slice_is_opened_on_its_own_node_by_the_uuid_of_its_slot(cluster: Cluster) -> None:
    cluster.agents.open(a_slice("a", "node-2/gpu-1"))
    assert [cluster.nodes[name].open for name in NODES] == [set(), {"a"}, set()]
    (opened,) = cluster.nodes[NODES[1]].watch.slices
    assert opened.shares[0].device_id == "sim-1"


def test_a_slot_that_nobody_holds_is_not_guessed(cluster: Cluster) -> None:
    del cluster.slots[DeviceId("node-2/gpu-1")]
    with pytest.raises(UnknownDevice, match="held by no pod yet"):
        cluster.agents.open(a_slice("a", "node-2/gpu-1"))
    with pytest.raises(UnknownDevice, match="one node"):
        cluster.agents.open(a_slice("a", "node-1/gpu-0", "node-2/gpu-0"))


def test_whole_gpus_that_the_device_plugin_hands_out_are_chosen_when_the_pod_starts(
    cluster: Cluster,
) -> None:
    for slot in list(cluster.slots):
        del cluster.slots[slot]
    whole = GpuSlice(
        slice_id=SliceId("a"),
        shares=tuple(
            DeviceShare(device_id=DeviceId(f"node-2/gpu-{index}"), milli_gpu=1000)
            for index in (0, 1)
        ),
        memory_mib=8192,
    )
    cluster.agents.open(whole)
    cluster.agents.open(whole)
    (opened,) = cluster.nodes[NODES[1]].watch.slices
    assert [one.device_id for one in opened.shares] == ["chosen-later-0", "chosen-later-1"]
    (sample,) = cluster.nodes[NODES[1]].watch.look(now_ms=0).values()
    assert b'"memory_used_mib":null' in sample


def test_a_limit_is_in_force_before_the_pod_asks(cluster: Cluster) -> None:
    assert cluster.agents.prepare(a_slice("a", "node-1/gpu-0")).isolation == "none"
    assert cluster.nodes[NODES[0]].open == {"a"}


def test_a_reading_asks_only_the_slices_node(cluster: Cluster) -> None:
    cluster.agents.open(a_slice("a", "node-2/gpu-0"))
    before = [cluster.nodes[name].asked for name in NODES]
    assert cluster.agents.reading(SliceId("a")).pids == ()
    assert [cluster.nodes[name].asked - n for name, n in zip(NODES, before, strict=True)] == [
        0,
        1,
        0,
    ]


def test_a_slice_is_parked_by_its_own_node_and_one_that_is_away_frees_nothing(
    cluster: Cluster,
) -> None:
    asked, node = a_slice("a", "node-2/gpu-0"), cluster.nodes[NODES[1]]
    cluster.holders[SliceId("a")] = NODES[1]
    cluster.agents.open(asked)
    assert cluster.agents.park(SliceId("a")) == ()
    assert node.watch.in_use[0].shares == ()
    cluster.agents.open(asked)
    assert node.watch.in_use[0].shares
    node.is_away = True
    with pytest.raises(AgentUnavailable):
        cluster.agents.park(SliceId("a"))


def test_after_a_restart_a_slice_is_found_where_it_is(cluster: Cluster) -> None:
    cluster.agents.open(a_slice("a", "node-3/gpu-0"))
    agents = cluster.new_agents()
    assert agents.reading(SliceId("a")).pids == ()
    agents.close_slice(SliceId("a"))
    assert cluster.nodes[NODES[2]].open == set()
    agents.close()


def test_nobody_having_it_is_known_only_when_everybody_answered(cluster: Cluster) -> None:
    assert cluster.agents.reading(SliceId("a")).pids == ()
    cluster.nodes[NODES[2]].is_away = True
    with pytest.raises(AgentUnavailable, match="node-3"):
        cluster.agents.reading(SliceId("a"))


def test_a_node_that_is_away_is_never_seen_empty(cluster: Cluster) -> None:
    cluster.agents.open(a_slice("a", "node-2/gpu-0"))
    cluster.nodes[NODES[1]].is_away = True
    with pytest.raises(AgentUnavailable):
        cluster.agents.reading(SliceId("a"))
    # Nor when its agent's pod is gone altogether.
    del cluster.addresses[NODES[1]]
    with pytest.raises(AgentUnavailable):
        cluster.agents.reading(SliceId("a"))


def test_what_lives_on_a_node_is_asked_there_and_never_guessed(cluster: Cluster) -> None:
    node, held = NODES[1], SliceId("a")
    # Not open: no pod there is shown it.
    assert cluster.agents.live(node, held) == 0
    cluster.agents.open(a_slice("a", "node-2/gpu-0"))
    assert cluster.agents.live(node, held) == 0
    cluster.nodes[node].is_away = True
    with pytest.raises(AgentUnavailable):
        cluster.agents.live(node, held)
    # Not asked again at once: each question waits for its silence.
    before = cluster.nodes[node].asked
    with pytest.raises(AgentUnavailable, match="a moment ago"):
        cluster.agents.live(node, held)
    assert cluster.nodes[node].asked == before
    cluster.now_s += AWAY_S
    del cluster.addresses[node]
    with pytest.raises(AgentUnavailable):
        cluster.agents.live(node, held)
    assert cluster.agents.live(node, SliceId("b")) is None


def test_usage_is_that_of_the_nodes_that_answer(cluster: Cluster) -> None:
    for number, name in enumerate(NODES):
        cluster.agents.open(a_slice(f"s{number}", f"{name}/gpu-0"))
        cluster.nodes[name].watch.look(now_ms=1000)
    assert {one.slice_id for one in cluster.agents.usage()} == {"s0", "s1", "s2"}
    cluster.nodes[NODES[1]].is_away = True
    assert {one.slice_id for one in cluster.agents.usage()} == {"s0", "s2"}


def test_a_node_that_is_away_is_left_alone_for_a_while(cluster: Cluster) -> None:
    lost = cluster.nodes[NODES[1]]
    lost.is_away = True
    cluster.agents.usage()
    before = lost.asked
    cluster.agents.usage()
    cluster.agents.minutes()
    assert lost.asked == before
    cluster.now_s = AWAY_S
    lost.is_away = False
    cluster.agents.usage()
    assert lost.asked > before


def test_a_slice_to_be_closed_on_a_node_that_is_away_is_closed_when_it_is_back(
    cluster: Cluster,
) -> None:
    cluster.agents.open(a_slice("a", "node-2/gpu-0"))
    lost = cluster.nodes[NODES[1]]
    lost.is_away = True
    with pytest.raises(AgentUnavailable):
        cluster.agents.close_slice(SliceId("a"))
    lost.is_away = False
    cluster.now_s = AWAY_S
    cluster.agents.usage()
    assert lost.open == set()


def test_a_slice_opened_again_meanwhile_is_not_closed(cluster: Cluster) -> None:
    cluster.agents.open(a_slice("a", "node-2/gpu-0"))
    lost = cluster.nodes[NODES[1]]
    lost.is_away = True
    with pytest.raises(AgentUnavailable):
        cluster.agents.close_slice(SliceId("a"))
    lost.is_away = False
    cluster.now_s = AWAY_S
    cluster.agents.open(a_slice("a", "node-2/gpu-0"))
    cluster.agents.usage()
    assert lost.open == {"a"}


def test_a_dead_node_holds_nobody_up_for_every_slice_that_lies_on_it(cluster: Cluster) -> None:
    dead, live = cluster.nodes[NODES[1]], cluster.nodes[NODES[2]]
    dead.is_away = True

    def one_pass() -> None:
        for number in range(8):
            with pytest.raises(AgentUnavailable, match="node-2"):
                cluster.agents.open(a_slice(f"a{number}", "node-2/gpu-0"))
            cluster.agents.open(a_slice(f"b{number}", "node-3/gpu-0"))

    for asked in (1, 1, 2):
        one_pass()
        assert dead.asked == asked
        cluster.now_s += AWAY_S / 2
    assert live.asked == 3 * 8
    # A search that leaves nobody out asks it too.
    with pytest.raises(AgentUnavailable):
        cluster.agents.reading(SliceId("unknown"))
    assert dead.asked == 3
    dead.is_away = False
    cluster.now_s += AWAY_S
    cluster.agents.open(a_slice("a0", "node-2/gpu-0"))
    cluster.agents.open(a_slice("a1", "node-2/gpu-0"))
    assert dead.open == {"a0", "a1"}


def test_an_agent_at_a_new_address_is_asked_at_once(cluster: Cluster) -> None:
    """Its pod was made anew: that the old one was silent says nothing of it."""
    node = cluster.nodes[NODES[1]]
    node.is_away = True
    with pytest.raises(AgentUnavailable):
        cluster.agents.open(a_slice("a", "node-2/gpu-0"))
    node.is_away = False
    with pytest.raises(AgentUnavailable, match="a moment ago"):
        cluster.agents.open(a_slice("a", "node-2/gpu-0"))

    cluster.addresses[NODES[1]] += ":8443"
    cluster.agents.open(a_slice("a", "node-2/gpu-0"))
    assert node.open == {"a"}


def test_an_agent_that_is_not_understood_is_asked_all_the_same(cluster: Cluster) -> None:
    """It costs no time, and what the next question is about it may know."""
    odd = cluster.nodes[NODES[1]]
    odd.says = b'{"ok": {}}'
    cluster.agents.usage()
    odd.says = None
    cluster.agents.open(a_slice("a", "node-2/gpu-0"))
    assert odd.open == {"a"}


def test_reports_are_asked_for_now_and_then(cluster: Cluster) -> None:
    assert {name: report.node for name, report in cluster.agents.reports().items()} == {
        name: name for name in NODES
    }
    before = cluster.nodes[NODES[0]].asked
    cluster.agents.reports()
    assert cluster.nodes[NODES[0]].asked == before
    cluster.now_s = REPORTS_S
    cluster.agents.reports()
    assert cluster.nodes[NODES[0]].asked == before + 1


POD = "0193f0aa-1111-4222-8333-444455556666"


def lose_state(cluster: Cluster, node: NodeId) -> NodeAgent:
    """A node whose agent begins anew, with nothing that it knew."""
    (cluster.folder / node / "open-slices.json").unlink()
    cluster.nodes[node] = again = NodeAgent(node, cluster.folder / node)
    return again


def test_an_agent_that_lost_what_it_knew_does_not_make_its_slices_look_empty(
    cluster: Cluster,
) -> None:
    cluster.agents.open(a_slice("a", "node-2/gpu-0"))
    again = lose_state(cluster, NODES[1])
    again.shown["a"] = frozenset({POD})
    again.processes.start(FakeProcess(pid=70, group=f"0::/kubepods/pod{POD}/x"))
    for agents in (cluster.agents, cluster.new_agents()):
        # Before the scheduler has opened it again, and after.
        assert agents.reading(SliceId("a")).pids == (70,)
    cluster.agents.open(a_slice("a", "node-2/gpu-0"), used=True)
    assert cluster.agents.reading(SliceId("a")).pids == (70,)
    again.processes.end(70)
    assert cluster.agents.reading(SliceId("a")).pids == ()


def test_whoever_lost_what_it_knew_has_another_memory(cluster: Cluster) -> None:
    cluster.agents.usage()
    before = cluster.agents.memories()
    lose_state(cluster, NODES[1])
    cluster.nodes[NODES[2]] = NodeAgent(NODES[2], cluster.folder / NODES[2])
    cluster.agents.usage()
    after = cluster.agents.memories()
    assert {one for one in NODES if before[one] != after[one]} == {NODES[1]}


def test_a_held_slice_is_asked_for_where_it_is_even_when_that_agent_is_gone(
    cluster: Cluster,
) -> None:
    cluster.holders[SliceId("a")] = NODES[1]
    del cluster.addresses[NODES[1]]
    with pytest.raises(AgentUnavailable, match="node-2"):
        cluster.new_agents().reading(SliceId("a"))


@pytest.mark.parametrize("answer", [b'{"ok":true}\n', b'{"ok":true,"samples":[7],"slices":[{}]}\n'])
def test_an_agent_that_answers_nonsense_is_away_and_hides_nobody_else(
    cluster: Cluster, answer: bytes
) -> None:
    for number, name in enumerate(NODES):
        cluster.agents.open(a_slice(f"s{number}", f"{name}/gpu-0"))
        cluster.nodes[name].watch.look(now_ms=1000)
    cluster.nodes[NODES[1]].says = answer
    assert {one.slice_id for one in cluster.agents.usage()} == {"s0", "s2"}
    with pytest.raises(AgentUnavailable, match="cannot be read"):
        cluster.agents.reading(SliceId("s1"))


def test_a_node_that_claims_anothers_slice_is_not_asked_for_it(cluster: Cluster) -> None:
    cluster.agents.open(a_slice("a", "node-2/gpu-0"))
    cluster.nodes[NODES[0]].watch.open(a_slice("a", "sim-0"))
    agents = cluster.new_agents()
    cluster.holders[SliceId("a")] = NODES[1]
    agents.slices()
    before = cluster.nodes[NODES[0]].asked
    agents.reading(SliceId("a"))
    agents.close_slice(SliceId("a"))
    assert cluster.nodes[NODES[0]].asked == before
    assert cluster.nodes[NODES[1]].open == set()
    agents.close()


@pytest.mark.parametrize("address", ["http://node-2", "http://node-2:8443"])
def test_a_node_that_comes_back_under_its_name_has_nothing_of_the_one_that_was_taken(
    cluster: Cluster, address: str
) -> None:
    cluster.nodes[NODES[1]].cloud_says = CloudNotice(leaves_ms=100_000)
    cluster.agents.usage()
    assert cluster.agents.notices()[NODES[1]].leaves_ms == 100_000

    cluster.nodes[NODES[1]].is_away = True
    cluster.agents.usage()
    assert NODES[1] not in cluster.agents.notices()
    cluster.nodes[NODES[1]] = NodeAgent(NODES[1], cluster.folder / NODES[1])
    cluster.now_s += AWAY_S
    cluster.addresses[NODES[1]] = address
    cluster.agents.usage()
    assert cluster.agents.notices()[NODES[1]] == CloudNotice()


def test_nothing_is_said_of_a_node_that_was_gone_between_two_questions(cluster: Cluster) -> None:
    cluster.nodes[NODES[1]].cloud_says = CloudNotice(leaves_ms=100_000, at_risk=True)
    cluster.agents.usage()
    del cluster.addresses[NODES[1]]
    assert NODES[1] not in cluster.agents.notices()
    # Nobody has asked it yet.
    cluster.addresses[NODES[1]] = "http://node-2"
    assert NODES[1] not in cluster.agents.notices()
    cluster.agents.usage()
    cluster.addresses[NODES[1]] = "http://node-2:8443"
    assert NODES[1] not in cluster.agents.notices()


def test_where_agents_are_is_asked_for_without_the_lock_of_what_they_said(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor answers that under its own lock, under which it asks for what agents said."""

    def addresses() -> dict[NodeId, str]:
        assert not cluster.agents._lock.locked()
        return cluster.addresses

    monkeypatch.setattr(cluster.agents, "_addresses", addresses)
    cluster.agents.audit(NODES[0])
    assert set(cluster.agents.notices()) == {NODES[0]}


def drivers(cluster: Cluster) -> dict[NodeId, str]:
    cluster.now_s += REPORTS_S
    cluster.agents.reports()
    return dict(cluster.agents.heard.drivers(cluster.addresses))


def test_the_driver_of_a_node_is_what_its_agent_told_last(cluster: Cluster) -> None:
    first, second, third = (cluster.nodes[name] for name in NODES)
    first.facts = replace(first.facts, driver="550.54.15")
    # What is no version is not taken over, neither into books nor onto pages.
    second.facts = replace(second.facts, driver="<b>" + "5" * 90)
    third.is_away = True
    assert drivers(cluster) == {NODES[0]: "550.54.15", NODES[1]: ""}

    cluster.agents.usage()  # an answer that names no driver leaves what was told
    assert cluster.agents.heard.drivers(cluster.addresses)[NODES[0]] == "550.54.15"
    first.facts = replace(first.facts, driver="580.95.05")
    assert drivers(cluster)[NODES[0]] == "580.95.05"
    cluster.addresses[NODES[0]] = "http://node-1:2"  # another pod of its: it is to tell again
    assert NODES[0] not in cluster.agents.heard.drivers(cluster.addresses)
