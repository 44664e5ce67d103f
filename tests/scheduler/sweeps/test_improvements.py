"""The best so far never worsens, is the same in whichever order values come, and stays short."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.sweeps.improvements import MOST, improved, with_bests
from gpucommons.scheduler.sweeps.sweep import Budget, Improvement, Improvements, Sweep, Trial

LOSS = Sweep(
    sweep_id=ParentId("s"),
    kind=ParentKind.SWEEP,
    name="s",
    owner=UserName("ada"),
    team=TeamName("vision"),
    made_ms=Millis(0),
    budget=Budget(trials=9),
    request="{}",
    metric="loss",
)
NOTHING = Improvements()


def at(at_ms: int, value: float, trial: int = 1) -> Improvement:
    return Improvement(at_ms=Millis(at_ms), trial=trial, value=value)


TOLD = st.lists(
    st.builds(at, st.integers(0, 9), st.floats(-3, 3, width=16) | st.just(math.nan), st.integers(1, 3))
)  # fmt: skip


def test_a_trial_that_still_improves_does_not_rewrite_what_was_best_before() -> None:
    record = improved(LOSS, NOTHING, [at(1, 329), at(2, 521, trial=2), at(5, 200), at(6, 210)])
    assert record.points == (at(1, 329), at(5, 200))
    accuracy = replace(LOSS, maximize=True)
    record = improved(accuracy, NOTHING, [at(1, 0.5), at(2, 0.4), at(3, 0.6), at(4, math.inf)])
    assert record.points == (at(1, 0.5), at(3, 0.6))


def test_what_comes_late_takes_its_place_and_what_it_beats_goes() -> None:
    record = improved(LOSS, NOTHING, [at(1, 9), at(8, 5), at(9, 3)])
    assert improved(LOSS, record, [at(4, 4, trial=2)]).points == (at(1, 9), at(4, 4, 2), at(9, 3))


@given(TOLD, st.randoms())
def test_values_may_come_twice_and_in_any_order(told: list[Improvement], order: object) -> None:
    at_once = improved(LOSS, NOTHING, told)
    shuffled = sorted(told, key=lambda _: order.random())  # type: ignore[attr-defined]
    one_by_one = NOTHING
    for one in (*shuffled, *told):
        one_by_one = improved(LOSS, one_by_one, [one])

    assert one_by_one == at_once
    assert improved(LOSS, at_once, told) is at_once
    for moment in range(10):
        known = [one.value for one in told if one.at_ms <= moment and math.isfinite(one.value)]
        shown = [one.value for one in at_once.points if one.at_ms <= moment]
        assert min(known, default=None) == (shown[-1] if shown else None)


@pytest.mark.parametrize("batch", [1, 7, 5000])
def test_of_very_many_improvements_those_that_show_are_kept(batch: int) -> None:
    # Falls by 1000 in its middle, and by a little at each other step.
    told = [at(n, (1000 if n < 2500 else 0) - n / 1000) for n in range(5000)]
    record = NOTHING
    for begin in range(0, len(told), batch):
        record = improved(LOSS, record, told[begin : begin + batch])

    assert (len(record.points), record.thinned) == (MOST, True)
    assert (record.points[0], record.points[-1]) == (told[0], told[-1])
    assert all(one.value > other.value for one, other in pairwise(record.points))
    for true in told:
        shown = next(one for one in reversed(record.points) if one.at_ms <= true.at_ms)
        assert 0 <= shown.value - true.value < 0.1
    # What is thinned stays so when less is told.
    assert improved(LOSS, record, [at(9999, -99)]).thinned


def test_of_a_sweep_that_an_earlier_release_began_the_best_of_each_trial_is_shown() -> None:
    trials = [
        Trial(number=1, values={}, best=0.2, best_ms=Millis(7)),
        Trial(number=2, values={}, best=0.4, best_ms=Millis(3)),
        Trial(number=3, values={}),
    ]
    record = with_bests(LOSS, NOTHING, trials)
    assert record == Improvements(points=(at(3, 0.4, 2), at(7, 0.2)), begun_late=True)
    # It is known from then on, and read again by the next one who leads.
    record = improved(LOSS, record, [at(9, 0.1, 3)])
    assert with_bests(LOSS, record, trials) is record
    assert with_bests(LOSS, improved(LOSS, NOTHING, [at(1, 1)]), trials[:1]).begun_late is False
