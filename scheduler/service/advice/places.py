"""Where a plan could run: pools as the advisor sees them, and the sizes that a submit would take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.advisor.kinds import Pool, Tables, kind_called
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import PoolName, Spec
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.intake.fit import check_can_run
from gpucommons.scheduler.intake.policies import Asked, check_policies
from gpucommons.scheduler.money import from_micro
from gpucommons.scheduler.service.views import prices

_MIB = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A pool, and the jobs that each number of its GPUs would be."""

    name: PoolName
    pool: Pool
    simulated: bool
    #: Money per GPU and hour now; None: no price is known.
    price: float | None = None
    #: By number of GPUs.
    specs: Mapping[int, Spec] = field(default_factory=dict)
    #: Why a submit of so many GPUs would be refused.
    refused: Mapping[int, str] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """GPUs of the largest job."""
        return max(self.specs, default=0)


def place_of(cluster: Cluster, name: PoolName, tables: Tables) -> Place | str:
    """A pool as the advisor sees it; else the sentence why nothing can be said of it.

    Links between nodes are not measured, so plans stay on one node.
    """
    nodes = [
        node
        for node in cluster.nodes.values()
        if node.pool == name
        and node.devices
        and node.state in (NodeState.READY, NodeState.CORDONED)
    ]
    if not nodes:
        return f"Pool {name} has no GPUs now."
    kinds = Counter(device.kind for node in nodes for device in node.devices)
    if len(kinds) > 1:
        return (
            f"Pool {name} mixes kinds of GPUs ({', '.join(sorted(kinds))}): plans would be guesses."
        )
    called = next(iter(kinds))
    kind = kind_called(called, tables)
    if kind is None:
        return f"What {called} (pool {name}) computes per second is not in the table of GPU kinds."
    devices = [device for node in nodes for device in node.devices]
    memory_mib = min(device.slice_memory_mib(WHOLE_MILLI_GPU) for device in devices)
    largest = max(len(node.devices) for node in nodes)
    pool = Pool(
        kind=replace(kind, name=called, memory_bytes=float(memory_mib * _MIB)),
        gpus_per_node=largest,
        nodes=1,
        inside=kind.link,
        between=kind.link,
        name=name,
    )
    price = prices.at(cluster.pools[name], cluster.now_ms)
    return Place(
        name=name,
        pool=pool,
        simulated=any(device.simulated for device in devices),
        price=None if price is None else from_micro(price),
    )


def with_sizes(place: Place, spec: Spec, cluster: Cluster) -> Place:
    """The same with what a submit would say to each number of GPUs of one worker."""
    specs, refused = {}, {}
    for gpus in sizes(place.pool.gpus_per_node):
        (role,) = spec.roles
        sized = replace(role, milli_gpu=gpus * WHOLE_MILLI_GPU)
        asked = replace(spec, pools=(place.name,), roles=(sized,))
        try:
            _check(asked, cluster)
        except SchedulerError as error:
            refused[gpus] = str(error)
        else:
            specs[gpus] = asked
    return replace(place, specs=specs, refused=refused)


def sizes(most: int) -> tuple[int, ...]:
    """Numbers of GPUs that people ask for: doubled from one on, and all of a node."""
    doubled = [1]
    while doubled[-1] * 2 <= most:
        doubled.append(doubled[-1] * 2)
    return (*doubled, most) if doubled[-1] < most else tuple(doubled)


def _check(spec: Spec, cluster: Cluster) -> None:
    (role,) = spec.roles
    asked = Asked(
        environment=None,
        max_run_ms=spec.max_run_ms,
        priority=spec.priority,
        milli_gpu=role.milli_gpu,
        workers=1,
    )
    check_policies(asked, cluster.teams[spec.team], cluster.policy)
    check_can_run(spec, cluster)
