"""*What if we bought 8 more?*: a cluster with machines that are not there, like those that are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.resources import Node, NodeState
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import NodeId, PoolName
from gpucommons.scheduler.errors import BadRequest


def with_more(cluster: Cluster, more: Mapping[PoolName, int]) -> Cluster:
    """The cluster with so many more GPUs, in machines of each pool's most frequent shape.

    The last machine has what is left over, with its share of processors and memory.

    Raises
    ------
    BadRequest
        When a pool has no machine with GPUs to be like.
    """
    nodes = dict(cluster.nodes)
    for pool, gpus in more.items():
        model = _model(cluster, pool)
        each = len(model.devices)
        for number, first in enumerate(range(0, gpus, each), 1):
            made = _like(model, number, min(each, gpus - first))
            nodes[made.node_id] = made
    return replace(cluster, nodes=nodes)


def _model(cluster: Cluster, pool: PoolName) -> Node:
    shapes = [
        node
        for node in cluster.nodes.values()
        if node.pool == pool and node.state is NodeState.READY and node.devices
    ]
    if not shapes:
        message = f"No machine of {pool} has GPUs now: there is nothing to be more of."
        raise BadRequest(message)
    counts = Counter((len(node.devices), node.devices[0].kind) for node in shapes)
    return max(
        shapes, key=lambda node: (counts[len(node.devices), node.devices[0].kind], node.node_id)
    )


def _like(model: Node, number: int, gpus: int) -> Node:
    name = f"more-{model.pool}-{number}"
    devices = tuple(
        replace(device, device_id=DeviceId(f"{name}-{device.index}"))
        for device in model.devices[:gpus]
    )
    share = len(model.devices)
    return Node(
        node_id=NodeId(name),
        pool=model.pool,
        devices=devices,
        cpu_milli=model.cpu_milli * gpus // share,
        memory_mib=model.memory_mib * gpus // share,
    )
