"""What a scheduler's parts ask of it: executors, wherever they run jobs, and who watches the hub's servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR
from gpucommons.scheduler.core.events.leases import NOT_STARTED
from gpucommons.scheduler.core.model.intents import Cancel, Restarted
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, PoolName, Workload, WorkloadId
from gpucommons.scheduler.service.service import Service


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


def server_is_down(service: Service, lease: Workload) -> None:
    """The hub says that a server is down, though its spawner may not have told us."""
    now = service.loop.cluster.workloads.get(lease.workload_id)
    if now is not None and not is_final(now):
        service.ask(OPERATOR, Cancel(workload_id=lease.workload_id, why="stopped"))


def server_is_back(service: Service, lease: Workload) -> None:
    """A notebook that gave its GPU back runs again."""
    service.ask(OPERATOR, Restarted(workload_id=lease.workload_id))


def server_is_refused(service: Service, lease: Workload, text: str) -> None:
    """The hub will not start the server of a granted ticket: its place in line is of no use."""
    service.ask(OPERATOR, Cancel(workload_id=lease.workload_id, why=NOT_STARTED, text=text))
