"""When a metric likely reaches a goal, from the curve so far; and whether going on is worth it.

Two shapes that learning curves are described by, a power law and an exponential, ``y = a + c·x^-b`` and
``y = a + c·exp(-kx)`` (pow3 and exp3 of Domhan et al., *Speeding up automatic hyperparameter optimization
by extrapolation of learning curves*, IJCAI 2015), each with many exponents. Given its exponent a shape is
linear, so each is fitted by least squares; shapes count by how well they fit, as there. Points of one
curve are not independent: what each says beyond the one before is what is counted (effective sample size
of an AR(1) series). Ranges come from all shapes and what each leaves open, so they are wide where the
points do not tell them apart. No further than ten times the steps so far is looked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile
from statistics import NormalDist, median

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Fewer say nothing of a shape with three numbers.
LEAST_POINTS = 12
#: No further than so many times the steps so far.
FURTHEST = 10.0
#: What happens in the first part of a run (warm-up, a falling start) is no part of its law.
_LEFT_OUT = 0.1
#: Beyond it, squares of many come near the end of what a float holds.
_LARGEST = 1e100
#: So many at least tell where a curve comes from.
_FIRST_POINTS = 3
#: More are averaged, block by block.
_MOST_POINTS = 300
_POWERS = np.geomspace(0.1, 3.0, 14)
_RATES = np.geomspace(0.5, 20.0, 14)
#: Of each number that a fit leaves open, so many values, each as likely as the next.
_DRAWS = 9
_LOW, _HIGH = 0.1, 0.9
#: No shape is the truth: how well they fit counts for this part only, or ranges come out half as wide as
#: they should be (Grünwald and van Ommen, *Inconsistency of Bayesian inference for misspecified linear
#: models*, 2017). By curves of other shapes than these, a round number.
_TEMPER = 0.25
#: A curve that likely gains less than this part of all it gained, in as many steps again, is flat.
_FLAT = 0.01
#: A validation loss that rose for so much of the run.
_RISEN_FOR = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """At which step a goal is likely reached, in eight of ten cases between the first and the last."""

    #: None = not within ten times the steps so far.
    low: float | None
    middle: float | None
    high: float | None
    #: In so many cases it is within that.
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """All shapes of one curve, and how much each counts."""

    last: float
    now: float
    #: All that it moved since the first point that counts.
    moved: float
    #: How far points lie from the best shape.
    noise: float
    #: Per case: the two numbers of its line, its shape and exponent, its weight.
    ends: Floats
    slopes: Floats
    exponents: Floats
    is_power: NDArray[np.bool_]
    weights: Floats

    def at(self, step: float) -> Floats:
        """The value of each case there."""
        return self.ends + self.slopes * self._shape(np.full_like(self.ends, step / self.last))

    def _shape(self, part: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.where(self.is_power, part**-self.exponents, np.exp(-self.exponents * part))


def is_number(value: float) -> bool:
    """Neither NaN nor infinite, and its square is none of them either."""
    return abs(value) < _LARGEST


def fit(steps: Sequence[float], values: Sequence[float]) -> Fit | None:
    """All shapes; None where the points are too few to tell anything.

    ``steps`` ascend from above 0; points that are no numbers are left out.
    """
    pairs = [(x, y) for x, y in zip(steps, values, strict=True) if x > 0 and is_number(y)]
    if not pairs:
        return None
    last = pairs[-1][0]
    kept = [one for one in pairs if one[0] >= _LEFT_OUT * last]
    if len(kept) < LEAST_POINTS:
        return None
    x, y = _averaged(np.array(kept, dtype=float))
    part = x / last
    columns = [part**-power for power in _POWERS] + [np.exp(-rate * part) for rate in _RATES]
    lines = [_line(column, y) for column in columns]
    best = min(lines, key=lambda line: line.squares)
    count = _apart(best.left, len(y))
    return _weighed(lines, count, last=last, y=y, best=best)


def reach(fitted: Fit, goal: float) -> Reach:
    """When the goal is reached, from where the curve is now."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = (goal - fitted.ends) / fitted.slopes
        by_power = share ** (-1 / fitted.exponents)
        by_rate = -np.log(share) / fitted.exponents
    part = np.where(fitted.is_power, by_power, by_rate)
    rises = goal > fitted.now
    # Who goes the other way, or levels off before, never comes there.
    comes = (share > 0) & ((fitted.slopes < 0) == rises) & np.isfinite(part)
    part = np.where(comes, np.maximum(part, 1.0), np.inf)
    inside = float(fitted.weights[part <= FURTHEST].sum())
    low, middle, high = (_quantile(part, fitted.weights, q) for q in (_LOW, 0.5, _HIGH))
    known = [None if one > FURTHEST else one * fitted.last for one in (low, middle, high)]
    return Reach(low=known[0], middle=known[1], high=known[2], share=inside)


def reached_at(steps: Sequence[float], values: Sequence[float], goal: float) -> float | None:
    """The step at which a curve first came to a goal; None where it has not.

    Which way it goes there is told by the first points after the first tenth of the run: a first
    point that lies apart from the rest (a loss before anything is averaged) tells nothing. A curve
    that lay beyond the goal by then, and does not come back to it, passed it in the first tenth.
    """
    kept = [one for one in zip(steps, values, strict=True) if one[0] >= _LEFT_OUT * steps[-1]]
    if not kept:
        return None
    some = max(_FIRST_POINTS, round(_LEFT_OUT * len(kept)))
    rises = goal > median(value for _, value in kept[:some])
    after = dropwhile(lambda one: _is_there(one[1], goal, rises=rises), kept)
    there = next((step for step, value in after if _is_there(value, goal, rises=rises)), None)
    if there is not None or _comes_nearer([value for _, value in kept[1:]], goal):
        return there
    rises = goal > values[0]
    every = zip(steps, values, strict=True)
    return next((step for step, value in every if _is_there(value, goal, rises=rises)), None)


