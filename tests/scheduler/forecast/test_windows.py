"""Windows, their words, and what past ones teach."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.forecast import words
from gpucommons.scheduler.forecast.forecast import Forecast, told, window_to_show
from gpucommons.scheduler.forecast.futures import FUTURES, quantile, share, shared
from gpucommons.scheduler.forecast.windows import (
    MOST_STRETCH,
    Basis,
    Calibration,
    apart,
    calibrate,
    calibrated,
    raw_window,
)
from gpucommons.scheduler.store.estimates import Estimate, Window

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOW = Millis(300 * DAY)


def window(from_min: float, to_min: float) -> Window:
    middle = (from_min + to_min) / 2
    return Window(
        from_ms=round(from_min * MINUTE),
        median_ms=round(middle * MINUTE),
        to_ms=round(to_min * MINUTE),
    )


def waited(minutes: float, said: Window, number: float = 0, *, shown: bool = True) -> Estimate:
    """One wait; between whole numbers lie ten hours, longer than any wait here."""
    made_ms = Millis(NOW - 200 * DAY + round(number * 10 * HOUR))
    return Estimate(
        workload_id=WorkloadId(f"w-{number}"),
        made_ms=made_ms,
        wait_class="job train",
        raw=said,
        window=said,
        withheld=not shown,
        started_ms=Millis(made_ms + round(minutes * MINUTE)),
    )


def test_every_quantile_is_dealt_to_every_workload_in_one_future() -> None:
    for name in ("a", "b", "0199-…"):
        dealt = sorted(share(name, future) for future in range(FUTURES))
        assert dealt == pytest.approx([(i + 0.5) / FUTURES for i in range(FUTURES)])
    orders = {tuple(share(f"w-{n}", f) for f in range(FUTURES)) for n in range(50)}
    assert len(orders) > 25


def test_quantiles_of_a_group_are_alike_and_each_is_still_dealt_once() -> None:
    dealt = {n: [shared(n, "vision/ann/digits", f) for f in range(FUTURES)] for n in "abcdefgh"}
    for quantiles in dealt.values():
        assert sorted(quantiles) == pytest.approx([(i + 0.5) / FUTURES for i in range(FUTURES)])
    means = [sum(column) / len(dealt) for column in zip(*dealt.values(), strict=True)]
    assert max(means) - min(means) > 0.35  # apart from each other, sums of eight would be even
    assert len({tuple(quantiles) for quantiles in dealt.values()}) > 1


@given(st.lists(st.one_of(st.none(), st.integers(0, 10**9)), min_size=1, max_size=12))
def test_quantiles_never_fall_and_are_out_of_sight_together(values: list[int | None]) -> None:
    found = [quantile(values, part / 10) for part in range(1, 10)]
    seen = [one for one in found if one is not None]
    assert seen == sorted(seen)
    assert found[len(seen) :] == [None] * (len(found) - len(seen))


def test_a_window_holds_the_middle_eight_tenths_of_the_futures() -> None:
    assert raw_window([10, 20, 30, 40, 50, 60, 70, 80, 90, 100]) == Window(
        from_ms=15, median_ms=55, to_ms=95
    )
    assert raw_window([10, 20, 30, 40, None]) is None


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "text"),
    [
        (0, 40_000, "under 1 min"),
        (11 * MINUTE, 24 * MINUTE, "10–25 min"),
        (4 * MINUTE, 5 * MINUTE, "3–5 min"),
        (60 * MINUTE, 60 * MINUTE, "about 60 min"),
        (20 * MINUTE, 2 * HOUR, "under 2 h"),
        (70 * MINUTE, 100 * MINUTE, "1–2 h"),
        (30 * HOUR, 60 * HOUR, "1–3 d"),
    ],
)
def test_windows_are_rounded_outwards_and_said_in_plain_words(
    from_ms: int, to_ms: int, text: str
) -> None:
    assert words.span(words.rounded_down(from_ms), words.rounded_up(to_ms)) == text


@given(st.integers(0, 60 * DAY), st.integers(0, 60 * DAY))
def test_rounding_never_promises_more(one: int, other: int) -> None:
    low, high = min(one, other), max(one, other)
    assert words.rounded_down(low) <= low
    assert words.rounded_up(high) >= high
    assert words.rounded_down(low) <= words.rounded_up(high)


def test_past_misses_widen_the_window() -> None:
    said = window(20, 25)
    # From 3 to 61 minutes, in no order.
    past = [waited(3 + 1.5 * (n * 7 % 40), said, n) for n in range(40)]
    learned = calibrate(past, NOW)
    wider = window_to_show(said, learned)
    assert learned.compared == 40
    # A bound goes out by much and comes back by little: looked at once, it is anywhere in between.
    seen = [window_to_show(said, calibrate(past[:n], NOW)) for n in range(20, 41)]
    assert median(one.to_ms for one in seen) > 40 * MINUTE
    assert median(one.from_ms for one in seen) < 15 * MINUTE
    assert learned.right_of_ten == 1
    assert wider.from_ms <= wider.median_ms <= wider.to_ms


def test_too_wide_windows_become_narrower() -> None:
    said = window(0, 100)
    learned = calibrate([waited(30 + n % 3, said, n) for n in range(40)], NOW)
    assert calibrated(said, learned).to_ms < 42 * MINUTE
    assert learned.right_of_ten == 10


def test_waits_that_end_before_they_began_teach_nothing() -> None:
    said = window(20, 25)
    fine = [waited(22, said, n) for n in range(20)]
    back = [waited(-90, said, 20 + n) for n in range(20)]
    assert calibrate([*fine, *back], NOW) == calibrate(fine, NOW)


def test_what_rounding_adds_to_a_window_counts_as_part_of_it() -> None:
    said = window(0, 26)
    # Late for 26 minutes, in time for the 30 that people read.
    assert calibrate([waited(29, said, 0)], NOW).stretch_end < 1
    assert calibrate([waited(31, said, 0)], NOW).stretch_end > 1


def test_waits_count_as_one_as_far_as_they_cover_the_same_time() -> None:
    hours = [(0, 10), (0, 10), (5, 15), (8, 9), (20, 30)]
    counts = apart([(begin * HOUR, end * HOUR) for begin, end in hours])
    assert counts[4] == 1
    assert counts[0] == counts[1] == pytest.approx(1 / (2 + 5 / 15 + 1 / 10))
    assert counts[2] == pytest.approx(1 / (1 + 2 * 5 / 15 + 1 / 10))
    # An hour within others' ten is nearly a wait of its own.
    assert counts[3] == pytest.approx(1 / (1 + 3 / 10))


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=30))
def test_no_wait_counts_more_than_once_and_copies_of_one_never_more_than_it(
    waits: list[tuple[int, int]],
) -> None:
    waits = sorted((begin, begin + length) for begin, length in waits)
    counts = apart(waits)
    assert all(0 < one <= 1 for one in counts)
    copied = apart([wait for wait in waits for _ in range(3)])
    assert sum(copied) == pytest.approx(sum(counts))


def test_a_burst_that_is_wrong_together_counts_once() -> None:
    said = window(10, 20)
    before = [waited(15, said, n) for n in range(30)]
    burst = [waited(300, said, 100 + n / 1000) for n in range(30)]
    alone = calibrate([*before, burst[0]], NOW).stretch_end
    # 30 of 60 waits were late, but they are one event of 31.
    assert calibrate([*before, *burst], NOW).stretch_end == pytest.approx(alone, rel=0.08)


def test_few_waits_withhold_nothing_and_are_not_boasted_of() -> None:
    learned = calibrate([waited(300, window(1, 2), n) for n in range(2)], NOW)
    assert (learned.stretch_end, learned.off) == (pytest.approx(1.5**2), False)
    assert learned.right_of_ten is None


def test_waits_whose_window_is_not_over_are_not_compared() -> None:
    soon = replace(waited(1, window(0, 60)), made_ms=Millis(NOW - 2 * MINUTE))
    soon = replace(soon, started_ms=Millis(NOW - MINUTE))
    assert calibrate([soon], NOW).compared == 0
    assert calibrate([soon], Millis(NOW + 2 * HOUR)).compared == 1


def test_a_wait_that_goes_on_after_its_window_is_a_miss_already() -> None:
    # The second begins when most of the first one's time, as far as it is known, is over.
    late = [replace(waited(0, window(0, 10), n), started_ms=None) for n in (0, 400)]
    found = calibrate(late, NOW)
    assert (found.compared, found.right) == (2, 0)
    assert 1.5 < found.stretch_end <= 1.5**2
    assert calibrate([replace(one, left=True) for one in late], NOW).compared == 0


def test_windows_that_were_wrong_too_often_give_way_to_a_wide_range_that_says_so() -> None:
    past = [waited(300 if n % 2 else 15, window(10, 20), n) for n in range(60)]
    learned = calibrate(past, NOW)
    assert learned.off
    said = told(window(10, 20), learned, NOW, endless=False)
    assert (said.basis, said.unknown) == (Basis.WRONG, None)
    assert said.text == "Likely between 2 and 90 min, past estimates were often wrong."
    # What was replaced counts for the stretch, so that windows can come back.
    again = calibrate(
        [*past, *(waited(15, window(10, 20), 100 + n, shown=False) for n in range(200))], NOW
    )
    assert not again.off


def test_the_sentence_says_the_window_and_how_right_such_were() -> None:
    learned = Calibration(compared=10, shown=10, right=8)
    said = told(window(11, 24), learned, NOW, endless=False)
    assert said.text == "Likely 10–25 min (past estimates right 8 of 10)."
    assert told(window(11, 24), Calibration(), NOW, endless=False).text == "Likely 10–25 min."


def test_without_a_window_it_says_why() -> None:
    history = told(None, Calibration(), NOW, endless=True)
    assert history.text == (
        "Likely start unknown: too little is known about how long the work in its way runs."
    )
    far = told(None, Calibration(), NOW, endless=False)
    assert far.text == "Likely not within two weeks."
    assert isinstance(far, Forecast)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.25, 3), min_size=80, max_size=100),
    st.sampled_from([4, 10, 60]),
)
def test_late_starts_come_to_one_of_ten_whatever_comes(ratios: list[float], minutes: int) -> None:
    """Also where nothing is alike: a bound moves as far as it has to."""
    late = sum(late_starts(ratios, minutes))
    # It begins at one and can be off by what it takes to reach the largest ratio once.
    assert late <= 0.1 * len(ratios) + 4


@pytest.mark.parametrize("scale", [0.5, 1, 2])
def test_where_waits_are_alike_nine_of_ten_come_before_the_end(scale: float) -> None:
    """Futures that are right, half as long or twice as long as what comes."""
    chance = Random(7)  # noqa: S311 - the same numbers each time
    # Nine of ten lie below the scale.
    ratios = [scale * math.exp(chance.gauss(0, 0.6) - 1.28 * 0.6) for _ in range(400)]
    late = late_starts(ratios, 40, remembered=60)[60:]
    assert sum(late) / len(late) == pytest.approx(0.1, abs=0.03)


def test_late_starts_that_hang_together_do_not_stretch_windows_for_long() -> None:
    said = window(0, 20)
    # Now and then a few in a row take three times as long as was said.
    past = [waited(60 if number % 50 < 5 else 15, said, number) for number in range(400)]
    ends = [calibrate(past[:number], NOW).stretch_end for number in range(100, 400)]
    assert max(ends) < 1.5**4
    shown = [window_to_show(said, Calibration(stretch_end=end)).to_ms for end in ends]
    assert median(shown) <= 30 * MINUTE


@given(st.integers(1, 60))
def test_after_any_bad_time_some_thirty_starts_in_time_are_enough(bad: int) -> None:
    said = window(0, 20)
    past = [waited(500, said, n) for n in range(bad)]
    assert calibrate(past, NOW).stretch_end <= MOST_STRETCH
    past += [waited(19, said, bad + n) for n in range(31)]
    assert calibrate(past, NOW).stretch_end <= 1.02


def late_starts(ratios: list[float], minutes: int, remembered: int = 1000) -> list[bool]:
    """Whether each wait, so many times as long as was said, came after what was shown then."""
    said = window(0, minutes)
    late = []
    past: list[Estimate] = []
    for number, ratio in enumerate(ratios):
        shown = window_to_show(said, calibrate(past[-remembered:], NOW))
        wait = waited(ratio * minutes, said, number)
        assert wait.started_ms is not None
        late.append(wait.started_ms - wait.made_ms > shown.to_ms + 30_000)
        past.append(wait)
    return late


def test_one_miss_is_taken_back_by_nine_that_were_in_time() -> None:
    said = window(10, 20)
    miss = waited(60, said, 0)
    assert calibrate([miss], NOW).stretch_end == pytest.approx(1.5)
    right = [waited(15, said, 1 + n) for n in range(9)]
    assert calibrate([miss, *right], NOW).stretch_end == pytest.approx(1)
