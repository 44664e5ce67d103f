"""How far the GPUs of a node are from each other, and which of them belong together.

Work with several GPUs gets those whose farthest two are nearest to each other: linked by NVLink, else
behind one switch, else on one socket. Of sets that are equally near, the one that parts the fewest
near neighbours is taken, so that pairs and fours are left for others. Two GPUs of which nobody told
how they are linked are farthest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import NamedTuple

from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.devices.topology import FROM_NEAR_TO_FAR, DeviceLink

_OF_LINK = {kind: distance for distance, kind in enumerate(FROM_NEAR_TO_FAR)}
_UNKNOWN = len(_OF_LINK)
#: So many sets of devices are compared one by one: all sets on nodes of twelve devices.
_MOST_SETS = 1000

#: From each position on a node to each.
Distances = tuple[tuple[int, ...], ...]


class Nearness(NamedTuple):
    """How near some devices are to each other: less is nearer."""

    #: Of the two that are farthest from each other.
    farthest: int
    #: Of all pairs.
    total: int


def distances_of(devices: Sequence[Device], links: Sequence[DeviceLink]) -> Distances | None:
    """Distances on a node; None where nobody told any."""
    if not links or len(devices) < 2:  # noqa: PLR2004 - a pair
        return None
    position = {device.device_id: i for i, device in enumerate(devices)}
    rows = [[_UNKNOWN] * len(devices) for _ in devices]
    for link in links:
        one, other = position.get(link.first), position.get(link.second)
        if one is not None and other is not None:
            rows[one][other] = rows[other][one] = _OF_LINK[link.kind]
    return tuple(map(tuple, rows))


@lru_cache(maxsize=1 << 10)
def differ(distances: Distances | None) -> bool:
    """Whether it makes a difference which devices are taken together."""
    if distances is None:
        return False
    return len({distances[one][other] for one, other in combinations(range(len(distances)), 2)}) > 1


def nearness(distances: Distances | None, positions: Sequence[int]) -> Nearness:
    """How near the devices at these positions are to each other."""
    found = [
        _UNKNOWN if distances is None else distances[one][other]
        for one, other in combinations(positions, 2)
    ]
    return Nearness(max(found, default=0), sum(found))


def parted(
    distances: Distances | None, positions: Collection[int], free: Collection[int]
) -> tuple[int, ...]:
    """How many pairs of free neighbours these would part, the nearest sort first."""
    if distances is None:
        return (0,) * _UNKNOWN
    others = [one for one in free if one not in positions]
    found = [0] * _UNKNOWN
    for one in positions:
        row = distances[one]
        for other in others:
            if row[other] < _UNKNOWN:
                found[row[other]] += 1
    return tuple(found)


def nearest(
    distances: Distances, free: Collection[int], count: int, in_blocks: Mapping[int, int]
) -> tuple[int, ...]:
    """So many of the free devices: outside fixed blocks first, then those that are nearest."""
    return _nearest(distances, tuple(sorted((one, in_blocks.get(one, 0)) for one in free)), count)


@lru_cache(maxsize=1 << 14)
def _nearest(
    distances: Distances, free: tuple[tuple[int, int], ...], count: int
) -> tuple[int, ...]:
    blocks = dict(free)
    return min(
        _sets(distances, blocks, count),
        key=lambda chosen: (
            sum(blocks[one] for one in chosen),
            nearness(distances, chosen),
            parted(distances, chosen, blocks),
            chosen,
        ),
    )


def _sets(distances: Distances, blocks: Mapping[int, int], count: int) -> Iterator[tuple[int, ...]]:
    """All sets of so many devices; where they are too many, one grown around each device."""
    if comb(len(blocks), count) <= _MOST_SETS:
        yield from combinations(sorted(blocks), count)
        return
    for seed in blocks:
        yield _grown(distances, blocks, count, seed)


def _grown(
    distances: Distances, blocks: Mapping[int, int], count: int, seed: int
) -> tuple[int, ...]:
    chosen = [seed]
    left = set(blocks) - {seed}
    while len(chosen) < count:
        best = min(
            left,
            key=lambda one: (
                blocks[one],
                max(distances[one][other] for other in chosen),
                sum(distances[one][other] for other in chosen),
                one,
            ),
        )
        left.remove(best)
        chosen.append(best)
    return tuple(sorted(chosen))
