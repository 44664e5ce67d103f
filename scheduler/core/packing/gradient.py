"""Scores after the fragmentation gradient: 0 to 100, in whole numbers, ties to the first row.

The coarse scale is part of the method: rows whose gradients hardly differ are equal, and then the
fixed order decides, which fills nodes one after the other. With finer scores, or with random ties,
the same gradient packs worse.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.rows import Ints, Rows
from gpucommons.scheduler.core.packing.score_board import NO_FIT
from gpucommons.scheduler.core.packing.worth import Worth

#: Growth in milli-GPU at which the score reaches 1, 2, … 99: the logistic curve, as whole numbers,
#: so that no floating-point function decides where work goes.
_STEPS = np.array(
    [math.ceil(1000 * math.log(score / (100 - score))) for score in range(1, 100)], dtype=np.int64
)


def fits(ask: Ask, rows: Rows, which: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """On which of these rows the ask fits."""
    capacity = (rows.cpu_milli[which] >= ask.cpu_milli) & (rows.memory_mib[which] >= ask.memory_mib)
    if ask.devices:
        capacity &= (rows.free[which] >= ask.milli).sum(axis=1) >= ask.devices
        if ask.kinds:
            accepted = np.array([ask.accepts(name) for name in rows.kind_names])
            capacity &= accepted[rows.kind[which]]
    return capacity


def best_of_each(
    ask: Ask, rows: Rows, which: Ints, score: Callable[[Ask, Rows, Ints], tuple[Ints, Ints]]
) -> tuple[Ints, Ints]:
    """The best score of each of these rows, and its device; ``score`` looks at those that fit.

    It gives a column per device for a share, else one column, and what is free of each device.
    """
    scores = np.full(len(which), NO_FIT, dtype=np.int64)
    devices = np.zeros(len(which), dtype=np.int64)
    fitting = fits(ask, rows, which).nonzero()[0]
    if len(fitting):
        found, free = score(ask, rows, which[fitting])
        if ask.shared:
            found = np.where(free >= ask.milli, found, NO_FIT)
        device = found.argmax(axis=1)
        scores[fitting], devices[fitting] = found[np.arange(len(fitting)), device], device
    return scores, devices


class Gradient:
    """The fragmentation gradient for one set of typical work."""

    def __init__(self, typical: Sequence[tuple[Ask, int]], kind_names: Sequence[str]) -> None:
        """Prepare the tables."""
        self.one_by_one = None
        self.worth = Worth(typical, kind_names)
        self._steps = _STEPS * max(1, self.worth.total_weight)
        self._plain_steps = self._steps.tolist()

    def growth(self, ask: Ask, rows: Rows, which: Ints) -> tuple[Ints, Ints]:
        """Growth of fragmentation per row and device, and what is free of each device."""
        return self.worth.growth(ask, rows, which)

    def graded(self, growth: Ints) -> Ints:
        """Return the score for a growth."""
        return np.searchsorted(self._steps, -growth, side="right")

    def grade(self, growth: int) -> int:
        """Return the score for one growth."""
        return bisect_right(self._plain_steps, -growth)

    def scores(self, ask: Ask, rows: Rows, which: Ints) -> tuple[Ints, Ints]:
        """Score these rows."""
        return best_of_each(ask, rows, which, self._score)

    def _score(self, ask: Ask, rows: Rows, which: Ints) -> tuple[Ints, Ints]:
        growth, free = self.growth(ask, rows, which)
        return self.graded(growth), free
