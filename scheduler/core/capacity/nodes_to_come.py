"""Nodes that a pool may still get from an autoscaler, as they would be: nothing is placed on them."""

from __future__ import annotations

from collections.abc import Iterable

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.kinds import memory_mib_of
from gpucommons.scheduler.core.model.resources import Growth, Node, NodeState, Pool
from gpucommons.scheduler.core.model.types import NodeId

#: Those that are lost or fenced are gone, or others are wanted in their place.
_THERE = (NodeState.READY, NodeState.CORDONED)


def nodes_to_come(pool: Pool, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """As many as the pool may still have; ``nodes``: all of the cluster."""
    growth = pool.growth
    if growth is None:
        return ()
    there = sum(node.pool == pool.name and node.state in _THERE for node in nodes)
    return tuple(_node(pool, growth, number) for number in range(1, growth.max_nodes - there + 1))


def _node(pool: Pool, growth: Growth, number: int) -> Node:
    name = f"{pool.name}-to-come-{number:05d}"
    kind = pool.gpu_kind or ""
    return Node(
        node_id=NodeId(name),
        pool=pool.name,
        devices=tuple(
            Device(
                device_id=DeviceId(f"{name}/gpu-{index}"),
                index=index,
                kind=kind,
                memory_mib=_memory_mib(kind),
                simulated=pool.simulated,
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
