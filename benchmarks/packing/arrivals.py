"""Pods in the order in which they arrive, as the paper's experiment makes them.

The list is shuffled, then pods drawn from it again (with replacement) are added until they ask for
130 % of the cluster's GPUs. Allocation is read at the moment at which what has arrived, placed or
not, asks for 100 %.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from benchmarks.packing.traces import TraceNode
from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.packing.asks import Ask

#: Demand at which the list of arrivals ends, in percent of the cluster's GPUs.
TUNED_PERCENT = 130


def installed_milli_gpu(nodes: Sequence[TraceNode]) -> int:
    """All GPUs of the cluster."""
    return WHOLE_MILLI_GPU * sum(node.devices for node in nodes)


def arrivals(pods: Sequence[Ask], installed: int, seed: int) -> tuple[Ask, ...]:
    """Return the pods that arrive until demand reaches the cluster's GPUs."""
    chance = random.Random(seed)  # noqa: S311 - a repeatable shuffle, no secret
    order = list(pods)
    chance.shuffle(order)
    asked = sum(pod.milli_gpu for pod in order)
    while True:
        pod = chance.choice(pods)
        asked += pod.milli_gpu
        if 100 * asked > TUNED_PERCENT * installed:
            break
        order.append(pod)
    return _until(order, installed)


def _until(order: Sequence[Ask], installed: int) -> tuple[Ask, ...]:
    asked = 0
    for count, pod in enumerate(order):
        if asked >= installed:
            return tuple(order[:count])
        asked += pod.milli_gpu
    return tuple(order)


def shuffled(nodes: Sequence[TraceNode], seed: int) -> tuple[TraceNode, ...]:
    """Return the nodes in the fixed order that decides ties under this seed."""
    order = list(nodes)
    random.Random(f"nodes of {seed}").shuffle(order)  # noqa: S311 - a repeatable shuffle
    return tuple(order)
