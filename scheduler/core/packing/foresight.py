"""The policy of this scheduler: a place costs the milli-GPU that later work is expected to lose.

The fragmentation gradient looks one step ahead: which typical work would fit next. Three losses
show only later, when a node has filled up, and each can be told from the learned demand:

* **pattern**: the rest of a device that no mix of shares to come fills (:mod:`patterns`);
* **stranded**: free GPUs of a node whose processors or memory, at the learned demand's ratio, run
  out first;
* **displaced**: work that could run elsewhere takes a scarce kind from work that can't: the part of
  that kind that such work claims.

All are milli-GPU, so they add up; the place with the smallest sum is taken. Where it is equal the
gradient decides, then the first row.
"""

from __future__ import annotations

import numpy as np

from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.gradient import Gradient, fits
from gpucommons.scheduler.core.packing.learning import Known, typical_of
from gpucommons.scheduler.core.packing.one_by_one import GRADES, HIGH, RESOLUTION, OneByOne, steps
from gpucommons.scheduler.core.packing.outlook import Outlook
from gpucommons.scheduler.core.packing.patterns import FINE
from gpucommons.scheduler.core.packing.rows import Ints, Rows
from gpucommons.scheduler.core.packing.score_board import NO_FIT


class Foresight:
    """Expected loss first, fragmentation gradient second."""

    def __init__(self, known: Known, rows: Rows) -> None:
        """Draw conclusions from known work and from the GPUs there are."""
        self._gradient = Gradient(typical_of(known), rows.kind_names)
        self._outlook = Outlook(known, rows)
        #: Scores a single row, to the same figures.
        self.one_by_one = OneByOne(self._gradient, self._outlook)

    def scores(self, ask: Ask, rows: Rows, which: Ints) -> tuple[Ints, Ints]:
        """Score these rows."""
        scores = np.full(len(which), NO_FIT, dtype=np.int64)
        devices = np.zeros(len(which), dtype=np.int64)
        fitting = fits(ask, rows, which).nonzero()[0]
        if len(fitting):
            scores[fitting], devices[fitting] = self._score_fitting(ask, rows, which[fitting])
        return scores, devices

    def _score_fitting(self, ask: Ask, rows: Rows, which: Ints) -> tuple[Ints, Ints]:
        growth, free = self._gradient.growth(ask, rows, which)
        grade = self._gradient.graded(growth)
        cpu_milli, memory_mib = rows.cpu_milli[which], rows.memory_mib[which]
        idle = free.sum(axis=1)
        loss = FINE * (
            self._outlook.stranded(
                idle - ask.milli_gpu, cpu_milli - ask.cpu_milli, memory_mib - ask.memory_mib
            )
            - self._outlook.stranded(idle, cpu_milli, memory_mib)
        )
        if ask.devices:
            loss += ask.milli_gpu * self._outlook.claimed[rows.kind[which]]
        else:
            # Work without a GPU keeps away from nodes with GPUs where it can.
            loss += RESOLUTION * (rows.devices[which] > 0)
        if not ask.shared:
            return HIGH - steps(loss) * GRADES + grade[:, 0], np.zeros_like(which)
        left = np.maximum(free - ask.milli, 0)
        pattern = (
            self._outlook.capacity[free]
            - self._outlook.capacity[left]
            - self._outlook.own_worth(ask.milli)
        )
        score = HIGH - steps(loss[:, None] + pattern) * GRADES + grade
        score = np.where(free >= ask.milli, score, NO_FIT)
        device = score.argmax(axis=1)
        return score[np.arange(len(which)), device], device
