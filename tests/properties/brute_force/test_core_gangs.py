"""Gangs against brute force on four nodes of eight GPUs: placed wherever possible, and tightest."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from builders import TRAIN, World, a_node, a_team, ids
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.brute_force.jobs_with_holes import after, workers_of
from properties.truths import Free

from gpucommons.scheduler.core.capacity.affinity import Affinity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.demand import Worker
from gpucommons.scheduler.core.model.holds import mask_of
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import HoldClass, NodeId, WorkerPlacement
from gpucommons.scheduler.core.placement.placement import place

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
pytestmark = pytest.mark.timeout(max(300, 2 * EXAMPLES))
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 100,
    suppress_health_check=list(HealthCheck),
)
RACKS = {"n0": "left", "n1": "left", "n2": "right", "n3": "right"}
sizes = st.sampled_from([250, 500, 1000, 1000, 2000, 3000, 4000])
gangs = st.lists(sizes, min_size=2, max_size=6)


def _cluster(jobs: Sequence[tuple[int, bool]]) -> Cluster:
    nodes = [a_node(name, 8, rack=rack) for name, rack in RACKS.items()]
    return after(nodes, jobs)


def _free(cluster: Cluster, nodes: Sequence[str]) -> Free:
    taken = [
        dict.fromkeys(one.device_ids, mask_of(one))
        for workload in cluster.workloads.values()
        if workload.current is not None
        for one in workload.current.placements
    ]
    free = Free(cluster, taken)
    free.nodes = [(node, masks) for node, masks in free.nodes if node.node_id in nodes]
    return free


def _tightest(cluster: Cluster, gang: Sequence[int]) -> int | None:
    """0 one node, 1 one rack, 2 the pool; None where it fits nowhere."""
    parts = [[[node] for node in RACKS], [["n0", "n1"], ["n2", "n3"]], [list(RACKS)]]
    for level, choices in enumerate(parts):
        if any(_free(cluster, nodes).fits(gang) for nodes in choices):
            return level
    return None


def _level(nodes: set[NodeId]) -> int:
    racks = {RACKS[node] for node in nodes}
    return 0 if len(nodes) == 1 else 1 if len(racks) == 1 else 2


@many
@given(st.lists(st.tuples(sizes, st.booleans()), max_size=24), gangs)
def test_a_gang_gets_the_tightest_part_that_takes_it(
    jobs: list[tuple[int, bool]], gang: list[int]
) -> None:
    cluster = _cluster(jobs)
    cycle = CycleState.of(cluster.apart(), cluster.now_ms, ids("x"))
    cycle.refresh()
    before = {node_id: node.fork() for node_id, node in cycle.capacity.nodes.items()}
    found = place(cycle.capacity, workers_of(gang), HoldClass.OVER_QUOTA, TRAIN)
    expected = _tightest(cluster, gang)
    if expected is None:
        assert not found
    else:
        assert [one.index for one in found] == list(range(len(gang)))
        assert _level({one.node_id for one in found}) == expected
    for node_id, node in before.items():
        after = cycle.capacity.nodes[node_id]
        assert after.devices == node.devices, "a search takes nothing"
        assert after.promised == node.promised, "a search takes nothing"


def test_roles_that_need_each_others_node_are_not_placed_greedily() -> None:
    # The four-GPU worker could lie on either node, the two others only where it must not.
    nodes = [a_node("n0", 4, cpu_milli=64_000), a_node("n1", 4, cpu_milli=8000)]
    world = World(*nodes, teams=[a_team()])
    cycle = CycleState.of(world.cluster.apart(), world.cluster.now_ms, ids("x"))
    cycle.refresh()
    workers = (
        Worker("chief", 0, 4000, None, 4000, 100),
        Worker("data", 0, 2000, None, 30_000, 100),
        Worker("data", 1, 2000, None, 30_000, 100),
    )
    found = place(cycle.capacity, workers, HoldClass.OVER_QUOTA, TRAIN)
    assert [one.node_id for one in found] == ["n1", "n0", "n0"]


def _worth(placed: Sequence[WorkerPlacement], affinity: Affinity) -> int:
    return sum(affinity.get(one.node_id, 0) for one in placed)


preferred = st.dictionaries(st.sampled_from(sorted(RACKS)), st.integers(1, 4)).map(
    lambda found: {NodeId(name): amount for name, amount in found.items()}
)


@many
@given(
    jobs=st.lists(st.tuples(sizes, st.booleans()), max_size=20),
    gang=gangs,
    affinity=preferred,
)
def test_the_tightest_part_goes_first_and_wishes_break_ties(
    jobs: list[tuple[int, bool]], gang: list[int], affinity: Affinity
) -> None:
    cluster = _cluster(jobs)
    cycle = CycleState.of(cluster.apart(), cluster.now_ms, ids("x"))
    cycle.refresh()
    workers = workers_of(gang)
    plain = place(cycle.capacity, workers, HoldClass.OVER_QUOTA, TRAIN)
    placed = place(cycle.capacity, workers, HoldClass.OVER_QUOTA, TRAIN, affinity=affinity)
    # Wishes make nobody wait, and no gang lie less close together.
    assert bool(placed) == bool(plain)
    if not placed:
        return
    assert _level({one.node_id for one in placed}) == _level({one.node_id for one in plain})
    if _level({one.node_id for one in placed}) == 0:
        able = [name for name in RACKS if _free(cluster, [name]).fits(gang)]
        most = max(len(gang) * affinity.get(NodeId(name), 0) for name in able)
        assert _worth(placed, affinity) == most


@many
@given(
    jobs=st.lists(st.tuples(sizes, st.booleans()), max_size=20),
    size=sizes,
    affinity=preferred,
)
def test_one_worker_lies_where_it_is_most_wished_for(
    jobs: list[tuple[int, bool]], size: int, affinity: Affinity
) -> None:
    cluster = _cluster(jobs)
    cycle = CycleState.of(cluster.apart(), cluster.now_ms, ids("x"))
    cycle.refresh()
    placed = place(
        cycle.capacity, workers_of([size]), HoldClass.OVER_QUOTA, TRAIN, affinity=affinity
    )
    able = [name for name in RACKS if _free(cluster, [name]).fits([size])]
    assert bool(placed) == bool(able)
    if placed:
        assert _worth(placed, affinity) == max(affinity.get(NodeId(name), 0) for name in able)
