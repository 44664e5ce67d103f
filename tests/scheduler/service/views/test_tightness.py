"""What a job's page says of how tightly its GPUs lie together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from builders import a_node

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.devices.topology import DeviceLink, LinkKind, SimulatedTopology, simulated_links
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import NodeId, WorkerPlacement
from gpucommons.scheduler.service.views.where_it_runs import tightness_view


def a_linked_node(name: str = "n1", **changes: object) -> Node:
    devices = a_node(name, 8).devices
    links = simulated_links(devices, SimulatedTopology.PAIRS)
    return a_node(name, 8, **{"links": links, **changes})


def told(nodes: Sequence[Node], *where: tuple[str, Sequence[int]]) -> str | None:
    placements = [
        WorkerPlacement(
            role="worker",
            index=index,
            node_id=NodeId(name),
            device_ids=tuple(DeviceId(f"{name}-g{at}") for at in devices),
            milli_gpu=1000,
        )
        for index, (name, devices) in enumerate(where)
    ]
    found = tightness_view(placements, {node.node_id: node for node in nodes})
    return None if found is None else found.text


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ([2, 3], "2 GPUs on one node, linked by NVLink"),
        ([0, 2], "2 GPUs on one node, on one CPU socket (NUMA node)"),
        ([0, 1, 2, 3], "4 GPUs on one node, on one CPU socket (NUMA node)"),
        ([0, 1, 4, 5], "4 GPUs on one node, across CPU sockets (NUMA nodes)"),
    ],
)
def test_gpus_of_one_node_are_as_tight_as_the_farthest_two(devices: list[int], words: str) -> None:
    assert told([a_linked_node()], ("n1", devices)) == words


def test_workers_of_one_node_count_together() -> None:
    assert told([a_linked_node()], ("n1", [0]), ("n1", [1])) == (
        "2 GPUs on one node, linked by NVLink"
    )


def test_pcie_switches_are_named() -> None:
    node = a_node("n1", 2)
    first, second = (one.device_id for one in node.devices)
    link = DeviceLink(first=first, second=second, kind=LinkKind.SWITCH)
    linked = a_node("n1", 2, links=(link,))
    assert told([linked], ("n1", [0, 1])) == "2 GPUs on one node, linked by PCIe switches"


def test_one_pair_that_nobody_knows_makes_all_unknown() -> None:
    node = a_linked_node()
    lacking = a_linked_node(links=tuple(one for one in node.links if one.first != "n1-g0"))
    assert told([lacking], ("n1", [0, 1, 2])) == "3 GPUs on one node, links not known"
    assert told([lacking], ("n1", [2, 3])) == "2 GPUs on one node, linked by NVLink"


def test_of_a_node_that_is_gone_nothing_is_known() -> None:
    assert told([], ("n1", [0, 1])) == "2 GPUs on one node, links not known"


@pytest.mark.parametrize(
    ("racks", "words"),
    [
        (("a", "a"), "4 GPUs on 2 nodes in one rack"),
        (("a", "b"), "4 GPUs on 2 nodes in 2 racks"),
        (("a", None), "4 GPUs on 2 nodes, links not known"),
    ],
)
def test_nodes_are_as_near_as_their_racks(racks: tuple[str | None, ...], words: str) -> None:
    nodes = [a_linked_node(name, rack=rack) for name, rack in zip(("n1", "n2"), racks, strict=True)]
    assert told(nodes, ("n1", [0, 1]), ("n2", [0, 1])) == words


def test_one_gpu_or_a_shared_one_or_none_is_no_matter_of_links() -> None:
    assert told([a_linked_node()], ("n1", [3])) is None
    assert told([a_linked_node()], ("n1", [3]), ("n1", [3])) is None
    assert told([a_linked_node()], ("n1", [])) is None
