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

from collections import Counter

import numpy as np

from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.board import NO_FIT
from gpucommons.scheduler.core.packing.gradient import Gradient, fits
from gpucommons.scheduler.core.packing.learning import Known, typical_of
from gpucommons.scheduler.core.packing.patterns import FINE, worth_of_room
from gpucommons.scheduler.core.packing.rows import Ints, Rows

#: Losses closer than a hundredth of a GPU are equal: what is learned is no more exact than that.
RESOLUTION = 10 * FINE

#: More than any loss, so that scores stay above NO_FIT.
_HIGH = 1 << 40

#: The gradient's scores lie below this.
_GRADES = 101


class Foresight:
    """Expected loss first, fragmentation gradient second."""

    def __init__(self, known: Known, rows: Rows) -> None:
        """Draw conclusions from known work and from the GPUs there are."""
        self._gradient = Gradient(typical_of(known), rows.kind_names)
        shares: Counter[int] = Counter()
        for ask, count in known:
            if ask.devices == 1:
                shares[ask.milli] += count
        self._room = worth_of_room(shares)
        self._claimed = claimed_part(known, rows)
        self._milli_gpu = sum(ask.milli_gpu * count for ask, count in known)
        self._cpu_milli = sum(ask.cpu_milli * count for ask, count in known if ask.devices)
        self._memory_mib = sum(ask.memory_mib * count for ask, count in known if ask.devices)
        self._own: dict[int, int] = {}

    def scores(self, ask: Ask, rows: Rows, which: Ints) -> tuple[Ints, Ints]:
        """Score these rows."""
        growth, free = self._gradient.growth(ask, rows, which)
        grade = self._gradient.graded(growth)
        cpu_milli, memory_mib = rows.cpu_milli[which], rows.memory_mib[which]
        idle = free.sum(axis=1)
        loss = FINE * (
            self._stranded(
                idle - ask.milli_gpu, cpu_milli - ask.cpu_milli, memory_mib - ask.memory_mib
            )
            - self._stranded(idle, cpu_milli, memory_mib)
        )
        if ask.devices:
            loss += ask.milli_gpu * self._claimed[rows.kind[which]]
        else:
            # Work without a GPU keeps away from nodes with GPUs where it can.
            loss += RESOLUTION * (rows.devices[which] > 0)
        total = loss[:, None]
        if ask.shared:
            left = np.maximum(free - ask.milli, 0)
            total = total + (self._room[free] - self._room[left] - self._own_worth(ask.milli))
        score = _HIGH - (total + RESOLUTION // 2) // RESOLUTION * _GRADES + grade
        if ask.shared:
            score = np.where(free >= ask.milli, score, NO_FIT)
        device = score.argmax(axis=1)
        best = score[np.arange(len(which)), device]
        return np.where(fits(ask, rows, which), best, NO_FIT), device

    def _stranded(self, idle: Ints, cpu_milli: Ints, memory_mib: Ints) -> Ints:
        """Idle milli-GPU beyond what processor and memory suffice for."""
        usable = idle
        if self._cpu_milli:
            usable = np.minimum(usable, cpu_milli * self._milli_gpu // self._cpu_milli)
        if self._memory_mib:
            usable = np.minimum(usable, memory_mib * self._milli_gpu // self._memory_mib)
        return idle - usable

    def _own_worth(self, milli: int) -> int:
        """What a share takes of a device at least: what it costs in the best pattern."""
        if milli not in self._own:
            self._own[milli] = int((self._room[milli:] - self._room[:-milli]).min())
        return self._own[milli]


def claimed_part(known: Known, rows: Rows) -> Ints:
    """Return the part of each kind, in thousandths, that work bound to some kinds will claim.

    Measured by one clusterful of known work; work bound to several kinds is spread over them.
    """
    names = rows.kind_names
    installed = [int(rows.devices[rows.kind == kind].sum()) for kind in range(len(names))]
    everything = sum(installed)
    volume = sum(ask.milli_gpu * count for ask, count in known)
    claims = [0] * len(names)
    for ask, count in known:
        accepted = [kind for kind, name in enumerate(names) if ask.accepts(name)]
        devices = sum(installed[kind] for kind in accepted)
        if not ask.kinds or not devices or not volume:
            continue
        for kind in accepted:
            claims[kind] += FINE * ask.milli_gpu * count * everything // (volume * devices)
    return np.minimum(np.array(claims, dtype=np.int64), FINE)
