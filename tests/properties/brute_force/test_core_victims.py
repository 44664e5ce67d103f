"""The search for victims against brute force: who goes, whether it helps, and what it costs."""

from __future__ import annotations

import os
from typing import Any

import pytest
from builders import TRAIN, World, a_job, a_node, a_pool, a_team
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from properties import truths

from gpucommons.scheduler.core.eviction.candidates import work_lost
from gpucommons.scheduler.core.eviction.gangs import FEW
from gpucommons.scheduler.core.model.intents import SetQuotas
from gpucommons.scheduler.core.model.resources import Quota
from gpucommons.scheduler.core.model.state import CheckpointReported
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    Checkpoint,
    Millis,
    State,
    TeamName,
    WorkloadId,
)

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
#: Ten thousand clusters take their time.
pytestmark = pytest.mark.timeout(max(300, EXAMPLES))
many = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 100)
A, B = TeamName("a"), TeamName("b")
#: size of a worker, workers, minutes until the next one starts, minutes since its checkpoint
borrower = st.tuples(
    st.sampled_from([250, 300, 500, 1000, 1000, 2000]),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.integers(0, 9),
    st.none() | st.integers(0, 5),
)


def _borrowed_out(nodes: list[int], borrowers: Any, **quota: Any) -> World:
    """A cluster on which team a borrows and team b has all the guarantee.

    Nobody moves: who is on the way elsewhere ends anyway, and its end is as good as free.
    """
    world = World(
        *[a_node(f"n{i}", gpus) for i, gpus in enumerate(nodes)],
        pools=[a_pool(moved_permille=0)],
        teams=[a_team("a"), a_team("b", guaranteed_milli_gpu=1000 * sum(nodes), **quota)],
    )
    for number, (milli, workers, pause, saved) in enumerate(borrowers):
        job = world.submit(a_job(f"d-{number}", milli, team=A, workers=workers, cpu_milli=1))
        if world.state(job) is State.STARTING:
            world.start(job)
        world.now = Millis(world.now + 60_000 * pause)
        runs = world.state(job) is State.RUNNING
        world.step(*[_checkpoint(world, job, saved)] if runs and saved is not None else [])
    return world


def _checkpoint(world: World, job: WorkloadId, saved: int) -> CheckpointReported:
    attempt_id = world.attempt_id(job)
    at_ms = world.now - 60_000 * saved
    checkpoint = Checkpoint(
        attempt_id=attempt_id, step=1, path="x", size_bytes=1, sha256="0" * 64, at_ms=at_ms
    )
    return CheckpointReported(attempt_id=attempt_id, checkpoint=checkpoint)


def _losses(world: World) -> dict[AttemptId, int]:
    return {
        attempt.attempt_id: work_lost(workload, attempt, world.now, None)
        for workload, attempt in truths.current_attempts(world.cluster)
    }


@many
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(borrower, max_size=8),
    st.sampled_from([250, 500, 1000, 1000, 2000, 3000]),
    st.integers(1, 3),
)
# Eight units in more than eight pieces.
@example(
    nodes=[3, 3],
    borrowers=[
        (250, 2, 1, None),
        (1000, 1, 3, 5),
        (500, 1, 1, None),
        (250, 2, 8, 0),
        (300, 3, 4, 0),
        (500, 2, 5, 0),
        (250, 2, 7, 5),
        (300, 2, 3, 5),
    ],
    milli=500,
    workers=3,
)
def test_victims_help_none_can_be_spared_and_no_cheaper_set_exists(
    nodes: list[int], borrowers: Any, milli: int, workers: int
) -> None:
    world = _borrowed_out(nodes, borrowers)
    before, lost, asked = world.cluster, _losses(world), [milli] * workers
    # What somebody who waits was promised is not free.
    assume(all(one.nomination is None for one in before.workloads.values()))
    assume(sum(asked) <= 1000 * sum(nodes))
    claim = world.submit(a_job("claim", milli, team=B, workers=workers, cpu_milli=1))
    nomination = world.get(claim).nomination
    leaving = truths.Leaving(before, asked)
    if leaving.fits():
        assert world.state(claim) is State.STARTING
        return
    if not leaving.fits(lost):
        assert nomination is None
        return
    assert nomination is not None, "everybody's going would have helped"
    chosen = set(nomination.victims)
    assert leaving.none_can_be_spared(chosen)
    assert len(lost) <= FEW
    assert not leaving.fits_for_less(lost, sum(lost[one] for one in chosen))


