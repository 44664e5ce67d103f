"""Which shares fill a device together, and what is free on a device is worth for them.

Shares of 810 and 470 never fill a device; 650 and 320 nearly do. Among all ways to fill devices,
the best mix for the learned demand is a linear programme whose columns are *patterns* (so many
shares of each size that fit one device together). Its prices say what a share of each size is
worth to a device; the best filling of free capacity at these prices is what that capacity is worth. A
share then belongs where it costs no more worth than its own: it follows a pattern of the best mix.

Solved by column generation (Gilmore and Gomory, 1961): prices, the best pattern at these prices,
one pivot, again. Plain Python floats and a fixed order: the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.packing.rows import Ints

#: Worth is counted in thousandths of a milli-GPU, so that prices stay whole numbers.
FINE = 1000

#: Sizes that are told apart; rarer ones count as the next larger of these.
MAX_SIZES = 32

#: Devices for the demand, as part of what would hold it without waste.
_SHORT = 63 / 64

#: Below this a gain or a pivot is rounding, not a figure.
_TINY = 1e-7

#: Pivots per size before the prices are taken as they are: they are near the best long before.
_PIVOTS_PER_SIZE = 40


def worth_of_capacity(shares: Mapping[int, int]) -> Ints:
    """Return the worth of 0, 1, … 1000 free milli-GPU of a device, in thousandths of a milli.

    ``shares`` counts the arrivals of each size that fits one device (1000 for a whole one). They
    have a few devices less than they would fill without waste, so that capacity is always short: what
    is not short has no price.
    """
    sizes, counts = _told_apart(shares)
    volume = sum(size * count for size, count in zip(sizes, counts, strict=True))
    if not volume:
        worth = np.zeros(WHOLE_MILLI_GPU + 1, dtype=np.int64)
        worth[-1] = WHOLE_MILLI_GPU * FINE
        return worth
    devices = volume / WHOLE_MILLI_GPU * _SHORT
    # Counted per arrival, for well-scaled figures whatever the size of the cluster.
    total = float(sum(counts))
    tableau = _Tableau(sizes, [count / total for count in counts], devices / total)
    for _ in range(_PIVOTS_PER_SIZE * len(sizes)):
        if not tableau.improve():
            break
    return best_filling(sizes, tableau.worths())


def _told_apart(shares: Mapping[int, int]) -> tuple[list[int], list[int]]:
    by_volume = sorted(shares, key=lambda size: (-size * shares[size], size))
    kept = sorted(size for size in by_volume[:MAX_SIZES] if shares[size] > 0)
    counts = dict.fromkeys(kept, 0)
    for size, count in shares.items():
        larger = next((one for one in kept if one >= size), None)
        if larger is not None:
            counts[larger] += count
    return kept, [counts[size] for size in kept]


def best_filling(sizes: Sequence[int], worths: Sequence[int]) -> Ints:
    """Return the highest worth that fits into 0, 1, … 1000 free milli-GPU."""
    best = np.zeros(WHOLE_MILLI_GPU + 1, dtype=np.int64)
    for size, worth in zip(sizes, worths, strict=True):
        if worth <= 0:
            continue
        # Any number of copies, by doubling: 1, then up to 3, then up to 7, …
        step, gain = size, worth
        while step <= WHOLE_MILLI_GPU:
            best[step:] = np.maximum(best[step:], best[:-step] + gain)
            step, gain = 2 * step, 2 * gain
    return np.maximum.accumulate(best)


def pattern_of(best: Ints, sizes: Sequence[int], worths: Sequence[int]) -> list[int]:
    """Return how many shares of each size make up the best filling of a whole device."""
    counts = [0] * len(sizes)
    capacity = int(np.searchsorted(best, best[-1]))
    while capacity > 0 and best[capacity] > 0:
        for i, (size, worth) in enumerate(zip(sizes, worths, strict=True)):
            if worth > 0 and size <= capacity and best[capacity - size] + worth == best[capacity]:
                counts[i] += 1
                capacity = int(np.searchsorted(best, best[capacity - size]))
                break
        else:
            break
    return counts


@dataclass(slots=True)
class _Tableau:
    """The revised simplex method: one row per size for its demand, one for the devices."""

    sizes: list[int]
    costs: list[float]
    inverse: list[list[float]]
    amounts: list[float]

    def __init__(self, sizes: list[int], demand: list[float], devices: float) -> None:
        rows = len(sizes) + 1
        self.sizes = sizes
        self.costs = [0.0] * rows
        self.inverse = [[float(i == j) for j in range(rows)] for i in range(rows)]
        self.amounts = [*demand, devices]

    def prices(self) -> list[float]:
        """What one more arrival of each size, and one more device, would be worth."""
        prices = [0.0] * len(self.costs)
        for cost, row in zip(self.costs, self.inverse, strict=True):
            if cost:
                prices = [price + cost * part for price, part in zip(prices, row, strict=True)]
        return prices

    def worths(self) -> list[int]:
        """What a share of each size is worth to a device: its milli-GPU less its price."""
        prices = self.prices()
        return [
            round(FINE * (size - max(0.0, price)))
            for size, price in zip(self.sizes, prices, strict=False)
        ]

    def improve(self) -> bool:
        """Bring in the best column; False when there is none that helps."""
        prices = self.prices()
        rows = len(prices)
        lowest = min(range(rows), key=prices.__getitem__)
        if prices[lowest] < -_TINY:
            return self._enter([float(i == lowest) for i in range(rows)], 0.0)
        worths = self.worths()
        pattern = pattern_of(best_filling(self.sizes, worths), self.sizes, worths)
        value = float(sum(n * size for n, size in zip(pattern, self.sizes, strict=True)))
        paid = prices[-1] + sum(n * price for n, price in zip(pattern, prices, strict=False))
        # A gain below what worths are rounded to is none.
        if value - paid <= sum(pattern) / FINE:
            return False
        return self._enter([*map(float, pattern), 1.0], value)

    def _enter(self, column: list[float], cost: float) -> bool:
        step = [
            sum(part * entry for part, entry in zip(row, column, strict=True) if entry)
            for row in self.inverse
        ]
        leaving = [i for i, part in enumerate(step) if part > _TINY]
        if not leaving:
            return False
        out = min(leaving, key=lambda i: (self.amounts[i] / step[i], i))
        pivot = step[out]
        self.inverse[out] = [part / pivot for part in self.inverse[out]]
        self.amounts[out] /= pivot
        for i, part in enumerate(step):
            if i == out or not part:
                continue
            self.inverse[i] = [
                old - part * new
                for old, new in zip(self.inverse[i], self.inverse[out], strict=True)
            ]
            self.amounts[i] = max(0.0, self.amounts[i] - part * self.amounts[out])
        self.costs[out] = cost
        return True
