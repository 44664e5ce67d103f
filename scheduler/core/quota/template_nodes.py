"""Template nodes: those that a pool may still get by scale-up, as they would be. Nothing is placed on them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.kinds import memory_mib_of
from gpucommons.scheduler.core.model.resources import Growth, Node, Pool
from gpucommons.scheduler.core.model.types import NodeId, PoolName
from gpucommons.scheduler.core.quota.quota import backs_quotas


def template_nodes(pool: Pool, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """As many as the pool may still have; ``nodes``: all of the cluster.

    Those that are lost or fenced are gone, or others are wanted in their place. One that offers no GPU yet
    is still on its way.
    """
    growth = pool.growth
    if growth is None:
        return ()
    there = sum(
        node.pool == pool.name and backs_quotas(node) and has_arrived(node, growth)
        for node in nodes
    )
    return _made(pool.name, pool.gpu_kind or "", growth, max(0, growth.max_nodes - there))


def has_arrived(node: Node, growth: Growth | None) -> bool:
    """Whether a node of a pool offers what it was brought for: it is ready before its GPUs are."""
    return growth is None or not growth.gpus or bool(node.devices)


@lru_cache(maxsize=64)
def _made(pool: PoolName, kind: str, growth: Growth, count: int) -> tuple[Node, ...]:
    """Asked for in every cycle, and mostly the same."""
    return tuple(_node(pool, kind, growth, number) for number in range(1, count + 1))


def _node(pool: PoolName, kind: str, growth: Growth, number: int) -> Node:
    # After any name of a node that is there: of two that are alike that one is taken.
    name = f"~{pool}-template-{number:05d}"
    return Node(
        node_id=NodeId(name),
        pool=pool,
        devices=tuple(
            Device(
                device_id=DeviceId(f"{name}/gpu-{index}"),
                index=index,
                kind=kind,
                memory_mib=_memory_mib(kind),
                simulated=False,
            )
            for index in range(growth.gpus)
        ),
        cpu_milli=growth.cpu_milli,
        memory_mib=growth.memory_mib,
    )


def _memory_mib(kind: str) -> int:
    """0 where the kind does not say it: no work is placed by the memory of a device."""
    try:
        return memory_mib_of(kind)
    except ValueError:
        return 0
