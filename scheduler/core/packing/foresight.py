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
from gpucommons.scheduler.core.packing.gradient import Gradient, best_of_each
from gpucommons.scheduler.core.packing.learning import Known, typical_of
from gpucommons.scheduler.core.packing.one_by_one import GRADES, HIGH, RESOLUTION, OneByOne, steps
from gpucommons.scheduler.core.packing.outlook import Outlook
from gpucommons.scheduler.core.packing.patterns import FINE
from gpucommons.scheduler.core.packing.rows import Ints, Rows


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
        return best_of_each(ask, rows, which, self._score)

    def _score(self, ask: Ask, rows: Rows, which: Ints) -> tuple[Ints, Ints]:
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
        loss = loss[:, None]
        if ask.shared:
            capacity = self._outlook.capacity
            pattern = capacity[free] - capacity[np.maximum(free - ask.milli, 0)]
            loss = loss + pattern - self._outlook.own_worth(ask.milli)
        return HIGH - steps(loss) * GRADES + grade, free
