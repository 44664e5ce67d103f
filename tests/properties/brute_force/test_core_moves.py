"""Moves that make room, against brute force: they help, they are few, and nothing is held twice."""

from __future__ import annotations

import os
from typing import Any

import pytest
from builders import World, a_job, a_node, a_pool, a_team
from hypothesis import event, given, settings
from hypothesis import strategies as st
from properties import truths

from gpucommons.scheduler.core.model.intents import Cancel
from gpucommons.scheduler.core.model.types import HoldClass, State, Workload, WorkloadId

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
#: Ten thousand clusters take their time.
pytestmark = pytest.mark.timeout(max(300, EXAMPLES))
many = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 100)
MINUTE = 60_000
#: size of a worker, workers, whether it ends before the large job comes
running = st.tuples(
    st.sampled_from([250, 500, 500, 600]), st.sampled_from([1, 1, 1, 2]), st.booleans()
)


def _scattered(nodes: list[int], jobs: Any, cpu_milli: int) -> World:
    """Jobs lie here and there; all of them may be moved."""
    world = World(
        *[a_node(f"n{i}", gpus, cpu_milli=cpu_milli) for i, gpus in enumerate(nodes)],
        teams=[a_team()],
        pools=[a_pool(moved_permille=1000)],
    )
    ending = []
    for number, (milli, workers, ends) in enumerate(jobs):
        job = world.submit(a_job(f"d-{number}", milli, workers=workers, cpu_milli=400))
        if world.state(job) is not State.STARTING:
            world.ask(Cancel(workload_id=job))
            continue
        world.start(job)
        if ends:
            ending.append(job)
    for job in ending:
        world.end(job)
    return world


def _movers(world: World) -> list[Workload]:
    return [
        workload
        for workload, attempt in truths.current_attempts(world.cluster)
        if attempt.stop is not None and attempt.stop.why == "move"
    ]


def _is_sound(world: World) -> None:
    truths.nothing_is_held_twice(world.cluster)
    truths.promises_do_not_overlap(world.cluster)
    truths.gangs_are_whole(world.cluster)
    truths.stops_have_a_beneficiary(world.cluster)


def _one_move_would_do(cluster: Any, asked: list[int]) -> bool:
    for moved, attempt in truths.current_attempts(cluster):
        rest = [a for _, a in truths.current_attempts(cluster) if a is not attempt]
        held: dict[Any, int] = {}
        for one in (one for a in rest for one in a.placements):
            for device_id in one.device_ids:
                held[device_id] = held.get(device_id, 0) | truths.bits(one)
        if truths.Free(cluster, [held]).fits([*asked, *truths.needed(moved)]):
            return True
    return False


cluster = given(
    st.lists(st.integers(1, 3), min_size=2, max_size=2),
    st.lists(running, min_size=4, max_size=9),
    st.sampled_from([1000, 1000, 2000]),
    st.sampled_from([64_000, 3000]),
    st.randoms(use_true_random=False),
)


@many
@cluster
def test_nothing_is_held_twice_while_jobs_move_and_each_of_them_goes_on(
    nodes: list[int], jobs: Any, asked: int, cpu_milli: int, random: Any
) -> None:
    world = _scattered(nodes, jobs, cpu_milli)
    large = world.submit(a_job("large", asked, cpu_milli=400))
    world.wait(MINUTE)
    movers = _movers(world)
    event(f"{len(movers)} move")
    if not movers:
        return
    assert world.get(large).nomination is not None
    assert all(one.nomination is not None for one in movers), "somebody has nowhere to go"
    _is_sound(world)
    assert world.step().changes.empty
    random.shuffle(movers)
    for mover in movers:
        world.end(mover.workload_id, 143)
        _is_sound(world)
    assert world.state(large) is State.STARTING
    # Where they were promised a place, or in one that became free sooner.
    assert all(world.state(mover.workload_id) is State.STARTING for mover in movers)


@many
@cluster
def test_where_one_move_would_do_one_job_moves(
    nodes: list[int], jobs: Any, asked: int, cpu_milli: int, random: Any
) -> None:
    del cpu_milli, random  # processors are plenty here, and nobody ends
    world = _scattered(nodes, jobs, 64_000)
    world.wait(MINUTE)
    before = world.cluster
    large: WorkloadId = world.submit(a_job("large", asked, cpu_milli=400))
    if world.state(large) is State.STARTING:
        return
    held = truths.held_by(before, *HoldClass)
    assert not truths.Free(before, [held]).fits([asked])
    expected = _one_move_would_do(before, [asked])
    assert len(_movers(world)) == 1 if expected else len(_movers(world)) != 1
