"""Whether a job could ever run on what there is, all of it being free; else what would be possible.

What merely waits is not judged here. Nodes that are lost or cordoned count: they come back. So do those
that an autoscaler may bring.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.core.model.demand import (
    WhyNoSlices,
    Worker,
    milli_gpu,
    must_have,
    on_cpu_only,
    pools_that_make,
    sizes_of,
)
from gpucommons.scheduler.core.model.resources import Node, Quota, Team
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Kind, PoolName, Spec, TeamName
from gpucommons.scheduler.core.quota.quota import quota_of
from gpucommons.scheduler.core.quota.template_nodes import template_nodes
from gpucommons.scheduler.errors import Misconfigured, UnknownPool
from gpucommons.scheduler.intake.paying_team import names


def trains_in(quota: Quota) -> bool:
    """Whether jobs of a team with this quota can ever hold a GPU there."""
    if quota.limit_milli_gpu == 0:
        return False
    return quota.guaranteed_milli_gpu > 0 or quota.over_quota_weight > 0


def training_pools(team: Team, cluster: Cluster, *, gpu: bool) -> tuple[PoolName, ...]:
    """Pools for a job that names none: those with training quota, CPU pools for CPU jobs."""
    if gpu:
        mine = [name for name, quota in team.quotas.items() if trains_in(quota)]
        return tuple(name for name in gpu_pools(cluster) if name in mine)
    without_gpu = [name for name in cluster.pools if not _has_devices(cluster, name)]
    return tuple(without_gpu) or tuple(cluster.pools)


def gpu_pools(cluster: Cluster) -> tuple[PoolName, ...]:
    """Those that have GPUs, or may have once they have nodes."""
    with_nodes = {node.pool for node in cluster.nodes.values()}
    return tuple(
        name for name in cluster.pools if name not in with_nodes or _has_devices(cluster, name)
    )


def able_pools(spec: Spec, why_not: WhyNoSlices, *, chosen: bool) -> tuple[PoolName, ...]:
    """Its pools, without those that make no slices of its sizes.

    Raises
    ------
    Misconfigured
        Where there is none, or one of those that were chosen by name is left out: with the reason.
    """
    sizes = sizes_of(spec)
    able = pools_that_make(spec.pools, sizes, why_not)
    if able and not chosen:
        return able
    for pool, size in product(spec.pools, sizes):
        if (why := why_not(pool, size)) is not None:
            raise Misconfigured(why)
    return able


def _has_devices(cluster: Cluster, pool: PoolName) -> bool:
    return cluster.pools[pool].gpu_kind is not None or any(
        node.all_devices for node in cluster.nodes.values() if node.pool == pool
    )


def known_pools(requested: Sequence[str], cluster: Cluster) -> tuple[PoolName, ...]:
    """The named pools, once each, in the order of preference.

    Raises
    ------
    UnknownPool
        With the names that there are.
    """
    for name in requested:
        if name not in cluster.pools:
            message = f"There is no pool {name!r}. Pools: {names(cluster.pools)}."
            raise UnknownPool(message)
    return tuple(dict.fromkeys(PoolName(name) for name in requested))


def check_can_run(spec: Spec, cluster: Cluster) -> None:
    """Refuse what no pool of the spec could ever run.

    Raises
    ------
    Misconfigured
        With the obstacle in each pool.
    """
    obstacles = [f"{pool}: {why}" for pool in spec.pools if (why := _obstacle(spec, pool, cluster))]
    if len(obstacles) == len(spec.pools):
        message = f"This can never run as it is written. {' '.join(obstacles)}"
        raise Misconfigured(message)


def _obstacle(spec: Spec, pool: PoolName, cluster: Cluster) -> str | None:
    """Why the pool could never run it; None when it could."""
    templates = template_nodes(cluster.pools[pool], cluster.nodes.values())
    nodes = [*(node for node in cluster.nodes.values() if node.pool == pool), *templates]
    if not nodes:
        return "it has no nodes."
    workers = must_have(spec)
    if not on_cpu_only(spec):
        refused = _quota_obstacle(spec, cluster, pool, milli_gpu(workers))
        if refused is not None:
            return refused
    for worker in dict.fromkeys(workers):
        refused = _worker_obstacle(worker, nodes)
        if refused is not None:
            return refused
    return _gang_obstacle(workers, nodes)


def _quota_obstacle(spec: Spec, cluster: Cluster, pool: PoolName, needed: int) -> str | None:
    quota = quota_of(cluster.teams, TeamName(spec.team), pool)
    if not trains_in(quota):
        return f"{spec.team} has no training quota there; an admin can set one."
    asked = format_gpus(needed)
    if quota.limit_milli_gpu is not None and needed > quota.limit_milli_gpu:
        return (
            f"{asked} asked, the limit of {spec.team} is {format_milli_gpu(quota.limit_milli_gpu)}."
        )
    borrows = spec.over_quota and quota.over_quota_weight > 0
    if not borrows and needed > quota.guaranteed_milli_gpu and spec.kind is not Kind.NOTEBOOK:
        return (
            f"{asked} asked without borrowing, {spec.team} is guaranteed"
            f" {format_milli_gpu(quota.guaranteed_milli_gpu)}."
        )
    return None


def _worker_obstacle(worker: Worker, nodes: Sequence[Node]) -> str | None:
    fitting = [node for node in nodes if _devices_for(worker, node)]
    if not fitting:
        return _device_sentence(worker, nodes)
    cpu = max(node.cpu_milli for node in fitting)
    if worker.cpu_milli > cpu:
        return (
            f"{worker.cpu_milli / 1000:g} cores asked for a worker, the largest node has"
            f" {cpu / 1000:g} to give out."
        )
    memory = max(node.memory_mib for node in fitting)
    if worker.memory_mib > memory:
        return (
            f"{round(worker.memory_mib / 1024, 1):g} GiB of memory asked for a worker, the largest"
            f" node has {round(memory / 1024, 1):g} to give out."
        )
    if not any(
        node.cpu_milli >= worker.cpu_milli and node.memory_mib >= worker.memory_mib
        for node in fitting
    ):
        return "no single node has as many cores and as much memory together."
    return None


def _matching(worker: Worker, node: Node) -> int:
    """How many devices of the node are of the kind the worker wants."""
    return sum(worker.gpu_kind in (None, device.kind) for device in node.all_devices)


def _devices_for(worker: Worker, node: Node) -> bool:
    if worker.milli_gpu == 0:
        return True
    return _matching(worker, node) >= max(1, worker.whole_gpus)


def _device_sentence(worker: Worker, nodes: Sequence[Node]) -> str:
    kinds = {device.kind for node in nodes for device in node.all_devices}
    if not kinds:
        return "it has no GPUs."
    if worker.gpu_kind is not None and worker.gpu_kind not in kinds:
        return f"no GPU of kind {worker.gpu_kind!r}; it has {names(kinds)}."
    most = max(_matching(worker, node) for node in nodes)
    asked = format_gpus(worker.milli_gpu)
    return f"{asked} asked on one node, the largest has {most}: use more workers with fewer."


def _gang_obstacle(workers: Iterable[Worker], nodes: Sequence[Node]) -> str | None:
    gang = tuple(workers)
    total = sum(len(node.all_devices) for node in nodes) * WHOLE_MILLI_GPU
    needed = milli_gpu(gang)
    if needed > total:
        return (
            f"{format_gpus(needed)} asked by all workers together, there are"
            f" {format_milli_gpu(total)}."
        )
    cpu, memory = sum(w.cpu_milli for w in gang), sum(w.memory_mib for w in gang)
    all_cpu, all_memory = sum(n.cpu_milli for n in nodes), sum(n.memory_mib for n in nodes)
    if cpu > all_cpu or memory > all_memory:
        return (
            f"{cpu / 1000:g} cores and {memory} MiB asked by all workers together, there are"
            f" {all_cpu / 1000:g} and {all_memory} MiB."
        )
    return None
