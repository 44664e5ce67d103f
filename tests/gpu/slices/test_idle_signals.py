from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from gpucommons.gpu.slices.idle_signals import UNSEEN_AFTER_MS, Activity, observe
from gpucommons.gpu.slices.slices import SliceId
from gpucommons.gpu.slices.usage import UsageSample

START_MS = 1_000_000_000


def play(
    numbers: Iterable[tuple[int | None, int | None]], *, every_ms: int = 1000
) -> list[int | None]:
    """The last activity after each sample of (compute, memory), relative to the first."""
    activity = Activity()
    seen = []
    for step, (compute, memory) in enumerate(numbers):
        sample = UsageSample(
            slice_id=SliceId("s"),
            at_ms=START_MS + step * every_ms,
            compute_percent=compute,
            memory_used_mib=memory,
            memory_limit_mib=1000,
            processes=1,
        )
        activity = observe(activity, sample)
        at_ms = activity.active_ms
        seen.append(None if at_ms is None else at_ms - START_MS)
    return seen


def test_an_idle_slice_was_never_active() -> None:
    assert play([(0, 0)] * 100)[-1] is None


def test_noise_below_three_percent_is_idle() -> None:
    assert play([(2, 0)] * 100)[-1] is None


def test_steady_use_is_activity_in_every_bucket() -> None:
    assert play([(4, 0)] * 100)[-1] == 99_000


def test_a_short_burst_is_activity() -> None:
    seen = play([(0, 0)] * 25 + [(60, 0)] + [(0, 0)] * 60)
    assert seen[24] is None
    assert seen[25] == 25_000
    assert seen[-1] == 29_000


def test_growing_memory_is_activity_and_holding_it_is_not() -> None:
    seen = play([(0, 100)] * 3 + [(0, 164), (0, 165)] + [(0, 165)] * 20)
    assert seen[0] == 0
    assert seen[3] == 0
    assert seen[-1] == 4000


def test_memory_that_was_freed_may_grow_again() -> None:
    assert play([(0, 500), (0, 10), (0, 10), (0, 80)])[-1] == 3000


def test_unknown_numbers_count_as_activity() -> None:
    assert play([(0, 0), (None, 0)])[-1] == 1000
    assert play([(0, 0), (0, None)])[-1] == 1000


def test_a_gap_between_samples_is_not_credited() -> None:
    assert play([(0, 0), (10, 0)], every_ms=60_000)[-1] is None


def test_a_clock_that_goes_back_takes_nothing_back() -> None:
    assert play([(0, 900), (100, 900)], every_ms=-5000)[-1] == 0


@given(
    st.lists(
        st.tuples(st.none() | st.integers(0, 100), st.none() | st.integers(0, 5000)), max_size=60
    )
)
def test_activity_never_goes_back_and_never_lies_ahead(
    numbers: list[tuple[int | None, int | None]],
) -> None:
    last = None
    for step, at_ms in enumerate(play(numbers)):
        assert at_ms is None or at_ms <= step * 1000
        assert last is None or (at_ms is not None and at_ms >= last)
        last = at_ms


HOUR_MS = 3_600_000


def looked(
    activity: Activity, at_ms: int, compute: int | None = 0, memory: int | None = 0
) -> Activity:
    sample = UsageSample(
        slice_id=SliceId("s"),
        at_ms=at_ms,
        compute_percent=compute,
        memory_used_mib=memory,
        memory_limit_mib=1000,
        processes=1,
    )
    return observe(activity, sample)


def test_time_in_which_the_agent_was_away_is_not_idle_time() -> None:
    activity = Activity(active_ms=START_MS, seen_ms=START_MS + 10_000, resumed=True)
    back_ms = START_MS + 10_000 + 2 * HOUR_MS
    for second in range(5):
        activity = looked(activity, back_ms + second * 1000)
    assert activity.active_ms == back_ms - 10_000


def test_a_slice_that_was_never_used_begins_anew_after_time_in_which_nobody_looked() -> None:
    activity = Activity(seen_ms=START_MS, resumed=True)
    assert looked(activity, START_MS + UNSEEN_AFTER_MS).active_ms is None
    late_ms = START_MS + UNSEEN_AFTER_MS + 1
    assert looked(activity, late_ms).active_ms == late_ms
    assert looked(Activity(resumed=True), late_ms).active_ms == late_ms


def test_a_first_look_that_knows_nothing_is_active_and_one_that_lacks_a_rate_is_not() -> None:
    activity = Activity(active_ms=START_MS, seen_ms=START_MS + 60_000, resumed=True)
    back_ms = START_MS + 61_000
    assert looked(activity, back_ms, None, None).active_ms == back_ms
    no_rate = looked(activity, back_ms, None, 500)
    assert no_rate.active_ms == START_MS
    assert looked(no_rate, back_ms + 1000, None, 500).active_ms == back_ms + 1000


def test_a_first_look_at_a_slice_that_computes_is_active() -> None:
    activity = Activity(active_ms=START_MS, seen_ms=START_MS + 60_000, resumed=True)
    assert looked(activity, START_MS + 61_000, 90, 500).active_ms == START_MS + 61_000


@given(
    before_ms=st.integers(0, 2 * HOUR_MS),
    away_ms=st.integers(0, 5 * HOUR_MS),
    samples=st.lists(
        st.tuples(st.none() | st.integers(0, 100), st.none() | st.integers(0, 5000)),
        min_size=1,
        max_size=30,
    ),
)
def test_after_a_restart_a_slice_is_idle_for_no_longer_than_somebody_looked(
    before_ms: int, away_ms: int, samples: list[tuple[int | None, int | None]]
) -> None:
    seen_ms = START_MS + before_ms
    activity = Activity(active_ms=START_MS, seen_ms=seen_ms, resumed=True)
    for second, (compute, memory) in enumerate(samples):
        at_ms = seen_ms + away_ms + second * 1000
        activity = looked(activity, at_ms, compute, memory)
        assert activity.active_ms is not None
        idle_ms = at_ms - activity.active_ms
        assert 0 <= idle_ms <= before_ms + second * 1000 + min(away_ms, UNSEEN_AFTER_MS)
