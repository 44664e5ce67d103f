"""What of Slurm counts as a pool's: never more than its admin said, nor than Slurm has to give.

Slurm chooses the machines, so a pool's nodes here are a measure: so many GPUs, CPUs and so much memory.
A GPU that Slurm gave to somebody else is not counted; one that our own job holds is, as long as it does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.scheduler.adapters.slurm.commands import SlurmNode
from gpucommons.scheduler.adapters.slurm.settings import SlurmPool
from gpucommons.scheduler.core.model.resources import Node, NodeState, Pool
from gpucommons.scheduler.core.model.types import NodeId


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """GPUs of our attempts."""

    all: Collection[str] = ()
    #: Those among them that Slurm has not given yet, or has back: it counts as many of its own as idle.
    not_given: Collection[str] = ()


def nodes_of(
    pool: Pool, asked: SlurmPool, there: Iterable[SlurmNode], *, held: Held, away: bool
) -> Iterator[Node]:
    """A pool's nodes, of what was there when Slurm last answered; ``away``: they take nothing new."""
    free = _free(asked, there) - sum(one in held.not_given for one in all_devices(pool, asked))
    for number in range(asked.nodes):
        node_id = _node_id(pool, number)
        devices = []
        for device in _devices(pool, asked, node_id):
            if device.device_id not in held.all:
                if free <= 0:
                    continue
                free -= 1
            devices.append(device)
        yield Node(
            node_id=node_id,
            pool=pool.name,
            devices=tuple(devices),
            cpu_milli=asked.cpus_per_node * 1000,
            memory_mib=asked.memory_gib_per_node * 1024,
            state=NodeState.CORDONED if away else NodeState.READY,
            cordoned_outside=away,
        )


def all_devices(pool: Pool, asked: SlurmPool) -> dict[str, Device]:
    """All that may ever be the pool's, by their ids."""
    return {
        one.device_id: one
        for number in range(asked.nodes)
        for one in _devices(pool, asked, _node_id(pool, number))
    }


def is_of(pool: Pool, node_id: str) -> bool:
    """Whether a placement's node is one of the pool's."""
    return node_id.rpartition("-")[0] == _node_id(pool, 0).rpartition("-")[0]


def _node_id(pool: Pool, number: int) -> NodeId:
    return NodeId(f"slurm-{pool.name}-{number}")


def _devices(pool: Pool, asked: SlurmPool, node_id: NodeId) -> Iterator[Device]:
    for index in range(asked.gpus_per_node):
        yield Device(
            device_id=DeviceId(f"{node_id}-gpu-{index}"),
            index=index,
            kind=pool.gpu_kind or asked.gpu_type or "GPU",
            memory_mib=asked.gpu_memory_gib * 1024,
            simulated=pool.simulated,
        )


def _free(asked: SlurmPool, there: Iterable[SlurmNode]) -> int:
    """GPUs that Slurm could give to one more job of this pool now."""
    free = 0
    for node in there:
        if not node.takes_work or (asked.partition and asked.partition not in node.partitions):
            continue
        for kind, count in node.gpus.items():
            if asked.gpu_type in (None, kind):
                free += max(0, count - node.used.get(kind, 0))
    return free
