"""Which trial of a sweep is the best: by the value that the sweep asks for, of equal ones the first.

What is not a number ranks last, whether the sweep maximizes or minimizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gpucommons.scheduler.sweeps.sweep import Sweep, Trial


def best_of(sweep: Sweep, trials: Iterable[Trial]) -> Trial | None:
    """The trial with the best value so far; of equal ones the first."""
    told = [one for one in trials if one.best is not None]
    if not told:
        return None
    return min(told, key=lambda one: rank_key(sweep, one.best or 0.0, one.number))


def is_better(sweep: Sweep, one: float, other: float | None) -> bool:
    """Whether a value beats another."""
    if other is None:
        return True
    return one > other if sweep.maximize else one < other


def rank_key(sweep: Sweep, value: float, number: int) -> tuple[float, int]:
    """By which values of numbered trials are sorted, the best first."""
    if not math.isfinite(value):
        return (math.inf, number)
    return (-value if sweep.maximize else value, number)
