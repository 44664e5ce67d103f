"""What is kept from work though nobody holds it: how much, why, for whom and until when.

Everything that is idle and not given out is a :class:`HoldBack` in the ledger of a capacity, and
only there. Placement reads bits and loads that follow from it; sentences read the value itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.evolving import quick
from gpucommons.scheduler.core.model.holds import FairShareReservation, HoldKey, Load, mask_of
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    HoldClass,
    Millis,
    NodeId,
    PoolName,
    TeamName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)

EVERYONE = frozenset(HoldClass)
BORROWERS = frozenset({HoldClass.OVER_QUOTA, HoldClass.CPU})
IN_GUARANTEE = frozenset({HoldClass.GUARANTEED})


class HoldBackReason(StrEnum):
    """Why something is held back."""

    #: Promised to a workload that waits until whoever holds it has ended.
    PROMISE = "promise"
    #: For a job inside a guarantee that waits for other such work to end; borrowers may have it.
    RESERVATION = "reservation"
    #: Unused area of fixed blocks, so that the next notebook starts at once.
    HEADROOM = "headroom"
    #: A team gave it up, or won it back, a moment ago and may come back for it.
    LENDING_PAUSE = "lending pause"
    #: The pool's part that is not lent while guarantees are unused.
    UNLENT = "unlent"
    #: For a team whose turn on the surplus has come, from those who are a turn ahead.
    FAIR_SHARE = "fair share"

    @property
    def held_from(self) -> frozenset[HoldClass]:
        """Classes of work that may not have it."""
        return _HELD_FROM[self]


_HELD_FROM = {
    HoldBackReason.PROMISE: EVERYONE,
    HoldBackReason.RESERVATION: IN_GUARANTEE,
    HoldBackReason.HEADROOM: BORROWERS,
    HoldBackReason.LENDING_PAUSE: BORROWERS,
    HoldBackReason.UNLENT: BORROWERS,
    HoldBackReason.FAIR_SHARE: BORROWERS,
}


class HoldBackKey(NamedTuple):
    """What is held back, and given up, together."""

    reason: HoldBackReason
    #: For whom; empty for what a rule holds back, in all pools together.
    workload_id: WorkloadId = WorkloadId("")


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class HoldBack:
    """Parts of the devices of one node, with processor and memory, that some work may not have."""

    reason: HoldBackReason
    node_id: NodeId
    #: Bits of each device.
    bits: tuple[tuple[DeviceId, int], ...]
    load: Load = Load()
    #: Whose it is to be; None for any team of the pool.
    team: TeamName | None = None
    #: For which workload; None for whichever of the team comes first.
    workload_id: WorkloadId | None = None
    #: For which class of work.
    held_for: HoldClass
    #: None where no time ends it.
    until_ms: Millis | None = None


@dataclass(slots=True)
class Promise:
    """What is kept for one nominee."""

    workload: Workload
    victims: frozenset[AttemptId]
    placements: tuple[WorkerPlacement, ...]
    #: Processor and memory that its victims do not give.
    extra: dict[NodeId, Load]
    #: Victims whose processor and memory count for it.
    covered: frozenset[HoldKey]


class FairShareClaim(NamedTuple):
    """Whose turn it is on the surplus, and what is free of a place that is left to it."""

    team: TeamName
    pool: PoolName
    need_milli_gpu: int
    #: Nothing once it was kept for long enough; held back only from who is a turn ahead.
    held_back: tuple[HoldBack, ...]
    reservation: FairShareReservation


def hold_backs_of(
    reason: HoldBackReason,
    workload: Workload,
    placements: Iterable[WorkerPlacement],
    held_for: HoldClass,
    loads: Mapping[NodeId, Load] = MappingProxyType({}),
) -> Iterator[HoldBack]:
    """Places that are held back for a workload, node by node."""
    found: dict[NodeId, dict[DeviceId, int]] = {}
    for one in placements:
        there = found.setdefault(one.node_id, {})
        for device_id in one.device_ids:
            there[device_id] = there.get(device_id, 0) | mask_of(one)
    for node_id, bits in found.items():
        yield HoldBack(
            reason=reason,
            node_id=node_id,
            bits=tuple(bits.items()),
            load=loads.get(node_id, Load()),
            team=workload.spec.team,
            workload_id=workload.workload_id,
            held_for=held_for,
        )
