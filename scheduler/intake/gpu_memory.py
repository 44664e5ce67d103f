"""GPUs asked for by memory: the smallest slice of the allowed pools that has it.

Settled once, when a job or notebook is asked for: from then on it has a size like any other, which
every screen and rule counts. Pools whose GPUs give less at that size are left out; whoever wants one
of them names it, and gets the size that has the memory there.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.core.model.demand import (
    WhyNoSlices,
    pools_that_make,
    training_sizes,
)
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import PoolName, Spec
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.models import RoleRequest

_MIB_PER_GIB = 1024


def settled(
    roles: Sequence[RoleRequest],
    pools: tuple[PoolName, ...],
    cluster: Cluster,
    why_not: WhyNoSlices,
) -> tuple[list[RoleRequest], tuple[PoolName, ...]]:
    """The roles with a size each, and the pools in which those sizes have the memory.

    Raises
    ------
    Misconfigured
        Where no slice has it: with the most that there is.
    """
    if not any(role.gpu_memory_mib for role in roles):
        return list(roles), pools
    found = []
    for role in roles:
        if role.gpu_memory_mib is None:
            found.append(role)
            continue
        least = smallest(role.gpu_memory_mib, role.gpu_kind, pools, cluster, why_not)
        size = role.milli_gpu or least
        if min(size, WHOLE_MILLI_GPU) < least:
            message = (
                f"{format_gpus(size)} has less than {_gib(role.gpu_memory_mib)} of GPU memory:"
                f" {format_gpus(least)} is the smallest slice that has it."
            )
            raise Misconfigured(message)
        found.append(role.model_copy(update={"milli_gpu": size}))
        # What somebody named is refused with the reason, where pools are chosen.
        able = pools if role.milli_gpu else pools_that_make(pools, (size,), why_not)
        pools = tuple(
            pool
            for pool in able
            if memory_of(size, role.gpu_kind, pool, cluster) >= role.gpu_memory_mib
        )
    if not pools:
        message = (
            "No one pool has slices with the memory of all roles: ask for less, or name sizes."
        )
        raise Misconfigured(message)
    return found, pools


def smallest(
    memory_mib: int,
    kind: str | None,
    pools: tuple[PoolName, ...],
    cluster: Cluster,
    why_not: WhyNoSlices,
) -> int:
    """The smallest share of one GPU with so much memory, in any of these pools."""
    for size in _SIZES:
        able = pools_that_make(pools, (size,), why_not)
        if any(memory_of(size, kind, pool, cluster) >= memory_mib for pool in able):
            return size
    most = max((memory_of(WHOLE_MILLI_GPU, kind, pool, cluster) for pool in pools), default=0)
    where = f"the largest GPU of {' and '.join(pools) or 'your pools'} has {_gib(most)}"
    what_next = (
        "Ask for that at most, or for several whole GPUs and split the model over them."
        if most
        else "No GPU is known there now: name a pool that has some."
    )
    message = f"No slice has {_gib(memory_mib)} of GPU memory: {where}. {what_next}"
    raise Misconfigured(message)


def memory_of(size: int, kind: str | None, pool: PoolName, cluster: Cluster) -> int:
    """What each GPU of it has at least, on any GPU of the pool; 0 where there is none of the kind."""
    share = min(size, WHOLE_MILLI_GPU)
    devices = _devices(kind, pool, cluster)
    return min((share_memory_mib(device, share) for device in devices), default=0)


def in_words(spec: Spec, cluster: Cluster) -> str:
    """``12.0 GiB of GPU memory is ½ of an A100-40 (19.4 GiB).``; empty where none was asked."""
    role = next((one for one in spec.roles if one.gpu_memory_mib), None)
    if role is None:
        return ""
    pool = spec.pools[0]
    kind = next((one.kind for one in _devices(role.gpu_kind, pool, cluster)), "GPU")
    has = _gib(memory_of(role.milli_gpu, role.gpu_kind, pool, cluster))
    size = format_milli_gpu(role.milli_gpu)
    of = f"{size} of one {kind} ({has}) in pool {pool}"
    return f"{_gib(role.gpu_memory_mib)} of GPU memory is {of}."


_SIZES = tuple(size for size in training_sizes(1) if 0 < size <= WHOLE_MILLI_GPU)


def _devices(kind: str | None, pool: PoolName, cluster: Cluster) -> list[Device]:
    return [
        device
        for node in cluster.nodes.values()
        if node.pool == pool
        for device in node.all_devices
        if kind in (None, device.kind)
    ]


def _gib(mib: int) -> str:
    return f"{mib / _MIB_PER_GIB:.1f} GiB"
