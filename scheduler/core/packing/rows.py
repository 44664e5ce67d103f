"""What is free on every node, as arrays: the mirror that scores are computed from.

A row stands for the devices of one kind on one node (a node with two kinds takes two rows). The
owner of the truth writes a row whenever it changes; readers look only at rows written since they
looked last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

#: Writes remembered beyond two for each row.
_REMEMBERED = 1000


class Rows:
    """Free milli-GPU per device, processor and memory of each row, and which rows changed."""

    def __init__(self, kinds: Sequence[str], devices: Sequence[int]) -> None:
        """Make a row for each node: its GPU kind and how many devices it has; nothing is free."""
        self.kind_names = tuple(sorted(set(kinds)))
        place = {name: i for i, name in enumerate(self.kind_names)}
        count = len(kinds)
        self.kind: Ints = np.array([place[kind] for kind in kinds], dtype=np.int64)
        #: Devices of each row; further columns of ``free`` stay at zero.
        self.devices: Ints = np.array(devices, dtype=np.int64).reshape(count)
        self._free: Ints = np.zeros((count, max(1, *devices, 1)), dtype=np.int64)
        self._cpu_milli: Ints = np.zeros(count, dtype=np.int64)
        self._memory_mib: Ints = np.zeros(count, dtype=np.int64)
        #: So many writes are in the arrays: a row may be written many times before they are asked.
        self._in_arrays = 0
        self.plain_kind: list[int] = self.kind.tolist()
        #: The same figures in plain Python (free, processor, memory), quicker one at a time.
        self.plain: list[tuple[list[int], int, int]] = [([0] * n, 0, 0) for n in devices]
        #: Writes so far; rows in the order of the last of them, and how many came before those.
        self.writes = 0
        self._written: list[int] = []
        self._forgotten = 0
        self._most_remembered = 2 * count + _REMEMBERED

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.kind)

    @property
    def free(self) -> Ints:
        """Free milli-GPU of each device."""
        self._bring_up()
        return self._free

    @property
    def cpu_milli(self) -> Ints:
        """Free processor."""
        self._bring_up()
        return self._cpu_milli

    @property
    def memory_mib(self) -> Ints:
        """Free memory."""
        self._bring_up()
        return self._memory_mib

    def _bring_up(self) -> None:
        if self._in_arrays == self.writes:
            return
        for row in self.changed_since(self._in_arrays):
            free, self._cpu_milli[row], self._memory_mib[row] = self.plain[row]
            self._free[row, : len(free)] = free
        self._in_arrays = self.writes

    def write(self, row: int, free: Sequence[int], cpu_milli: int, memory_mib: int) -> None:
        """Set what is free in a row."""
        self.plain[row] = (list(free), cpu_milli, memory_mib)
        self.writes += 1
        if len(self._written) >= self._most_remembered:
            self._forgotten += len(self._written)
            self._written.clear()
        self._written.append(row)

    def changed_since(self, writes: int) -> Sequence[int]:
        """Rows written since a reader had seen so many writes; all of them if that is long ago."""
        if writes < self._forgotten:
            return range(len(self))
        return sorted(set(self._written[writes - self._forgotten :]))
