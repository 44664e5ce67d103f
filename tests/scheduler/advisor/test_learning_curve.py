"""A goal is reached where curves of other shapes say it is, eight times of ten."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.random import Generator

from gpucommons.scheduler.advisor.learning_curve import (
    Floats,
    fit,
    is_flat,
    reach,
    reached_at,
    rises_since,
)

STEPS = np.arange(1, 51.0)
#: No trend, and no two neighbours alike.
NOISE = 0.001 * (-1.0) ** STEPS
Shape = Callable[[Generator], Floats]


def hill(drawn: Generator) -> Floats:
    half, power = drawn.uniform(0.5, 20), drawn.uniform(0.7, 2)
    return drawn.uniform(0.6, 0.99) * STEPS**power / (half**power + STEPS**power)


def weibull(drawn: Generator) -> Floats:
    end = drawn.uniform(0.6, 0.99)
    part = (STEPS / drawn.uniform(2, 30)) ** drawn.uniform(0.4, 1.2)
    return end - (end - 0.1) * np.exp(-part)


def log_power(drawn: Generator) -> Floats:
    part = (STEPS / np.exp(drawn.uniform(0, 2))) ** -drawn.uniform(0.4, 1.2)
    return drawn.uniform(0.6, 0.99) / (1 + part)


def cases(shape: Shape, seen: int) -> list[tuple[bool, bool]]:
    """Of curves with noise: whether the goal lay in the range, and whether it came later."""
    found = []
    for seed in range(100, 130):
        drawn = np.random.default_rng(seed)
        true, noise = shape(drawn), drawn.uniform(0.001, 0.01)
        observed = true + drawn.normal(0, noise, len(STEPS))
        goal_at = int(drawn.integers(seen + 2, len(STEPS)))
        goal = true[goal_at - 1]
        fitted = fit(STEPS[:seen], observed[:seen])
        assert fitted is not None
        if goal - true[seen - 1] < noise:
            continue
        said = reach(fitted, goal)
        low, high = (float("inf") if one is None else one for one in (said.low, said.high))
        found.append((low <= goal_at <= high, goal_at > high))
    return found


def test_ranges_hold_for_curves_that_are_none_of_its_shapes() -> None:
    found = [
        one
        for shape in (hill, weibull, log_power)
        for seen in (20, 30)
        for one in cases(shape, seen)
    ]
    assert len(found) > 150
    assert 0.7 < sum(held for held, _ in found) / len(found) < 0.95
    assert sum(late for _, late in found) / len(found) < 0.2


def test_of_a_law_with_little_noise_the_step_is_known() -> None:
    fitted = fit(STEPS, 0.9 - 0.8 * STEPS**-0.5 + NOISE)
    assert fitted is not None
    found = reach(fitted, 0.9 - 0.8 * 100**-0.5)
    assert found.low is not None
    assert found.middle is not None
    assert found.high is not None
    assert found.middle == pytest.approx(100, rel=0.1)
    assert found.low <= found.middle <= found.high < 4 * found.low


def test_a_goal_beyond_where_it_levels_off_is_not_reached() -> None:
    values = 0.8 - 0.7 * np.exp(-STEPS / 5) + NOISE
    fitted = fit(STEPS, values)
    assert fitted is not None
    assert is_flat(fitted)
    found = reach(fitted, 0.95)
    assert (found.low, found.middle, found.high) == (None, None, None)
    assert found.share < 0.1


def test_a_loss_falls_to_its_goal_and_never_rises_to_one() -> None:
    fitted = fit(STEPS, 2.0 * STEPS**-0.4 + NOISE)
    assert fitted is not None
    assert not is_flat(fitted)
    assert reach(fitted, 0.3).middle is not None
    assert reach(fitted, 3.0).middle is None


@pytest.mark.parametrize(
    "values", [[], [0.5] * 5, [float("nan")] * 50], ids=["none", "few", "no numbers"]
)
def test_of_too_few_points_nothing_is_said(values: list[float]) -> None:
    assert fit(list(STEPS[: len(values)]), values) is None


def test_a_curve_that_stands_still_is_flat_and_reaches_nothing() -> None:
    fitted = fit(STEPS, [0.5] * len(STEPS))
    assert fitted is not None
    assert is_flat(fitted)
    assert reach(fitted, 0.6).share < 0.1


def test_a_validation_loss_that_rises_is_seen_and_noise_is_not() -> None:
    drawn = np.random.default_rng(1)
    train = 2.0 / STEPS
    noise = drawn.normal(0, 0.005, len(STEPS))
    rising = 0.5 + 0.0005 * (STEPS - 20) ** 2 + noise
    level = 0.5 + 1.0 / STEPS + noise
    lowest = rises_since(list(STEPS), list(train), list(rising))
    assert lowest is not None
    assert 12 <= lowest <= 28
    assert rises_since(list(STEPS), list(train), list(level)) is None


FALLING = 3.2 - 0.02 * STEPS
QUICK = np.where(STEPS < 4, 0.2 * STEPS, 0.9)


@pytest.mark.parametrize(
    ("values", "goal", "step"),
    [
        # A first point apart from the rest tells nothing, be the goal ahead or passed.
        ([0.05, *FALLING[1:]], 0.5, None),
        ([0.05, *FALLING[1:]], 3.0, 10),
        ([0.05, 3.2, 3.1], 0.5, None),
        # What rose within the first tenth came there, though all that follows lies beyond.
        (QUICK, 0.5, 3),
        (QUICK + NOISE, 0.5, 3),
        (QUICK + 0.001 * STEPS, 0.5, 3),
        (QUICK, 0.95, None),
        ([0.1, 0.4, 0.6, 0.8, 0.9], 0.3, 2),
        # Down and up again, by way of the goal.
        (0.5 + 0.001 * (STEPS - 20) ** 2, 0.6, 10),
        ([0.9], 0.8, None),
        ([], 0.8, None),
    ],
)
def test_a_goal_is_reached_in_the_direction_of_the_run(
    values: Sequence[float], goal: float, step: float | None
) -> None:
    assert reached_at([*STEPS[: len(values)]], values, goal) == step


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e200])
def test_what_is_no_number_is_left_out_of_a_fit(odd: float) -> None:
    values = [*(3 / STEPS)]
    values[20] = odd
    found = fit([*STEPS], values)
    assert found is not None
    assert found.now == pytest.approx(3 / 50, abs=0.02)
