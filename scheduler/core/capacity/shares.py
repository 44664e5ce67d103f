"""Counting shares: how many of one size fit into the free bits of a device."""

from __future__ import annotations

from collections.abc import Iterator

from gpucommons.scheduler.core.capacity.placement_slots import lowest, starts
from gpucommons.scheduler.core.model.demand import is_block_size


def bits_of(mask: int) -> Iterator[int]:
    """Positions of the set bits."""
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit


def shares_in(free: int, milli_gpu: int) -> int:
    """How many shares of one size fit into the free bits of a device."""
    count, anywhere = 0, starts(free, milli_gpu)
    if is_block_size(milli_gpu):
        return anywhere.bit_count()
    while anywhere:
        count += 1
        free &= ~((1 << (lowest(anywhere) + milli_gpu)) - 1)
        anywhere = starts(free, milli_gpu)
    return count
