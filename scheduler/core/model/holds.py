"""What a worker holds of a node: bits of devices, processor and memory.

A device is a string of 1000 bits, one per milli-GPU: holds, promises and blocks are bit masks, so
"does it fit" is integer arithmetic and exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.scheduler.core.model.evolving import quick
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    HoldClass,
    Millis,
    NodeId,
    TeamName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)

#: Classes that no quota of another team may take anything back from.
_FIRM = frozenset({HoldClass.FIXED, HoldClass.GUARANTEED})

#: All bits of one device.
FULL = (1 << WHOLE_MILLI_GPU) - 1


def class_of_worker(hold_class: HoldClass, placement: WorkerPlacement) -> HoldClass:
    """Under which quota this one worker holds its devices."""
    if placement.surplus and hold_class is HoldClass.GUARANTEED:
        return HoldClass.OVER_QUOTA
    return hold_class


@lru_cache(maxsize=4096)
def span(offset: int, milli_gpu: int) -> int:
    """Bits of a share."""
    return ((1 << milli_gpu) - 1) << offset


def mask_of(placement: WorkerPlacement) -> int:
    """Bits that a placed worker takes of each of its devices."""
    share = span(placement.offset, placement.milli_gpu)
    if placement.extra_milli:
        return share | span(placement.extra_offset, placement.extra_milli)
    return share


def block_mask(offset: int, milli_gpu: int) -> int:
    """Bits that a block of this place and size takes of each of its devices."""
    return span(offset, min(milli_gpu, WHOLE_MILLI_GPU))


def slice_memory_mib(placement: WorkerPlacement, devices: Iterable[Device]) -> int:
    """Memory limit of a placed worker's slice on these devices."""
    if placement.limit_mib is not None:
        return placement.limit_mib
    return sum(share_memory_mib(device, placement.milli_gpu) for device in devices)


class HoldKey(NamedTuple):
    """One worker of one attempt."""

    attempt_id: AttemptId
    rank: int


class Load(NamedTuple):
    """Processor and main memory."""

    cpu_milli: int = 0
    memory_mib: int = 0

    def plus(self, other: Load) -> Load:
        """Both together."""
        return Load(self.cpu_milli + other.cpu_milli, self.memory_mib + other.memory_mib)

    def minus(self, other: Load) -> Load:
        """What is left."""
        return Load(self.cpu_milli - other.cpu_milli, self.memory_mib - other.memory_mib)

    def times(self, count: int) -> Load:
        """So many of it."""
        return Load(self.cpu_milli * count, self.memory_mib * count)

    def at_least(self, other: Load) -> bool:
        """Enough of both."""
        return self.cpu_milli >= other.cpu_milli and self.memory_mib >= other.memory_mib

    def lower(self, other: Load) -> Load:
        """The smaller of each."""
        return Load(min(self.cpu_milli, other.cpu_milli), min(self.memory_mib, other.memory_mib))

    def positive(self) -> Load:
        """Nothing below zero."""
        return Load(max(0, self.cpu_milli), max(0, self.memory_mib))


def load_by_node(placements: Iterable[WorkerPlacement]) -> dict[NodeId, Load]:
    """What placed workers take of the processor and memory of each node."""
    found: dict[NodeId, Load] = {}
    for one in placements:
        load = Load(one.cpu_milli, one.memory_mib)
        found[one.node_id] = found.get(one.node_id, Load()).plus(load)
    return found


def sum_loads(loads: Iterable[Load]) -> Load:
    """All of them together."""
    total = Load()
    for load in loads:
        total = total.plus(load)
    return total


@quick
@dataclass(frozen=True, slots=True)
class Hold:
    """A worker that holds part of a node."""

    key: HoldKey
    workload_id: WorkloadId
    team: TeamName
    hold_class: HoldClass
    placement: WorkerPlacement

    @property
    def load(self) -> Load:
        """Processor and memory it holds."""
        return Load(self.placement.cpu_milli, self.placement.memory_mib)

    @property
    def firm(self) -> bool:
        """No quota of another team may take it back."""
        return self.hold_class in _FIRM


def holds_of(workload: Workload, attempt: Attempt) -> Iterator[Hold]:
    """What each worker of an attempt holds."""
    for rank, placement in enumerate(attempt.placements):
        yield Hold(
            HoldKey(attempt.attempt_id, rank),
            workload.workload_id,
            workload.spec.team,
            class_of_worker(attempt.hold_class, placement),
            placement,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class FairShareReservation:
    """What is free of a place, kept for a team whose turn has come."""

    #: The first of its waiting jobs for which it was kept.
    workload_id: WorkloadId
    #: The most that was free of it.
    milli_gpu: int
    until_ms: Millis
    #: Not before this is it kept for another when that job leaves the line.
    again_ms: Millis
