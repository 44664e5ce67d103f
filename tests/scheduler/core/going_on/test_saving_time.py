"""What a stop would cost is said by the memory that was seen, the disk's speed and the grace."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import World, a_job, a_node, a_pool, a_team
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.core.eviction.candidates import work_lost
from gpucommons.scheduler.core.going_on import saving_time, words
from gpucommons.scheduler.core.going_on.hibernating import (
    is_saved_in,
    most_mib_before_start,
    saving_costs_ms,
)
from gpucommons.scheduler.core.going_on.image_places import hindered_since, most_mib_saved_of
from gpucommons.scheduler.core.going_on.ways import Way, WayToGoOn, way_to_go_on
from gpucommons.scheduler.core.model.going_on import Hibernation, HibernationAbility
from gpucommons.scheduler.core.model.intents import Pause, Resume
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptStarted,
    FilesKept,
    MemoryReported,
)
from gpucommons.scheduler.core.model.types import State, WorkloadId

RATE = 144
CAN = Hibernation(cost_ms=15_000, save_mib_per_s=RATE, wake_mib_per_s=300)
GRACE_S = 10
TOO_LARGE = (
    "saving its 822 MiB of memory would take 7 s at 144 MiB/s, and half of its grace is 5 s (a grace of"
    " 14 s or more would save it)"
)


@pytest.fixture
def world() -> World:
    return World(
        a_node(gpus=2),
        teams=[a_team(guaranteed_milli_gpu=2000)],
        pools=[a_pool(grace_ms=GRACE_S * 1000)],
    )


def run(world: World, mib: int | None, known: Hibernation | None = CAN) -> WorkloadId:
    job = world.submit(a_job())
    begin(world, job, mib, known)
    return job


def begin(world: World, job: WorkloadId, mib: int | None, known: Hibernation | None = CAN) -> None:
    world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=known))
    if mib is not None:
        see(world, job, mib)


def see(world: World, job: WorkloadId, mib: int) -> None:
    world.step(MemoryReported(attempt_id=world.attempt_id(job), memory_mib=mib))


def way_of(world: World, job: WorkloadId) -> WayToGoOn:
    places = world.cluster.pools, world.cluster.nodes
    found = world.get(job)
    way = way_to_go_on(found, hindered_since(found, *places), most_mib_saved_of(found, *places))
    assert way is not None
    return way


def test_a_job_too_large_for_its_grace_is_said_to_start_anew_with_the_numbers_and_the_remedy(
    world: World,
) -> None:
    job = run(world, 822)
    world.wait(4 * 60_000)
    way = way_of(world, job)
    assert way.way is Way.START_OVER
    anew = f"tarts its command anew and finds the files that it wrote, if any are kept, because {TOO_LARGE}"
    assert words.goes_on(way) == f"s{anew}"
    assert words.before_a_pause(way, world.now) == (
        f"S{anew}; what it did since it last saved is repeated, 4 min of work at most."
    )


def test_one_that_finds_its_files_again_says_why_its_memory_is_not_saved(world: World) -> None:
    job = run(world, 822)
    world.step(FilesKept(attempt_id=world.attempt_id(job), files=3))
    assert words.goes_on(way_of(world, job)) == (
        f"starts its command anew and finds the files that it wrote, because {TOO_LARGE}"
    )


def test_the_grace_that_is_recommended_is_enough(world: World) -> None:
    job = run(world, 822)
    world.cluster = replace(
        world.cluster,
        pools={name: replace(pool, grace_ms=14_000) for name, pool in world.cluster.pools.items()},
    )
    assert way_of(world, job).way is Way.PROCESS_IMAGE


@given(st.integers(0, 1 << 20), st.integers(1, 10_000), st.integers(0, 600_000))
def test_what_is_promised_takes_half_of_the_grace_at_most_and_the_remedy_holds(
    mib: int, rate: int, grace_ms: int
) -> None:
    because = saving_time.too_long(mib, rate, grace_ms)
    assert (because == "") is (2 * saving_time.save_ms(mib, rate) <= grace_ms)
    if because:
        enough_s = int(because.partition("a grace of ")[2].partition(" s")[0])
        assert not saving_time.too_long(mib, rate, 1000 * enough_s)
    most = saving_time.most_mib(grace_ms, rate)
    assert not most or not saving_time.too_long(most, rate, grace_ms)


def test_while_nobody_has_seen_its_memory_it_is_said_on_what_it_depends(world: World) -> None:
    job = run(world, None)
    assert words.goes_on(way_of(world, job)).startswith(
        "goes on where it stopped: its memory is saved when it is stopped, unless it is more than 648 MiB"
        " or holds what cannot be saved; then it starts its command anew"
    )
    see(world, job, 600)
    assert words.goes_on(way_of(world, job)).startswith(
        "goes on where it stopped: its memory is saved when it is stopped; if that fails"
    )
    see(world, job, 700)
    assert way_of(world, job).way is Way.START_OVER


def test_the_attempt_after_one_that_was_too_large_promises_no_more_than_that(world: World) -> None:
    job = run(world, 822)
    world.ask(Pause(workload_id=job))
    world.step(
        AttemptEnded(
            attempt_id=world.attempt_id(job), exit_code=None, told=True, not_saved=TOO_LARGE
        )
    )
    assert world.get(job).state is State.PAUSED
    assert TOO_LARGE in (world.get(job).attempts[0].ended_text or "")
    world.ask(Resume(workload_id=job))
    begin(world, job, None)
    assert TOO_LARGE in words.goes_on(way_of(world, job))


def test_where_the_disks_speed_is_not_known_nothing_is_predicted(world: World) -> None:
    assert way_of(world, run(world, 5_000, Hibernation(cost_ms=1))).way is Way.PROCESS_IMAGE


def test_memory_of_one_that_cannot_be_saved_is_not_put_on_record(world: World) -> None:
    job = run(world, 822, Hibernation(hindrance="it cannot"))
    assert world.get(job).attempts[0].hibernation == Hibernation(hindrance="it cannot")


def test_who_is_too_large_to_be_saved_loses_all_its_work_and_others_their_seconds(
    world: World,
) -> None:
    small, large = run(world, 288), run(world, 822)
    world.wait(600_000)
    costs = []
    for job in (small, large):
        found = world.get(job)
        [attempt] = found.attempts
        saving_ms = saving_costs_ms(found, attempt, GRACE_S * 1000)
        costs.append(work_lost(found, attempt, world.now, saving_ms))
    # 0.5 s + 288 / 144 + 288 / 300.
    assert costs == [1000 * 3_460, 1000 * 600_000]


def test_the_victim_is_whose_work_is_really_kept() -> None:
    world = World(
        a_node(gpus=2),
        teams=[a_team(), a_team("nlp", guaranteed_milli_gpu=1000)],
        pools=[a_pool(grace_ms=GRACE_S * 1000)],
    )
    large, small = run(world, 822), run(world, 288)
    world.wait(3_600_000)
    world.submit(a_job("claim", team="nlp"))
    stopped = {
        job: world.get(job).current.stop is not None  # type: ignore[union-attr]
        for job in (large, small)
    }
    assert stopped == {large: False, small: True}
    assert world.stop_of(small).why in {"preempt", "reclaim"}


@pytest.mark.parametrize(("left_s", "saved"), [(14, True), (10, False)])
def test_before_its_node_leaves_it_is_saved_if_half_of_what_is_left_is_enough(
    world: World, left_s: int, saved: bool
) -> None:
    found = world.get(run(world, 822))
    assert is_saved_in(found, found.attempts[0], left_s * 1000) is saved


def test_before_it_begins_the_slowest_disk_bounds_what_is_promised() -> None:
    fast, slow = (
        a_node(name, hibernation=HibernationAbility(able=True, save_mib_per_s=rate))
        for name, rate in (("fast", 400), ("slow", 100))
    )
    pool = a_pool(grace_ms=30_000)
    nodes = {one.node_id: one for one in (fast, slow)}
    most = most_mib_before_start(a_job(), {pool.name: pool}, nodes)
    assert most == 1450
    assert words.before_start(("", ""), files_are_kept=True, most_mib=most) == (
        "If it is stopped before it saved a checkpoint: its memory is saved, unless it is more than 1.4"
        " GiB or holds what cannot be saved, and it goes on where it stopped. Else it starts its command"
        " anew and finds the files that it wrote."
    )
