"""What nominations keep of the capacity, and which of them are cleared by the same victims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.model.holds import HoldKey, Load
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    NodeId,
    WorkerPlacement,
    Workload,
    WorkloadId,
)


@dataclass(slots=True)
class Promise:
    """What is kept for one nominee."""

    workload: Workload
    victims: frozenset[AttemptId]
    placements: tuple[WorkerPlacement, ...]
    #: Processor and memory that its victims do not give.
    extra: dict[NodeId, Load]
    #: Victims whose processor and memory count for it.
    covered: frozenset[HoldKey]


def sharing(
    promises: Mapping[WorkloadId, Promise],
    nodes: Mapping[NodeId, NodeCapacity],
    victims: frozenset[AttemptId],
    placements: Iterable[WorkerPlacement],
) -> list[Workload]:
    """Who was promised a place on these nodes that one of these clears, or one that they share."""
    found: dict[WorkloadId, Workload] = {}
    ahead = [(victims, tuple(placements))]
    while ahead:
        cleared, places = ahead.pop()
        there = {place.node_id for place in places} & nodes.keys()
        for other in {i for node_id in there for i in nodes[node_id].promised_by}:
            promise = promises[other]
            if other not in found and promise.victims & cleared:
                found[other] = promise.workload
                ahead.append((promise.victims, promise.placements))
    return list(found.values())
