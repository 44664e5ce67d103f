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
        self.free: Ints = np.zeros((count, max(1, *devices, 1)), dtype=np.int64)
        self.cpu_milli: Ints = np.zeros(count, dtype=np.int64)
        self.memory_mib: Ints = np.zeros(count, dtype=np.int64)
        #: The same figures in plain Python (free, processor, memory), quicker one at a time.
        self.plain: list[tuple[list[int], int, int]] = [([0] * n, 0, 0) for n in devices]
        #: Writes so far, and for each row the number of its last one.
        self.writes = 0
        self._last_write: Ints = np.zeros(count, dtype=np.int64)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.kind)

    def write(self, row: int, free: Sequence[int], cpu_milli: int, memory_mib: int) -> None:
        """Set what is free in a row."""
        self.plain[row] = (list(free), cpu_milli, memory_mib)
        self.free[row, : len(free)] = free
        self.cpu_milli[row] = cpu_milli
        self.memory_mib[row] = memory_mib
        self.writes += 1
        self._last_write[row] = self.writes

    def changed_since(self, writes: int) -> Ints:
        """Rows written since a reader had seen so many writes, in order."""
        return np.flatnonzero(self._last_write > writes)