def _is_there(value: float, goal: float, *, rises: bool) -> bool:
    return value >= goal if rises else value <= goal


def _comes_nearer(values: Sequence[float], goal: float) -> bool:
    """By more than chance where that can be told; also where too few points tell anything."""
    half = len(values) // 2
    if half == 0:
        return True
    first, last = (abs(goal - float(np.mean(part))) for part in (values[:half], values[half:]))
    if len(values) < LEAST_POINTS:
        return last < first
    noise = float(np.std(np.diff(values))) / math.sqrt(2)
    return first - last > 2 * noise * math.sqrt(2 / half)


def is_flat(fitted: Fit) -> bool:
    """As many steps again likely bring next to nothing of what the run brought so far."""
    gain = abs(_quantile(fitted.at(2 * fitted.last), fitted.weights, 0.5) - fitted.now)
    return gain < max(_FLAT * fitted.moved, 0.1 * fitted.noise)


def rises_since(
    steps: Sequence[float], train: Sequence[float], validation: Sequence[float]
) -> float | None:
    """The step of the lowest validation loss, where it has risen since and training's has fallen."""
    if len(steps) < LEAST_POINTS:
        return None
    held = np.array(validation, dtype=float)
    lowest = int(np.argmin(held))
    after = len(held) - lowest - 1
    if steps[-1] - steps[lowest] < _RISEN_FOR * steps[-1] or after < LEAST_POINTS // 3:
        return None
    # Neighbours tell how much a point is off by chance.
    noise = float(np.std(np.diff(held))) / math.sqrt(2)
    tail = slice(lowest + 1 + after // 2, None)
    risen = float(np.mean(held[tail])) - float(held[lowest]) > 3 * noise
    fallen = float(np.mean(train[tail])) < train[lowest]
    return steps[lowest] if risen and fallen else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """One shape with its exponent, fitted."""

    end: float
    slope: float
    squares: float
    left: Floats
    #: Inverse of the normal matrix: times a variance, what is open of end and slope.
    open: Floats


def _line(column: Floats, y: Floats) -> _Line:
    matrix = np.stack([np.ones_like(column), column], axis=1)
    inverse = np.linalg.pinv(matrix.T @ matrix)
    end, slope = inverse @ matrix.T @ y
    left = y - matrix @ np.array([end, slope])
    squares = float(left @ left)
    return _Line(end=float(end), slope=float(slope), squares=squares, left=left, open=inverse)


def _weighed(lines: Sequence[_Line], count: float, *, last: float, y: Floats, best: _Line) -> Fit:
    least = max(best.squares, 1e-12 * float(y @ y), 1e-300)
    weights = np.array(
        [(max(one.squares, least) / least) ** (-_TEMPER * count / 2) for one in lines]
    )
    quantiles = [NormalDist().inv_cdf((draw + 0.5) / _DRAWS) for draw in range(_DRAWS)]
    draws = np.array([(one, two) for one in quantiles for two in quantiles])
    variance = least / max(count - 3.0, 1.0)  # of points apart from each other, three are spent
    scale = variance * len(y) / count
    cases = [np.array([one.end, one.slope]) + draws @ _root(scale * one.open) for one in lines]
    drawn, shapes = len(draws), len(lines)
    both = np.concatenate(cases)
    spread = np.repeat(weights / weights.sum(), drawn) / drawn
    is_power = np.repeat(np.arange(shapes) < len(_POWERS), drawn)
    exponents = np.repeat(np.concatenate([_POWERS, _RATES]), drawn)
    made = Fit(
        last=last,
        now=0.0,
        moved=0.0,
        noise=math.sqrt(least / len(y)),
        ends=both[:, 0],
        slopes=both[:, 1],
        exponents=exponents,
        is_power=is_power,
        weights=spread,
    )
    now, first = (_quantile(made.at(part * last), spread, 0.5) for part in (1.0, _LEFT_OUT))
    return Fit(
        last=last,
        now=now,
        moved=abs(now - first),
        noise=made.noise,
        ends=made.ends,
        slopes=made.slopes,
        exponents=exponents,
        is_power=is_power,
        weights=spread,
    )


def _root(matrix: Floats) -> Floats:
    """Of a symmetric matrix: ``draws @ root`` have it as their covariance."""
    values, vectors = np.linalg.eigh(matrix)
    found: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return found


def _averaged(points: Floats) -> tuple[Floats, Floats]:
    blocks = np.array_split(points, min(len(points), _MOST_POINTS))
    means = np.array([block.mean(axis=0) for block in blocks])
    return means[:, 0], means[:, 1]


def _apart(left: Floats, count: int) -> float:
    """As how many independent points they count (Bartlett: an AR(1) series)."""
    total = float(left @ left)
    alike = float(left[1:] @ left[:-1]) / total if total > 0 else 0.0
    alike = min(max(alike, 0.0), 0.99)
    return max(count * (1 - alike) / (1 + alike), 4.0)


def _quantile(values: Floats, weights: Floats, part: float) -> float:
    order = np.argsort(values)
    passed = np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(passed, part)), len(values) - 1)])
