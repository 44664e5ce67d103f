"""Elastic jobs over random evenings: never below their fewest, never restarted again and again."""

from __future__ import annotations

from itertools import pairwise

from builders import World, a_job, a_node, a_pool, a_team
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.state import CheckpointReported, ProgressReported
from gpucommons.scheduler.core.model.types import (
    AttemptState,
    Checkpoint,
    Millis,
    Progress,
    State,
    WorkloadId,
)
from gpucommons.scheduler.core.passes.elastic_sizes import PAUSE_MS

MINUTE = 60_000
#: Minutes that pass, then what happens: a job of so many GPUs comes, or the oldest rigid one ends.
moves = st.lists(
    st.tuples(st.sampled_from([1, 3, 12, 40]), st.integers(min_value=-1, max_value=3)),
    max_size=25,
)


@settings(max_examples=25, deadline=None)
@given(evening=moves, scaling=st.sampled_from([10, 6, 0, -4]))
def test_changes_of_size_are_bounded_and_nothing_saved_is_lost(
    evening: list[tuple[int, int]], scaling: int
) -> None:
    world = World(a_node(gpus=4), teams=[a_team(), a_team("nlp")], pools=[a_pool(min_run_ms=0)])
    job = world.run(a_job("elastic", 1000, workers=2, min_workers=1, max_workers=4))
    others: list[WorkloadId] = []
    step = 0
    for minutes, what in evening:
        world.wait(minutes * MINUTE)
        step = _goes_on(world, job, step, minutes, scaling)
        if what > 0:
            others.append(
                world.submit(a_job("rigid", what * 1000, team=("vision", "nlp")[what % 2]))
            )
        elif what < 0 and others:
            done = others.pop(0)
            if world.get(done).current is not None:
                world.end(done)
            else:
                others.append(done)
        for one in [job, *others]:
            _obeys(world, one)
    workload = world.get(job)
    assert all(1 <= len(one.placements) <= 4 for one in workload.attempts)
    ended = [one for one in workload.attempts if one.stop is not None and one.ended_ms is not None]
    for before, after in pairwise(ended):
        if after.stop is not None and after.stop.why == StopCause.OWN_SIZE:
            assert after.stop.announced_ms - (before.ended_ms or 0) >= PAUSE_MS
    steps = [one.resumed_from.step for one in workload.attempts if one.resumed_from is not None]
    assert steps == sorted(steps)


#: Workers that a job asks for, and with how many fewer it would start.
asked = st.tuples(st.integers(min_value=1, max_value=6), st.integers(min_value=0, max_value=3))


@settings(max_examples=50, deadline=None)
@given(wanted=st.lists(asked, min_size=1, max_size=8), idle=st.integers(min_value=1, max_value=8))
def test_who_starts_with_fewer_workers_takes_only_what_nobody_takes_whole(
    wanted: list[tuple[int, int]], idle: int
) -> None:
    world = World(a_node(gpus=8), teams=[a_team()])
    held = world.run(a_job("held", 8000))
    jobs = [
        world.submit(
            a_job(f"job-{number}", workers=workers, min_workers=max(1, workers - fewer))
            if fewer
            else a_job(f"job-{number}", workers * 1000)
        )
        for number, (workers, fewer) in enumerate(wanted)
    ]
    if idle < 8:
        world.submit(a_job("again", (8 - idle) * 1000, priority="high"))
    world.end(held)
    used = {one: _workers(world, one) for one in jobs}
    waiting = [size for one, (size, _) in zip(jobs, wanted, strict=True) if not used[one]]
    small = sum(
        used[one]
        for one, (size, fewer) in zip(jobs, wanted, strict=True)
        if fewer and used[one] < size
    )
    left = idle - sum(
        used[one] if fewer else size * used[one]
        for one, (size, fewer) in zip(jobs, wanted, strict=True)
    )
    assert left >= 0
    assert all(size > left + small for size in waiting)
    least = [
        max(1, size - fewer)
        for one, (size, fewer) in zip(jobs, wanted, strict=True)
        if not used[one]
    ]
    assert all(size > left for size in least), "nothing that fits stays idle"


def _workers(world: World, one: WorkloadId) -> int:
    attempt = world.get(one).current
    return 0 if attempt is None else len(attempt.placements)


def _goes_on(world: World, job: WorkloadId, step: int, minutes: int, scaling: int) -> int:
    """It works at its own speed, reports and saves."""
    attempt = world.get(job).current
    if attempt is None or attempt.state is not AttemptState.RUNNING:
        return step
    step += minutes * max(1, 10 + scaling * (len(attempt.placements) - 1))
    at_ms = Millis(world.now)
    told = ProgressReported(
        attempt_id=attempt.attempt_id, progress=Progress(step=step, at_ms=at_ms)
    )
    saved = Checkpoint(
        attempt_id=attempt.attempt_id,
        step=step,
        path="x",
        size_bytes=1,
        sha256="0" * 64,
        at_ms=at_ms,
    )
    world.step(told, CheckpointReported(attempt_id=attempt.attempt_id, checkpoint=saved))
    return step


def _obeys(world: World, one: WorkloadId) -> None:
    """Who was told to go is gone, and who was admitted runs."""
    attempt = world.get(one).current
    if attempt is not None and attempt.stop is not None:
        world.end(one, 143)
    if world.state(one) is State.STARTING:
        world.start(one)
