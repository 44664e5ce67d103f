"""Windows, their words, and what past ones teach."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.types import Millis, WorkloadId
from gpucommons.scheduler.forecast import words
from gpucommons.scheduler.forecast.forecast import Forecast, told, window_to_show
from gpucommons.scheduler.forecast.futures import FUTURES, quantile, share, shared
from gpucommons.scheduler.forecast.windows import (
    Calibration,
    Estimate,
    Unknown,
    Window,
    calibrate,
    calibrated,
    raw_window,
)

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOW = Millis(100 * DAY)


def window(from_min: float, to_min: float) -> Window:
    middle = (from_min + to_min) / 2
    return Window(
        from_ms=round(from_min * MINUTE),
        median_ms=round(middle * MINUTE),
        to_ms=round(to_min * MINUTE),
    )


def waited(minutes: float, said: Window, number: float = 0, *, shown: bool = True) -> Estimate:
    """One wait; whole numbers lie so far apart that they are no burst."""
    made_ms = Millis(NOW - 50 * DAY + round(number * 20 * MINUTE))
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
    assert wider.to_ms > 40 * MINUTE
    # A bound goes out by much and comes back by little: looked at once, it is anywhere in between.
    begins = [window_to_show(said, calibrate(past[:n], NOW)).from_ms for n in range(20, 41)]
    assert median(begins) < 15 * MINUTE
    assert learned.right_of_ten == 1
    assert wider.from_ms <= wider.median_ms <= wider.to_ms


def test_too_wide_windows_become_narrower() -> None:
    said = window(0, 100)
    learned = calibrate([waited(9 + n % 3, said, n) for n in range(40)], NOW)
    assert calibrated(said, learned).to_ms < 12 * MINUTE
    assert learned.right_of_ten == 10


def test_what_rounding_adds_to_a_window_counts_as_part_of_it() -> None:
    said = window(0, 26)
    # Late for 26 minutes, in time for the 30 that people read.
    assert calibrate([waited(29, said, 0)], NOW).stretch_end < 1
    assert calibrate([waited(31, said, 0)], NOW).stretch_end > 1


def test_a_burst_that_is_wrong_together_counts_once() -> None:
    said = window(10, 20)
    apart = [waited(15, said, n) for n in range(30)]
    burst = [waited(300, said, 100 + n / 100) for n in range(30)]
    before = calibrate(apart, NOW).stretch_end
    # 30 of 60 waits were late, but they are one event of 31.
    assert calibrate([*apart, *burst], NOW).stretch_end == pytest.approx(2 * before)


def test_few_waits_withhold_nothing_and_are_not_boasted_of() -> None:
    learned = calibrate([waited(500, window(1, 2), n) for n in range(4)], NOW)
    assert (learned.stretch_end, learned.off) == (pytest.approx(16), False)
    assert learned.right_of_ten is None


def test_waits_whose_window_is_not_over_are_not_compared() -> None:
    soon = replace(waited(1, window(0, 60)), made_ms=Millis(NOW - 2 * MINUTE))
    soon = replace(soon, started_ms=Millis(NOW - MINUTE))
    assert calibrate([soon], NOW).compared == 0
    assert calibrate([soon], Millis(NOW + 2 * HOUR)).compared == 1


def test_a_wait_that_goes_on_after_its_window_is_a_miss_already() -> None:
    late = replace(waited(0, window(0, 10)), started_ms=None)
    found = calibrate([late] * 30, NOW)
    assert (found.compared, found.right, found.in_time) == (30, 0, 0.0)
    assert calibrate([replace(late, left=True)] * 30, NOW).compared == 0


def test_windows_that_were_wrong_too_often_are_withheld() -> None:
    past = [waited(300 if n % 2 else 15, window(10, 20), n) for n in range(60)]
    learned = calibrate(past, NOW)
    assert learned.off
    said = told(window(10, 20), learned, NOW, endless=False)
    assert (said.window, said.unknown) == (None, Unknown.CALIBRATION)
    assert said.text == "Likely start unknown: past estimates were wrong too often."
    # What was withheld counts for the stretch, so that windows can come back.
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
    assert far.text == "Likely start unknown: not in sight within two weeks."
    assert isinstance(far, Forecast)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.05, 20), min_size=80, max_size=100),
    st.sampled_from([1, 10, 60]),
)
def test_late_starts_come_to_one_of_ten_whatever_comes(ratios: list[float], minutes: int) -> None:
    """Also where nothing is alike: a bound moves as far as it has to."""
    said = window(0, minutes)
    late = 0
    past: list[Estimate] = []
    for number, ratio in enumerate(ratios):
        shown = window_to_show(said, calibrate(past, NOW))
        wait = waited(ratio * minutes, said, number)
        late += wait.started_ms - wait.made_ms > shown.to_ms + 30_000  # type: ignore[operator]
        past.append(wait)
    # It begins at one and can be off by what it takes to reach the largest ratio once.
    assert late <= 0.1 * len(ratios) + 7


def test_one_miss_is_taken_back_by_nine_that_were_in_time() -> None:
    said = window(10, 20)
    miss = waited(60, said, 0)
    assert calibrate([miss], NOW).stretch_end == pytest.approx(2)
    right = [waited(15, said, 1 + n) for n in range(9)]
    assert calibrate([miss, *right], NOW).stretch_end == pytest.approx(1)
