"""A few futures instead of one: in each, everything that runs ends at a different quantile.

Chance has no place here: the quantiles are spread evenly over the futures and dealt out by the
workload's id (a Latin hypercube), so the same cluster has the same futures on every machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

#: A prime, so that every deal below is a different order of all quantiles.
FUTURES = 11


def share(name: str, future: int, futures: int = FUTURES) -> float:
    """Which quantile of its run a workload gets in a future: each one in exactly one of them."""
    seed = zlib.crc32(name.encode())
    stride, first = 1 + seed % (futures - 1), (seed // futures) % futures
    return ((first + stride * future) % futures + 0.5) / futures


def shared(name: str, group: str, future: int, futures: int = FUTURES) -> float:
    """A quantile that is half the group's and half its own.

    A user's batch is long or short together, but not every run of it: dealt alone, many runs would
    average out in every future and windows be too narrow; dealt as one, they would be too wide.
    Ranks of the sums give everybody each quantile once, as :func:`share` does.
    """
    own = [share(name, number, futures) for number in range(futures)]
    both = [(share(group, number, futures) + own[number], own[number]) for number in range(futures)]
    return (sorted(both).index(both[future]) + 0.5) / futures


def quantile(values: Sequence[int | None], part: float) -> int | None:
    """The value that ``part`` of the futures do not pass; None = not in sight there.

    ``values`` are one per future, None where it does not happen in sight. The first and last of n
    futures stand for the quantiles ½/n and 1 - ½/n.
    """
    seen = sorted(value for value in values if value is not None)
    at = part * len(values) - 0.5
    low = min(max(int(at), 0), len(values) - 1)
    high = min(low + 1, len(values) - 1) if at > low else low
    if high >= len(seen):
        return None
    return round(seen[low] + (seen[high] - seen[low]) * max(0.0, at - low))
