"""What the executor asks of the scheduler around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.clouds.notice_source import CloudNotice
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.resources import Pool, UnhealthyDevice
from gpucommons.scheduler.core.model.types import AttemptId, NodeId, PoolName
from gpucommons.scheduler.executors.kubernetes.attempts.witnesses import Reading
from gpucommons.scheduler.executors.kubernetes.cluster_state.notebooks import Leases
from gpucommons.scheduler.executors.kubernetes.manifests.job_files import (
    JobFiles,
    PlannedFiles,
)
from gpucommons.scheduler.executors.kubernetes.manifests.pod_files import PodPlace
from gpucommons.scheduler.executors.kubernetes.settings import OWN_IMAGE


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Around:
    """What the executor asks of the scheduler around it."""

    pools: Callable[[], tuple[Pool, ...]] = tuple
    pool_of_node: Callable[[NodeId], Pool | None] = lambda _node: None
    #: Slots that anything of ours holds.
    held: Callable[[], Set[DeviceId]] = frozenset
    #: Slots of which somebody holds a part.
    fractions: Callable[[], Set[DeviceId]] = frozenset
    #: Slots that the next notebooks with a part of a GPU would be given, in some pools.
    next_shares: Callable[[Set[PoolName]], Set[DeviceId]] = lambda _pools: frozenset()
    #: How many nodes are missing in pools that grow; None while that is not known yet.
    missing_nodes: Callable[[], Mapping[PoolName, int] | None] = dict
    #: Whether a node offers what it was brought for.
    takes_work: Callable[[NodeId], bool] = lambda _node: False
    #: Leases that hold something, in the scheduler's books.
    leases: Callable[[], Leases] = dict
    #: Attempts that are on record as live; None where nobody says.
    current: Callable[[], Set[AttemptId]] | None = None
    #: Live processes of a slice, as the agent of its node sees them; None where there is none.
    reading: Reading | None = None
    #: What clouds say of their nodes, as the agents heard it.
    notices: Callable[[], Mapping[NodeId, CloudNotice]] = dict
    #: Versions of the GPUs' driver, as the agents told them.
    drivers: Callable[[], Mapping[NodeId, str]] = dict
    #: Unhealthy GPUs by UUID, of nodes whose agent has said.
    unhealthy: Callable[[], Mapping[NodeId, Mapping[DeviceId, str]]] = dict
    #: Those on record, as slots.
    were_unhealthy: Callable[[], Mapping[NodeId, tuple[UnhealthyDevice, ...]]] = dict
    on_change: Callable[[], None] = lambda: None
    #: Whether this scheduler acts, and not another replica: asked by every thread before it does.
    leading: Callable[[], bool] = lambda: True
    files: JobFiles = PlannedFiles(place=PodPlace(image=OWN_IMAGE))
    #: Where logs of stopped workers are kept; None = nowhere.
    logs: Path | None = None
    now_ms: Callable[[], int] = _now_ms
