"""What executors ask of the scheduler that they run in, whichever place they run jobs in."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, PoolName, Workload, WorkloadId


def wall_ms() -> Millis:
    """The wall clock."""
    return Millis(time.time_ns() // 1_000_000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What an executor asks the loop."""

    cluster: Callable[[], Cluster]
    pools: Callable[[], tuple[Pool, ...]]
    wake: Callable[[], None]
    #: A job by its id, also one that is over; None where nobody knows it.
    job: Callable[[WorkloadId], Workload | None] = lambda _job: None
    #: Whether this scheduler acts, and not another replica.
    leading: Callable[[], bool] = lambda: True
    #: The same, and already while what runs is adopted.
    may_act: Callable[[], bool] = lambda: True
    #: How many nodes are missing in pools that grow; None while that is not known yet.
    missing_nodes: Callable[[], Mapping[PoolName, int] | None] = dict
    #: The time by which the loop stamps what it decides.
    now_ms: Callable[[], Millis] = wall_ms
