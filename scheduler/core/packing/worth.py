"""How useful free GPUs are to typical work, in whole numbers: the fragmentation gradient.

After Weng et al., "Beware of Fragmentation" (USENIX ATC 2023): the fragmentation of a node is the
free GPU that typical work could not use, averaged over typical work; a worker goes where that
grows least. Here the other side is counted, the *usable* milli-GPU, weighted by how often each
shape comes: fragmentation is free times total weight minus usable.

Usable milli-GPU of a node is a sum over its devices plus a term for its wholly free ones, so it
is read from tables: by kind, by how many of the typical processor and memory demands still fit,
and by what is free of the device. Cost does not depend on the number of typical shapes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.rows import Ints, Rows

#: Tables tell apart at most so many levels of processor demand, of memory demand and of share
#: sizes; a demand in between counts as the next higher level. Keeps them to a few MiB.
CPU_LEVELS = 64
MEMORY_LEVELS = 16
SIZE_LEVELS = 32


def levels_of(values: Sequence[int], most: int) -> Ints:
    """Return the demands that tables tell apart, smallest first."""
    distinct = np.array(sorted({v for v in values if v > 0}), dtype=np.int64)
    if len(distinct) > most:
        distinct = distinct[np.linspace(0, len(distinct) - 1, most).round().astype(np.int64)]
    return distinct


class Place(NamedTuple):
    """The tables for one kind and one level of processor and memory, in plain Python."""

    single: list[int]
    groups: list[int]


class Worth:
    """Tables of usable milli-GPU for one set of typical work and one list of GPU kinds."""

    def __init__(self, typical: Sequence[tuple[Ask, int]], kind_names: Sequence[str]) -> None:
        """Build the tables."""
        self.total_weight = sum(weight for _, weight in typical)
        wanting = [(ask, weight) for ask, weight in typical if ask.devices]
        self._cpu = levels_of([ask.cpu_milli for ask, _ in wanting], CPU_LEVELS)
        self._memory = levels_of([ask.memory_mib for ask, _ in wanting], MEMORY_LEVELS)
        sizes = levels_of([ask.milli for ask, _ in wanting if ask.devices == 1], SIZE_LEVELS)
        #: For each milli-GPU free of a device: how many of the sizes fit.
        self._reached = np.searchsorted(sizes, np.arange(WHOLE_MILLI_GPU + 1), side="right")
        most = max((ask.devices for ask, _ in wanting), default=1)
        head = (len(kind_names), len(self._cpu) + 1, len(self._memory) + 1)
        single = np.zeros((*head, len(sizes) + 1), dtype=np.int64)
        groups = np.zeros((*head, most + 1), dtype=np.int64)
        for ask, weight in wanting:
            cpu = int(np.searchsorted(self._cpu, ask.cpu_milli))
            memory = int(np.searchsorted(self._memory, ask.memory_mib))
            cpu += ask.cpu_milli > 0
            memory += ask.memory_mib > 0
            for kind, name in enumerate(kind_names):
                if not ask.accepts(name):
                    continue
                if ask.devices == 1:
                    reached = int(np.searchsorted(sizes, ask.milli)) + 1
                    single[kind, cpu:, memory:, reached:] += weight
                else:
                    groups[kind, cpu:, memory:, ask.devices :] += weight
        self._most = most
        self._steps = (head[1] * head[2], head[2])
        self._single = single.reshape(-1, single.shape[-1])
        self._groups = groups.reshape(-1, groups.shape[-1]) * WHOLE_MILLI_GPU
        self._plain: dict[int, Place] = {}
        self._plain_levels = (self._cpu.tolist(), self._memory.tolist())
        #: As ``_reached``, in plain Python.
        self.reached: list[int] = self._reached.tolist()

    def _place(self, kind: Ints, cpu_milli: Ints, memory_mib: Ints) -> Ints:
        cpu = np.searchsorted(self._cpu, cpu_milli, side="right")
        memory = np.searchsorted(self._memory, memory_mib, side="right")
        return kind * self._steps[0] + cpu * self._steps[1] + memory

    def at(self, kind: int, cpu_milli: int, memory_mib: int) -> Place:
        """Return the tables for one row."""
        cpu, memory = self._plain_levels
        index = kind * self._steps[0] + bisect_right(cpu, cpu_milli) * self._steps[1]
        index += bisect_right(memory, memory_mib)
        place = self._plain.get(index)
        if place is None:
            place = Place(self._single[index].tolist(), self._groups[index].tolist())
            self._plain[index] = place
        return place

    def of_row(self, place: Place, free: Sequence[int]) -> int:
        """Weighted usable milli-GPU of one row."""
        single, reached = place.single, self.reached
        total = sum([left * single[reached[left]] for left in free if left])
        return total + self.of_group(place, free.count(WHOLE_MILLI_GPU))

    def of_group(self, place: Place, whole: int) -> int:
        """Weighted usable milli-GPU of so many wholly free devices together."""
        return whole * place.groups[min(whole, self._most)]

    def _of_devices(self, place: Ints, free: Ints) -> Ints:
        """Weighted usable milli-GPU of each device alone."""
        each: Ints = free * self._single[place[:, None], self._reached[free]]
        return each

    def _of_groups(self, place: Ints, whole: Ints) -> Ints:
        """Weighted usable milli-GPU for work that wants several whole devices."""
        together: Ints = whole * self._groups[place, np.minimum(whole, self._most)]
        return together

    def usable(self, rows: Rows, which: Ints) -> Ints:
        """Weighted usable milli-GPU of these rows."""
        place = self._place(rows.kind[which], rows.cpu_milli[which], rows.memory_mib[which])
        free = rows.free[which]
        whole = (free == WHOLE_MILLI_GPU).sum(axis=1)
        usable: Ints = self._of_devices(place, free).sum(axis=1) + self._of_groups(place, whole)
        return usable

    def growth(self, ask: Ask, rows: Rows, which: Ints) -> tuple[Ints, Ints]:
        """Return by how much fragmentation grows were the ask placed there, and what is free there now.

        Both are milli-GPU with one line for each of the ``which`` rows. The growth has a column per
        device for a share of one, else one column; it means nothing where the ask does not fit. What
        is free has a column per device.
        """
        place = self._place(
            rows.kind[which],
            rows.cpu_milli[which] - ask.cpu_milli,
            rows.memory_mib[which] - ask.memory_mib,
        )
        free = rows.free[which]
        whole = (free == WHOLE_MILLI_GPU).sum(axis=1)
        each = self._of_devices(place, free)
        spent = ask.milli_gpu * self.total_weight
        before = self.usable(rows, which) - spent
        if not ask.shared:
            left = np.maximum(whole - ask.devices, 0)
            full = np.full_like(place, WHOLE_MILLI_GPU)
            taken = ask.devices * self._of_devices(place, full[:, None])[:, 0]
            after = each.sum(axis=1) - taken + self._of_groups(place, left)
            return (before - after)[:, None], free
        less = np.maximum(free - ask.milli, 0)
        broken = (free == WHOLE_MILLI_GPU).astype(np.int64)
        after = (
            each.sum(axis=1)[:, None]
            - each
            + self._of_devices(place, less)
            + np.where(
                broken,
                self._of_groups(place, np.maximum(whole - 1, 0))[:, None],
                self._of_groups(place, whole)[:, None],
            )
        )
        return before[:, None] - after, free
