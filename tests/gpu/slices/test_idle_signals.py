from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from gpucommons.gpu.slices.idle_signals import Activity, observe
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
