"""Where an attempt runs or ran: its pool, its executor, how tightly its GPUs lie together, and whether its
files are away from its notebook.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.devices.topology import FROM_NEAR_TO_FAR
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.resources import Node, SlowNode
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Attempt,
    NodeId,
    PoolName,
    Spec,
    WorkerPlacement,
    Workload,
)

#: Jobs of this executor run away from their notebooks' folders.
AWAY = "kubernetes"
#: Those of this one, on this machine: what became of their files is known.
HERE = "local"
_WORDS = {
    "nvlink": "linked by NVLink",
    "switch": "linked by PCIe switches",
    "socket": "on one CPU socket (NUMA node)",
    "node": "across CPU sockets (NUMA nodes)",
}
_UNKNOWN = "links not known"


def any_simulated(cluster: Cluster, pools: Iterable[str]) -> bool:
    """Whether no real GPUs stand behind those of one of these pools."""
    known = (cluster.pools.get(PoolName(name)) for name in pools)
    return any(pool is not None and pool.simulated for pool in known)


def asks_simulated(cluster: Cluster, request: models.JobRequest) -> bool:
    """Whether what is asked for may get GPUs behind which no real ones stand."""
    has_gpus = any(role.milli_gpu or role.gpu_memory_mib for role in request.roles)
    return has_gpus and any_simulated(cluster, request.pools)


def pool_of_attempt(cluster: Cluster, workload: Workload, attempt: Attempt) -> PoolName | None:
    """The pool of the nodes that it had; where none of them is known any more, the only one that it
    may have had. None = nobody can tell.
    """
    nodes = (cluster.nodes.get(placement.node_id) for placement in attempt.placements)
    known = next((node.pool for node in nodes if node is not None), None)
    pools = workload.spec.pools
    return pools[0] if known is None and len(pools) == 1 else known


def executor_of(cluster: Cluster, workload: Workload, attempt: Attempt) -> str | None:
    """Who ran an attempt, also when its node is gone."""
    pool = pool_of_attempt(cluster, workload, attempt)
    found = (cluster.pools.get(name) for name in ((pool,) if pool else workload.spec.pools))
    return next((pool.executor for pool in found if pool is not None), None)


def runs_away(cluster: Cluster, workload: Workload) -> bool:
    """Whether it ran, or may come to run, away from its notebook's folder."""
    if workload.attempts:
        return executor_of(cluster, workload, workload.attempts[-1]) == AWAY
    return may_run_away(cluster, workload.spec)


def may_run_away(cluster: Cluster, spec: Spec) -> bool:
    """Whether a job may come to run away from its notebook's folder."""
    names = spec.pools or tuple(cluster.pools)
    return AWAY in {cluster.pools[name].executor for name in names if name in cluster.pools}


def results_are_away(cluster: Cluster, workload: Workload) -> bool:
    """Whether its owner has yet to fetch what the job made, however it ended."""
    return is_final(workload) and bool(workload.attempts) and runs_away(cluster, workload)


def tightness_view(
    placements: Iterable[WorkerPlacement], nodes: Mapping[NodeId, Node]
) -> models.TightnessView | None:
    """Of all GPUs that these hold; None where they are fewer than two."""
    held: dict[NodeId, set[DeviceId]] = {}
    for one in placements:
        if one.device_ids:
            held.setdefault(one.node_id, set()).update(one.device_ids)
    gpus = sum(map(len, held.values()))
    if gpus < 2:  # noqa: PLR2004 - a pair
        return None
    if len(held) > 1:
        racks = _racks(held, nodes)
        return models.TightnessView(
            gpus=gpus, nodes=len(held), racks=racks, text=_of_nodes(gpus, len(held), racks)
        )
    ((node_id, devices),) = held.items()
    link = _on_one(nodes.get(node_id), sorted(devices))
    text = f"{gpus} GPUs on one node, {_WORDS.get(link, _UNKNOWN)}"
    return models.TightnessView(gpus=gpus, nodes=1, link=link, text=text)


def slow_places(
    placements: Iterable[WorkerPlacement], nodes: Mapping[NodeId, Node]
) -> list[models.SlowPlaceView]:
    """What is known to be slow of the nodes that these are on."""
    here = sorted({one.node_id for one in placements} & nodes.keys())
    found: list[tuple[list[str], SlowNode]] = []
    for node_id in here:
        slow = nodes[node_id].slow
        found += [] if slow is None else [([node_id], slow)]
        pairs = [one for one in nodes[node_id].slow_pairs if node_id < one.other]
        found += [([node_id, one.other], one.slow) for one in pairs if one.other in here]
    return [
        models.SlowPlaceView(
            nodes=names, percent=one.percent, since_ms=one.since_ms, until_ms=one.until_ms
        )
        for names, one in found
    ]


def _racks(node_ids: Collection[NodeId], nodes: Mapping[NodeId, Node]) -> int | None:
    """How many racks; None where that is not known of all."""
    found = {nodes[one].rack if one in nodes else None for one in node_ids}
    return None if None in found else len(found)


def _on_one(node: Node | None, devices: Sequence[DeviceId]) -> str:
    """The farthest link among these; "" where one is not known."""
    told = {} if node is None else {frozenset((x.first, x.second)): x.kind for x in node.links}
    kinds = [told.get(frozenset(pair)) for pair in combinations(devices, 2)]
    known = [kind for kind in kinds if kind is not None]
    return max(known, key=FROM_NEAR_TO_FAR.index).value if len(known) == len(kinds) else ""


def _of_nodes(gpus: int, nodes: int, racks: int | None) -> str:
    many = f"{gpus} GPUs on {nodes} nodes"
    if racks is None:
        return f"{many}, {_UNKNOWN}"
    return f"{many} in one rack" if racks == 1 else f"{many} in {racks} racks"
