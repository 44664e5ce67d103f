"""Which GPUs are taken together, against all choices there are on small nodes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from builders import TRAIN, a_node, ids
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.brute_force.jobs_with_holes import after, workers_of

from gpucommons.gpu.devices.topology import DeviceLink, LinkKind
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import HoldClass, WorkerPlacement
from gpucommons.scheduler.core.placement.placement import place

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
pytestmark = pytest.mark.timeout(max(300, 2 * EXAMPLES))
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 100,
    suppress_health_check=list(HealthCheck),
)
FAR = [LinkKind.NVLINK, LinkKind.SWITCH, LinkKind.SOCKET, LinkKind.NODE, None]
kinds = st.sampled_from([*FAR, LinkKind.NVLINK])


@st.composite
def linked_nodes(draw: Any, name: str = "n0") -> Node:
    """A node of two to six GPUs, linked in any way, also such as no machine is."""
    node = a_node(name, draw(st.integers(2, 6)))
    pairs = list(combinations([one.device_id for one in node.devices], 2))
    links = tuple(
        DeviceLink(first=first, second=second, kind=kind)
        for first, second in pairs
        if (kind := draw(kinds)) is not None
    )
    return a_node(name, len(node.devices), links=links)


def _placed(cluster: Cluster, gang: Sequence[int]) -> tuple[WorkerPlacement, ...]:
    cycle = CycleState.of(cluster.apart(), cluster.now_ms, ids("x"))
    cycle.refresh()
    return place(cycle.capacity, workers_of(gang), HoldClass.OVER_QUOTA, TRAIN)


def _whole_free(cluster: Cluster, node: Node) -> list[str]:
    taken = {
        device_id
        for workload in cluster.workloads.values()
        if workload.current is not None
        for one in workload.current.placements
        for device_id in one.device_ids
    }
    return [one.device_id for one in node.devices if one.device_id not in taken]


def _nearness(node: Node, device_ids: Iterable[str]) -> tuple[int, int]:
    between: Mapping[tuple[str, str], LinkKind] = {
        (one.first, one.second): one.kind for one in node.links
    }
    found = [FAR.index(between.get(pair)) for pair in combinations(sorted(device_ids), 2)]
    return max(found, default=0), sum(found)


jobs_before = st.lists(
    st.tuples(st.sampled_from([250, 500, 1000, 1000, 2000]), st.booleans()), max_size=8
)


@many
@given(linked_nodes(), jobs_before, st.integers(1, 6))
def test_a_worker_gets_the_gpus_that_are_nearest_to_each_other(
    node: Node, jobs: list[tuple[int, bool]], count: int
) -> None:
    cluster = after([node], jobs)
    free = _whole_free(cluster, node)
    found = _placed(cluster, [1000 * count])
    assert bool(found) == (len(free) >= count)
    if found:
        assert set(found[0].device_ids) <= set(free)
        best = min(_nearness(node, chosen) for chosen in combinations(free, count))
        assert _nearness(node, found[0].device_ids) == best


@many
@given(
    linked_nodes(),
    jobs_before,
    st.lists(st.sampled_from([1000, 1000, 2000]), min_size=2, max_size=4),
)
def test_a_gang_on_one_node_gets_the_gpus_that_are_nearest_to_each_other(
    node: Node, jobs: list[tuple[int, bool]], gang: list[int]
) -> None:
    cluster = after([node], jobs)
    free = _whole_free(cluster, node)
    found = _placed(cluster, gang)
    count = sum(gang) // 1000
    assert bool(found) == (len(free) >= count)
    if found:
        chosen = [device_id for one in found for device_id in one.device_ids]
        assert len(set(chosen)) == count
        assert [1000 * len(one.device_ids) for one in found] == gang
        best = min(_nearness(node, chosen) for chosen in combinations(free, count))
        assert _nearness(node, chosen) == best


@st.composite
def alike_nodes(draw: Any, name: str = "n0") -> Node:
    """A node whose GPUs are all linked in one way, or of which nothing is known."""
    node = a_node(name, draw(st.integers(1, 6)))
    kind = draw(st.sampled_from(FAR))
    pairs = combinations([one.device_id for one in node.devices], 2)
    links = (
        () if kind is None else tuple(DeviceLink(first=a, second=b, kind=kind) for a, b in pairs)
    )
    return a_node(name, len(node.devices), links=links)


@many
@given(
    linked_nodes("n0"),
    st.one_of(linked_nodes("n1"), alike_nodes("n1")),
    st.lists(st.sampled_from([0, 0, 250, 500, 1000, 2000]), min_size=2, max_size=5),
)
def test_a_gang_of_any_sizes_is_placed_where_links_are_known_as_where_they_are_not(
    first: Node, second: Node, gang: list[int]
) -> None:
    """Also of shares alone, and of workers without a GPU."""
    unknown = [replace(node, links=()) for node in (first, second)]
    found = _placed(after([first, second], ()), gang)
    assert bool(found) == bool(_placed(after(unknown, ()), gang))


@many
@given(st.tuples(linked_nodes("n0"), linked_nodes("n1")), jobs_before, st.integers(2, 4))
def test_of_nodes_that_take_a_gang_the_one_goes_first_where_its_gpus_are_nearest(
    nodes: tuple[Node, ...], jobs: list[tuple[int, bool]], count: int
) -> None:
    cluster = after(nodes, jobs)
    able = {
        node.node_id: min(_nearness(node, chosen)[0] for chosen in combinations(free, count))
        for node in nodes
        if len(free := _whole_free(cluster, node)) >= count
    }
    found = _placed(cluster, [1000] * count)
    if able:
        (node_id,) = {one.node_id for one in found}
        assert able[node_id] == min(able.values())
