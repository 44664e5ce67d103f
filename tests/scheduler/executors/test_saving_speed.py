"""Saves teach how fast a disk takes them: one that was late is not promised again, and time forgets."""

from __future__ import annotations

from dataclasses import replace

from builders import T0, World, a_job, a_node, a_pool, a_team
from hypothesis import assume, given
from hypothesis import strategies as st

from gpucommons.scheduler.core.going_on import saving_time
from gpucommons.scheduler.core.going_on.image_places import hindered_since
from gpucommons.scheduler.core.model.going_on import Hibernation, HibernationAbility
from gpucommons.scheduler.core.model.state import AttemptStarted, MemoryReported, NodesObserved
from gpucommons.scheduler.executors.local import saving_speed
from gpucommons.scheduler.executors.local.saving_speed import (
    HALF_LIFE_MS,
    LEAST_MIB,
    SLOWEST,
    SavingSpeed,
    after_save,
    after_trial,
    of_trial,
    predicted_mib_per_s,
)

SAVES = st.lists(
    st.tuples(
        st.integers(1, 20_000), st.integers(0, 120_000), st.booleans(), st.integers(0, 10**7)
    ),
    max_size=12,
)


def taught(trial: int, saves: list[tuple[int, int, bool, int]]) -> tuple[SavingSpeed, int]:
    speed, now_ms = of_trial(trial), int(T0)
    for mib, took_ms, in_time, later_ms in saves:
        now_ms += later_ms
        speed = after_save(speed, memory_mib=mib, took_ms=took_ms, in_time=in_time, now_ms=now_ms)
    return speed, now_ms


@given(st.integers(1, 4_000), SAVES)
def test_it_is_never_faster_than_the_trial_nor_without_end_slower(
    trial: int, saves: list[tuple[int, int, bool, int]]
) -> None:
    speed, now_ms = taught(trial, saves)
    assert max(1, trial // (3 * SLOWEST + 2)) <= predicted_mib_per_s(speed, now_ms) <= trial


@given(st.integers(20, 4_000), SAVES, st.integers(2_000, 60_000), st.data())
def test_a_save_that_was_late_is_not_promised_again(
    trial: int, saves: list[tuple[int, int, bool, int]], grace_ms: int, data: st.DataObject
) -> None:
    speed, now_ms = taught(trial, saves)
    before = predicted_mib_per_s(speed, now_ms)
    took_ms = saving_time.may_take_ms(grace_ms)
    # Slower than any limit of the rule would be a disk that stands still.
    least = 2 * (took_ms - saving_time.ALWAYS_MS) * trial // (SLOWEST * 1000) + 1
    most = saving_time.most_mib(grace_ms, before)
    assume(max(least, LEAST_MIB) <= most)
    mib = data.draw(st.integers(max(least, LEAST_MIB), most))
    assert not saving_time.too_long(mib, before, grace_ms)
    speed = after_save(speed, memory_mib=mib, took_ms=took_ms, in_time=False, now_ms=now_ms)
    assert saving_time.too_long(mib, predicted_mib_per_s(speed, now_ms), grace_ms)


def test_saves_as_fast_as_the_trial_change_nothing() -> None:
    speed = of_trial(150)
    for number in range(20):
        speed = after_save(speed, memory_mib=900, took_ms=6_500, in_time=True, now_ms=number)
    assert predicted_mib_per_s(speed, 20) == of_trial_rate(150)


def of_trial_rate(trial: int) -> int:
    return predicted_mib_per_s(of_trial(trial), 0)


def test_a_short_save_says_nothing_of_the_disk() -> None:
    speed = of_trial(150)
    assert after_save(speed, memory_mib=20, took_ms=9_000, in_time=True, now_ms=1) == speed


def test_saves_that_are_steadily_slower_are_reckoned_with_and_their_scatter_is_forgotten() -> None:
    speed = of_trial(200)
    for number in range(60):
        speed = after_save(speed, memory_mib=1_000, took_ms=10_500, in_time=True, now_ms=number)
    assert 90 <= predicted_mib_per_s(speed, 60) <= 100


def test_what_was_learnt_counts_half_after_six_hours_so_that_saving_is_tried_again() -> None:
    late = after_save(of_trial(200), memory_mib=1_000, took_ms=15_000, in_time=False, now_ms=0)
    rates = [predicted_mib_per_s(late, HALF_LIFE_MS * number) for number in range(12)]
    assert rates == sorted(rates)
    assert rates[0] < 80
    assert rates[-1] > 195


def test_a_new_trial_that_is_slower_holds_at_once() -> None:
    assert predicted_mib_per_s(after_trial(of_trial(200), 50), 0) == 50


def test_what_a_disk_has_shown_holds_for_what_runs_on_it() -> None:
    able = HibernationAbility(able=True, save_mib_per_s=200, wake_mib_per_s=400)
    node = a_node(gpus=1, hibernation=able)
    world = World(node, teams=[a_team()], pools=[a_pool(grace_ms=10_000)])
    job = world.submit(a_job())
    runs = Hibernation(save_mib_per_s=200, wake_mib_per_s=400)
    world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=runs))
    world.step(MemoryReported(attempt_id=world.attempt_id(job), memory_mib=780))
    places = world.cluster.pools, world.cluster.nodes
    assert hindered_since(world.get(job), *places) == ""
    slower = replace(node, hibernation=replace(able, save_mib_per_s=70))
    world.step(NodesObserved(executor="fake", nodes=(slower,)))
    said = hindered_since(world.get(job), world.cluster.pools, world.cluster.nodes)
    assert said.startswith("saving its 780 MiB of memory would take 12 s at 70 MiB/s")


def test_of_an_unknown_speed_nothing_is_predicted() -> None:
    assert saving_speed.predicted_mib_per_s(of_trial(0), 0) == 0
