"""What the learned demand says about the time when nodes have filled up.

Three figures per place that the fragmentation gradient, which looks one step ahead, can't see: what
capacity on a device is worth, how many GPUs processor and memory suffice for, and which part of a kind
is claimed by work that can go nowhere else.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

import numpy as np

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.learning import Known
from gpucommons.scheduler.core.packing.patterns import FINE, worth_of_capacity
from gpucommons.scheduler.core.packing.rows import Ints, Rows

#: Of one row, or of many.
Amount = TypeVar("Amount", int, Ints)


class Outlook:
    """Conclusions from known work and from the GPUs there are; a value."""

    def __init__(self, known: Known, rows: Rows) -> None:
        """Draw them."""
        shares: Counter[int] = Counter()
        for ask, count in known:
            if ask.devices == 1:
                shares[ask.milli] += count
        #: Worth of 0 to 1000 free milli-GPU of a device, in thousandths of a milli.
        self.capacity: Ints = worth_of_capacity(shares)
        self.capacity_plain: list[int] = self.capacity.tolist()
        #: Part of each kind that work bound to it claims, in thousandths.
        self.claimed: Ints = claimed_part(known, rows)
        self.claimed_plain: list[int] = self.claimed.tolist()
        wanting = [(ask, count) for ask, count in known if ask.devices]
        self._milli_gpu = sum(ask.milli_gpu * count for ask, count in wanting)
        # No processor (or memory) asked for at all: one unit in all, so that it never runs out.
        self._cpu_milli = max(1, sum(ask.cpu_milli * count for ask, count in wanting))
        self._memory_mib = max(1, sum(ask.memory_mib * count for ask, count in wanting))
        self._own: dict[int, int] = {}

    def stranded(self, idle: Ints, cpu_milli: Ints, memory_mib: Ints) -> Ints:
        """Idle milli-GPU beyond what processor and memory suffice for, at the known ratio."""
        usable: Ints = np.minimum(np.minimum(*self._suffice_for(cpu_milli, memory_mib)), idle)
        return idle - usable

    def stranded_one(self, idle: int, cpu_milli: int, memory_mib: int) -> int:
        """As above for one row."""
        return idle - min(*self._suffice_for(cpu_milli, memory_mib), idle)

    def _suffice_for(self, cpu_milli: Amount, memory_mib: Amount) -> tuple[Amount, Amount]:
        """For how many milli-GPU so much processor, and so much memory, is enough."""
        return (
            cpu_milli * self._milli_gpu // self._cpu_milli,
            memory_mib * self._milli_gpu // self._memory_mib,
        )

    def own_worth(self, milli: int) -> int:
        """What a share takes of a device at least: what it costs in the best pattern."""
        if milli not in self._own:
            self._own[milli] = int((self.capacity[milli:] - self.capacity[:-milli]).min())
        return self._own[milli]


def claimed_part(known: Known, rows: Rows) -> Ints:
    """Return the part of each kind, in thousandths, that work bound to some kinds will claim.

    Measured by one clusterful of known work; work bound to several kinds is spread over them. Where
    there is bound work at all, each kind counts one more arrival that takes a whole node of it: a
    kind that nobody has asked for *yet* is not free for all, least of all a rare one.
    """
    names = rows.kind_names
    installed = [int(rows.devices[rows.kind == kind].sum()) for kind in range(len(names))]
    bound = [(ask, count) for ask, count in known if ask.devices and ask.kinds]
    if bound:
        sizes = [int(rows.devices[rows.kind == kind].max(initial=0)) for kind in range(len(names))]
        bound += [
            (Ask(size, WHOLE_MILLI_GPU, 0, 0, (name,)), 1)
            for size, name in zip(sizes, names, strict=True)
        ]
    volume = sum(ask.milli_gpu * count for ask, count in known)
    claims = [0] * len(names)
    for ask, count in bound:
        accepted = [kind for kind, name in enumerate(names) if ask.accepts(name)]
        devices = sum(installed[kind] for kind in accepted)
        for kind in accepted if devices else ():
            claims[kind] += FINE * ask.milli_gpu * count * sum(installed) // (volume * devices)
    return np.minimum(np.array(claims, dtype=np.int64), FINE)
