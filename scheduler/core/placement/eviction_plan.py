"""Who has to go so that somebody fits, and the place that is left.

A search for victims makes such plans; :mod:`.admission` carries them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucommons.scheduler.core.model.eviction_cause import EvictionCause
from gpucommons.scheduler.core.model.evolving import quick
from gpucommons.scheduler.core.model.holds import HoldKey
from gpucommons.scheduler.core.model.types import HoldClass, WorkerPlacement, WorkloadId


@quick
@dataclass(frozen=True, slots=True)
class EvictionCandidate:
    """What can be taken back in one piece: an attempt, one surplus worker, or a promise."""

    workload_id: WorkloadId
    #: Empty for a promise that nothing holds yet.
    keys: tuple[HoldKey, ...]
    #: Work since the last checkpoint, in milli-GPU·ms; 0 where it is ending anyway.
    lost: int
    #: Since when it holds: of equals, the newest goes first.
    since_ms: int
    #: Taking it ends the whole attempt.
    whole: bool = True
    #: It is being stopped already.
    ending: bool = False


@quick
@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """Devices for a workload, and who has to go first."""

    placements: tuple[WorkerPlacement, ...]
    hold_class: HoldClass
    candidates: tuple[EvictionCandidate, ...]
    cause: EvictionCause
    #: Where those who move go on.
    destinations: Mapping[WorkloadId, tuple[WorkerPlacement, ...]] = field(default_factory=dict)