@many
@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=3),
    st.lists(borrower, min_size=FEW + 1, max_size=12),
    st.sampled_from([500, 1000, 2000]),
    st.integers(2, 3),
)
def test_victims_of_a_gang_among_many_cost_at_most_twice_the_least(
    nodes: list[int], borrowers: Any, milli: int, workers: int
) -> None:
    borrowers = [(min(milli, 1000), 1, pause, saved) for milli, _, pause, saved in borrowers]
    assume(sum(sorted(one[0] for one in borrowers)[: FEW + 1]) <= 1000 * sum(nodes))
    world = _borrowed_out(nodes, borrowers)
    before, lost, asked = world.cluster, _losses(world), [milli] * workers
    assume(len(lost) > FEW)
    leaving = truths.Leaving(before, asked)
    assume(not leaving.fits())
    assume(leaving.fits(lost))
    claim = world.submit(a_job("claim", milli, team=B, workers=workers, cpu_milli=1))
    nomination = world.get(claim).nomination
    assert nomination is not None
    chosen = set(nomination.victims)
    assert leaving.none_can_be_spared(chosen)
    half = -(-sum(lost[one] for one in chosen) // 2)
    assert not leaving.fits_for_less(lost, half)


@many
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=2),
    st.lists(borrower, max_size=6),
    st.lists(st.sampled_from([500, 1000]), min_size=1, max_size=3),
    st.integers(1, 3),
)
def test_a_limit_is_kept_by_stopping_work_of_the_same_team(
    nodes: list[int], borrowers: Any, own: list[int], limit: int
) -> None:
    """The claimant's team borrows itself and stands at its limit."""
    world = World(
        *[a_node(f"n{i}", gpus) for i, gpus in enumerate(nodes)],
        teams=[a_team("a"), a_team("b", limit_milli_gpu=1000 * limit)],
    )
    for number, milli in enumerate(own):
        world.submit(a_job(f"own-{number}", milli, team=B, cpu_milli=1))
    for number, (milli, workers, _, _) in enumerate(borrowers):
        world.submit(a_job(f"d-{number}", milli, team=A, workers=workers, cpu_milli=1))
    for workload, attempt in list(truths.current_attempts(world.cluster)):
        if attempt.started_ms is None:
            world.start(workload.workload_id)
    world.ask(_guarantee_for_b(nodes, limit), "admin")
    before = world.cluster
    claim = world.submit(a_job("claim", 1000, team=B, cpu_milli=1))
    nomination = world.get(claim).nomination
    if nomination is None:
        return
    left = [
        one
        for workload, attempt in truths.current_attempts(before)
        if workload.spec.team == B and attempt.attempt_id not in nomination.victims
        for one in attempt.placements
    ]
    held = sum(one.milli_gpu * len(one.device_ids) for one in left)
    assert held + 1000 <= 1000 * limit
    leaving = truths.Leaving(before, [1000])
    assert leaving.fits(nomination.victims)
    for spared in nomination.victims:
        rest = set(nomination.victims) - {spared}
        again = [
            one.milli_gpu * len(one.device_ids)
            for workload, attempt in truths.current_attempts(before)
            if workload.spec.team == B and attempt.attempt_id not in rest
            for one in attempt.placements
        ]
        assert not (leaving.fits(rest) and sum(again) + 1000 <= 1000 * limit)


def _guarantee_for_b(nodes: list[int], limit: int) -> Any:
    saved = 1000 * min(sum(nodes), limit)
    quota = Quota(guaranteed_milli_gpu=saved, limit_milli_gpu=1000 * limit)
    return SetQuotas(quotas={(B, TRAIN): quota})
