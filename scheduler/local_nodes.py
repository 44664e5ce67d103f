"""The nodes of one workstation: its GPUs shared out to pools, its processors beside them.

A pool that names a GPU kind gets the devices of that kind; one that names none gets what is left,
unless it is called ``cpu`` (or ``cpu-…``): such pools have no GPUs. Several pools that want the same
devices share them in equal, contiguous parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpucommons.gpu.agent_client import NodeReport
from gpucommons.gpu.devices import Device
from gpucommons.scheduler.core.resources import Node, Pool
from gpucommons.scheduler.core.types import NodeId, PoolName

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


def local_nodes(report: NodeReport, pools: Iterable[Pool]) -> tuple[Node, ...]:
    """One node for each pool that runs work on this machine."""
    local = [pool for pool in pools if pool.executor == "local"]
    shared = share_devices(report.devices, local)
    return tuple(_node(report, pool, shared[pool.name], alone=len(local) == 1) for pool in local)


def _node(report: NodeReport, pool: Pool, devices: tuple[Device, ...], *, alone: bool) -> Node:
    return Node(
        node_id=NodeId(report.node if alone else f"{report.node}-{pool.name}"),
        pool=pool.name,
        devices=devices,
        cpu_milli=max(report.cpu_milli, _booked_cpu_milli(devices)),
        memory_mib=max(report.memory_mib, _booked_memory_mib(devices)),
    )


def _booked_cpu_milli(devices: Sequence[Device]) -> int:
    if not devices:
        return _CPU_MILLI_OF_CPU_POOL
    simulated = all(device.simulated for device in devices)
    return len(devices) * (_CPU_MILLI_PER_SIMULATED_GPU if simulated else _CPU_MILLI_PER_GPU)


def _booked_memory_mib(devices: Sequence[Device]) -> int:
    if not all(device.simulated for device in devices):
        return 0
    return len(devices) * _MEMORY_MIB_PER_SIMULATED_GPU


def share_devices(
    devices: Sequence[Device], pools: Sequence[Pool]
) -> Mapping[PoolName, tuple[Device, ...]]:
    """Which pool gets which devices."""
    shared: dict[PoolName, list[Device]] = {pool.name: [] for pool in pools}
    wanted: dict[tuple[PoolName, ...], list[Device]] = {}
    for device in sorted(devices, key=lambda device: device.index):
        takers = _takers(device, pools)
        if takers:
            wanted.setdefault(takers, []).append(device)
    for takers, found in wanted.items():
        for place, name in enumerate(takers):
            first = len(found) * place // len(takers)
            after = len(found) * (place + 1) // len(takers)
            shared[name].extend(found[first:after])
    return {name: tuple(found) for name, found in shared.items()}


def _takers(device: Device, pools: Sequence[Pool]) -> tuple[PoolName, ...]:
    named = tuple(pool.name for pool in pools if pool.gpu_kind == device.kind)
    others = (p.name for p in pools if p.gpu_kind is None and not is_cpu_pool(p))
    return named or tuple(others)
