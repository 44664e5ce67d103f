"""Scores after the fragmentation gradient: 0 to 100, in whole numbers, ties to the first row.

The coarse scale is part of the method: rows whose gradients hardly differ are equal, and then the
fixed order decides, which fills nodes one after the other. With finer scores, or with random ties,
the same gradient packs worse.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

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
        scores = np.full(len(which), NO_FIT, dtype=np.int64)
        devices = np.zeros(len(which), dtype=np.int64)
        fitting = fits(ask, rows, which).nonzero()[0]
        if not len(fitting):
            return scores, devices
        growth, free = self.growth(ask, rows, which[fitting])
        score = self.graded(growth)
        if ask.shared:
            score = np.where(free >= ask.milli, score, NO_FIT)
        device = score.argmax(axis=1)
        scores[fitting], devices[fitting] = score[np.arange(len(fitting)), device], device
        return scores, devices
