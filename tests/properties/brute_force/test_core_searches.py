"""Placement, layout and victim search against brute force on small clusters."""

from __future__ import annotations

import os
from typing import Any

import pytest
from builders import World, a_job, a_node, a_team
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from properties import truths

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.placement_slots import fragmentation, starts
from gpucommons.scheduler.core.eviction import candidates
from gpucommons.scheduler.core.model.demand import must_have
from gpucommons.scheduler.core.model.holds import FULL
from gpucommons.scheduler.core.model.types import (
    AttemptState,
    HoldClass,
    Millis,
    PoolName,
    State,
    TeamName,
)
from gpucommons.scheduler.core.placement.placement import place
from gpucommons.scheduler.core.quota import layout
from gpucommons.scheduler.errors import CannotLayOut

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
#: Ten thousand histories take their time.
pytestmark = pytest.mark.timeout(max(300, EXAMPLES))
many = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 100)
TRAIN = PoolName("train")
size = st.sampled_from([125, 250, 300, 500, 600, 1000, 2000])


@many
@given(st.integers(0, FULL), st.sampled_from([1, 125, 250, 300, 500, 999, 1000]))
@example(FULL, 1000)
def test_a_share_may_begin_exactly_where_it_fits(free: int, milli_gpu: int) -> None:
    found = starts(free, milli_gpu)
    step = milli_gpu if milli_gpu in {125, 250, 500, 1000} else 1
    for offset in range(0, 1001 - milli_gpu, step):
        part = ((1 << milli_gpu) - 1) << offset
        assert bool(found >> offset & 1) == (free & part == part)


@many
@given(
    st.lists(st.tuples(size, st.integers(1, 2)), max_size=6),
    st.tuples(size, st.integers(1, 3)),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_what_is_placed_was_free_and_what_is_not_did_not_fit(
    running: Any, asked: tuple[int, int], nodes: list[int]
) -> None:
    world = World(*[a_node(f"n{i}", gpus) for i, gpus in enumerate(nodes)], teams=[a_team()])
    for number, (milli, workers) in enumerate(running):
        world.submit(a_job(f"d-{number}", milli, workers=workers, cpu_milli=1))
    cluster = world.cluster
    free = truths.Free(cluster, [truths.held_by(cluster, *HoldClass)])
    capacity = Capacity.of(cluster.nodes.values(), cluster.workloads.values(), cluster.blocks)
    workers = must_have(a_job("x", asked[0], workers=asked[1], cpu_milli=1))
    found = place(capacity, workers, HoldClass.OVER_QUOTA, TRAIN)
    assert bool(found) == free.fits([asked[0]] * asked[1])
    everyone = [one for _, a in truths.current_attempts(cluster) for one in a.placements]
    truths.held_bits([*everyone, *found])


@many
@given(
    st.lists(st.integers(0, 24), min_size=1, max_size=4), st.lists(st.integers(1, 8), max_size=3)
)
def test_a_layout_on_empty_nodes_fails_only_where_none_exists(
    eighths: list[int], nodes: list[int]
) -> None:
    capacity = Capacity.of([a_node(f"n{i}", gpus) for i, gpus in enumerate(nodes)], (), ())
    quotas = {TeamName(f"t{i}"): n * 125 for i, n in enumerate(eighths) if n}
    largest = layout.largest_block(nodes)
    sizes = [s for milli in quotas.values() for s in layout.expansion(milli, largest)]
    whole = sorted((s // 1000 for s in sizes if s >= 1000), reverse=True)
    rest = sum(s for s in sizes if s < 1000)
    possible = bool(nodes) and _packs(list(nodes), whole, -(-rest // 1000))
    try:
        blocks = layout.lay_out(TRAIN, quotas, capacity, ())
    except CannotLayOut:
        assert quotas
        assert not possible
    else:
        assert possible or not quotas
        assert sum(block.milli_gpu for block in blocks) == sum(quotas.values())
        assert layout.lay_out(TRAIN, quotas, capacity, blocks) == blocks


def _packs(nodes: list[int], whole: list[int], single: int) -> bool:
    """Aligned groups of devices: a node of n devices takes n // size groups of a size, and so on."""
    left = list(nodes)
    for width in whole:
        # Aligned powers of two in decreasing order: the first place found is as good as any.
        for i, devices in enumerate(left):
            if devices // width:
                left[i] = devices - width
                break
        else:
            return False
    return sum(left) >= single


@many
@given(
    st.lists(st.tuples(st.sampled_from([250, 500, 1000, 2000]), st.integers(0, 9)), max_size=7),
    st.sampled_from([500, 1000, 2000, 3000]),
)
def test_no_cheaper_set_of_victims_exists_for_a_single_worker(
    borrowers: list[tuple[int, int]], asked: int
) -> None:
    world = World(
        a_node("n1", 3),
        a_node("n2", 2),
        teams=[a_team("a"), a_team("b", guaranteed_milli_gpu=asked)],
    )
    jobs = []
    for number, (milli, pause) in enumerate(borrowers):
        job = world.submit(a_job(f"d-{number}", milli, team=TeamName("a"), cpu_milli=1))
        if world.state(job) is State.STARTING:
            world.start(job)
            jobs.append(job)
        world.now = Millis(world.now + 1000 * pause)
    cluster = world.cluster
    everyone = {job: world.get(job).current for job in jobs}
    leaving = truths.Leaving(cluster, [asked])
    assume(not leaving.fits())
    claim = world.try_submit(a_job("claim", asked, team=TeamName("b"), cpu_milli=1))
    assert claim.workload_id is not None
    nomination = world.get(claim.workload_id).nomination
    assert nomination is not None
    lost = {
        attempt.attempt_id: candidates.work_lost(world.get(job), attempt, world.now, None)
        for job, attempt in everyone.items()
        if attempt is not None and attempt.state is not AttemptState.ENDED
    }
    chosen = set(nomination.victims)
    assert leaving.none_can_be_spared(chosen)
    alone = all(a is None or len(a.placements[0].device_ids) == 1 for a in everyone.values())
    if alone and asked <= 1000:
        assert not leaving.fits_for_less(lost, sum(lost[one] for one in chosen))


@many
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8))
def test_fragmentation_is_nothing_on_whole_nodes_and_never_negative(free: list[int]) -> None:
    assert fragmentation(free) >= 0
    assert fragmentation([1000] * 8) == 0
    assert fragmentation([0] * len(free)) == 0
