"""Equals stop and move each other seldom: promise 6 over days in which all only borrow."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import pytest
from builders import TRAIN, a_job, a_node, a_pool, a_team
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.engine import Simulation
from gpucommons.scheduler.simulation.record import Right

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
#: Ten thousand clusters take their time.
pytestmark = pytest.mark.timeout(max(300, EXAMPLES))
many = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 100)
MINUTE = 60_000
TEAMS = ("a", "b", "c")
CONDITIONS = Conditions(leave_ms=1_000, checkpoint_every_ms=10 * MINUTE, restart_ms=MINUTE)
#: team, milli-GPU, priority, minutes that it runs, minutes until the next one comes
job = st.tuples(
    st.sampled_from(TEAMS),
    st.sampled_from([500, 500, 1000, 2000]),
    st.sampled_from(["normal", "normal", "high"]),
    st.sampled_from([20, 60, 240]),
    st.sampled_from([0, 0, 5, 60]),
)


def _played(nodes: list[int], jobs: Any) -> Simulation:
    """All teams borrow; whoever fits only scattered places may have others moved."""
    there = {node.node_id: node for node in (a_node(f"n{i}", n) for i, n in enumerate(nodes))}
    pool = a_pool(half_life_ms=120 * MINUTE, min_run_ms=5 * MINUTE, moved_permille=1000)
    teams = {team.name: team for team in map(a_team, TEAMS)}
    cluster = Cluster(pools={TRAIN: pool}, nodes=there, teams=teams)
    simulation = Simulation(cluster, now_ms=Millis(0), conditions=CONDITIONS)
    at_ms = 1
    for number, (team, milli_gpu, priority, minutes, gap) in enumerate(jobs):
        spec = a_job(f"job-{number}", milli_gpu, team=team, priority=priority)
        simulation.submit(at_ms, spec, minutes * MINUTE)
        at_ms += gap * MINUTE
    simulation.run()
    return simulation


@many
@given(st.lists(st.integers(1, 2), min_size=2, max_size=3), st.lists(job, min_size=9, max_size=16))
def test_a_job_is_stopped_or_moved_for_an_equal_once_in_a_half_life(
    nodes: list[int], jobs: Any
) -> None:
    simulation = _played(nodes, jobs)
    times: dict[str, list[int]] = {}
    for one in simulation.record.evictions:
        times.setdefault(one.workload_id, []).append(one.at_ms)
    rights = {one.right for one in simulation.record.evictions}
    event("moves beside stops" if rights > {Right.MOVE} else "one of them, or none")
    half_life_ms = simulation.cluster.pools[TRAIN].half_life_ms
    for of in times.values():
        assert all(later - earlier >= half_life_ms for earlier, later in pairwise(of))
