"""The nodes of one workstation: its GPUs shared out to pools, its processors beside them.

A pool that names a GPU kind gets the devices of that kind; one that names none gets what is left,
unless it is called ``cpu`` (or ``cpu-…``): such pools have no GPUs. Several pools that want the same
devices share them in equal, contiguous parts.

Pools come and change while work runs. A pool keeps the node that it has, whatever that is called,
and a device that somebody holds stays in the pool where it is held until nobody does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpucommons.gpu.client.agent_client import NodeReport
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.topology import links_among
from gpucommons.scheduler.core.model.resources import Node, Pool
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import NodeId, PoolName

#: Processors are only booked on a workstation, not enforced: a small machine may still run a
#: notebook on each of its GPUs.
_CPU_MILLI_PER_GPU = 1000
#: Beside simulated GPUs more: what a default job asks for goes with an eighth of one, as with
#: real ones.
_CPU_MILLI_PER_SIMULATED_GPU = 8000
_MEMORY_MIB_PER_SIMULATED_GPU = 8192
_CPU_MILLI_OF_CPU_POOL = 4000


def is_cpu_pool(pool: Pool) -> bool:
    """A pool whose name says that it has no GPUs."""
    return pool.gpu_kind is None and (pool.name == "cpu" or pool.name.startswith("cpu-"))


def local_nodes(report: NodeReport, pools: Iterable[Pool], cluster: Cluster) -> tuple[Node, ...]:
    """One node for each pool that runs work on this machine, given what is known of it so far."""
    local = [pool for pool in pools if pool.executor == "local"]
    shared = _share_devices(report.devices, local, _held_in(cluster))
    return tuple(_node(report, pool, shared[pool.name], cluster) for pool in local)


def _node(report: NodeReport, pool: Pool, devices: tuple[Device, ...], cluster: Cluster) -> Node:
    node = Node(
        node_id=_node_id(report, pool, cluster),
        pool=pool.name,
        devices=devices,
        cpu_milli=max(report.cpu_milli, _booked_cpu_milli(devices)),
        memory_mib=max(report.memory_mib, _booked_memory_mib(devices)),
        driver=report.driver if devices else "",
        links=links_among(report.links, (device.device_id for device in devices)),
    )
    return node.with_unhealthy(report.unhealthy)


def _node_id(report: NodeReport, pool: Pool, cluster: Cluster) -> NodeId:
    """The node that the pool has, the present one first: under another name it would be lost."""
    known = [node for node in cluster.nodes.values() if node.pool == pool.name]
    if not known:
        return NodeId(f"{report.node}-{pool.name}")
    return min(known, key=lambda one: (one.missing_since_ms is not None, one.node_id)).node_id


def _held_in(cluster: Cluster) -> dict[DeviceId, PoolName]:
    """The pool in which each device is held that somebody holds."""
    placed = (
        placement
        for workload in cluster.workloads.values()
        if workload.current is not None
        for placement in workload.current.placements
        if placement.node_id in cluster.nodes
    )
    return {
        device_id: cluster.nodes[placement.node_id].pool
        for placement in placed
        for device_id in placement.device_ids
    }


def _booked_cpu_milli(devices: Sequence[Device]) -> int:
    if not devices:
        return _CPU_MILLI_OF_CPU_POOL
    simulated = all(device.simulated for device in devices)
    return len(devices) * (_CPU_MILLI_PER_SIMULATED_GPU if simulated else _CPU_MILLI_PER_GPU)


def _booked_memory_mib(devices: Sequence[Device]) -> int:
    if not all(device.simulated for device in devices):
        return 0
    return len(devices) * _MEMORY_MIB_PER_SIMULATED_GPU


def _share_devices(
    devices: Sequence[Device], pools: Sequence[Pool], held_in: Mapping[DeviceId, PoolName]
) -> Mapping[PoolName, tuple[Device, ...]]:
    """Which pool gets which devices."""
    wanted: dict[tuple[PoolName, ...], list[Device]] = {}
    in_order = sorted(devices, key=lambda device: device.index)
    for device in in_order:
        wanted.setdefault(_takers(device, pools), []).append(device)
    home: dict[DeviceId, PoolName] = {}
    for takers, found in wanted.items():
        for place, name in enumerate(takers):
            first = len(found) * place // len(takers)
            after = len(found) * (place + 1) // len(takers)
            home.update((device.device_id, name) for device in found[first:after])
    home.update(held_in)
    return {
        pool.name: tuple(one for one in in_order if home.get(one.device_id) == pool.name)
        for pool in pools
    }


def _takers(device: Device, pools: Sequence[Pool]) -> tuple[PoolName, ...]:
    named = tuple(pool.name for pool in pools if pool.gpu_kind == device.kind)
    others = (p.name for p in pools if p.gpu_kind is None and not is_cpu_pool(p))
    return named or tuple(others)
