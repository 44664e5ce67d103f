"""Promise 3 with processors and memory: whatever others ask for, a guarantee's part is there."""

from __future__ import annotations

import os
from typing import Any

import pytest
from builders import TRAIN, World, a_job, a_node, a_team
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import truths

from gpucommons.scheduler.core.capacity.node_capacity import share_of
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import HoldClass, Role, Spec, TeamName, WorkloadId

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
pytestmark = pytest.mark.timeout(max(300, EXAMPLES))
many = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 100)

GREEDY, OTHER, CLAIMS = TeamName("a"), TeamName("b"), TeamName("c")
#: Processors and memory of each node; two or four GPUs, so that parts differ, too.
hosts = st.lists(
    st.tuples(
        st.sampled_from([2, 4]), st.sampled_from([4000, 8000]), st.sampled_from([4096, 16_384])
    ),
    min_size=1,
    max_size=2,
)
jobs = st.lists(
    st.tuples(
        st.sampled_from([GREEDY, OTHER]),
        st.sampled_from([125, 250, 500, 1000, 2000]),
        st.sampled_from([1, 500, 1000, 2000, 4000, 8000]),
        st.sampled_from([16, 1024, 2048, 16_384]),
        st.booleans(),
        # Which of the running jobs ends next, if any.
        st.none() | st.integers(0, 3),
    ),
    max_size=8,
)


def _asking(team: TeamName, milli_gpu: int, cpu_milli: int, memory_mib: int, **more: Any) -> Spec:
    role = Role(milli_gpu=milli_gpu, cpu_milli=cpu_milli, memory_mib=memory_mib, command=("true",))
    return a_job(team=team, roles=(role,), **more)


@many
@given(hosts, jobs, st.sampled_from([125, 250, 500, 1000]))
def test_whoever_asks_within_its_part_of_a_guarantee_gets_it(
    nodes: Any, asked: Any, size: int
) -> None:
    there = [
        a_node(f"n{i}", gpus, cpu_milli=cpu, memory_mib=memory)
        for i, (gpus, cpu, memory) in enumerate(nodes)
    ]
    left = sum(len(node.devices) for node in there) * 1000 - 1000
    world = World(
        *there,
        teams=[
            a_team(GREEDY, guaranteed_milli_gpu=left - 500),
            a_team(OTHER, guaranteed_milli_gpu=500),
            a_team(CLAIMS, guaranteed_milli_gpu=1000),
        ],
    )
    submitted = []
    for team, milli_gpu, cpu, memory, borrows, ends in asked:
        spec = _asking(team, milli_gpu, cpu, memory, over_quota=borrows)
        submitted.append(world.submit(spec))
        running = [
            one for one in submitted if not is_final(world.get(one)) and world.get(one).current
        ]
        if ends is not None and running:
            world.end(running[ends % len(running)])
    parts = [share_of(node, size) for node in there]
    cpu, memory = min(one.cpu_milli for one in parts), min(one.memory_mib for one in parts)
    claim = world.submit(_asking(CLAIMS, size, cpu, memory, over_quota=False))
    firm = truths.held_by(world.cluster, HoldClass.GUARANTEED)
    mine = {claim: None}
    free = truths.Free(world.cluster, [_without(world, firm, mine)])
    if not free.fits([size]):
        return  # in-guarantee work lies on a part of every device
    _give_way(world, claim)
    attempt = world.get(claim).current
    assert attempt is not None, world.get(claim).reason
    assert attempt.hold_class is HoldClass.GUARANTEED


def _without(
    world: World, held: dict[Any, int], workloads: dict[WorkloadId, None]
) -> dict[Any, int]:
    """What is held but by these."""
    left = dict(held)
    for workload_id in workloads:
        attempt = world.get(workload_id).current
        for one in () if attempt is None else attempt.placements:
            for device_id in one.device_ids:
                left[device_id] &= ~truths.bits(one)
    return left


def _give_way(world: World, claim: WorkloadId) -> None:
    """Notice and grace pass; then whoever was stopped has ended."""
    pool = world.cluster.pools[TRAIN]
    world.wait(pool.notice_ms + pool.grace_ms)
    nomination = world.get(claim).nomination
    for workload in list(world.cluster.workloads.values()):
        attempt = workload.current
        if attempt and nomination and attempt.attempt_id in nomination.victims:
            world.end(workload.workload_id, None, killed=True)
