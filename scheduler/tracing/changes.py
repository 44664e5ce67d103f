"""What a cycle changed of a workload, as far as its trace goes: its value before and after. Pure."""

from __future__ import annotations

from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES, is_final
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Attempt, Millis, State, Workload


def newest(workload: Workload) -> tuple[Attempt, ...]:
    """Its last attempts: one may end in the cycle that reserves the next."""
    return workload.attempts[-2:]


def as_it_was(attempt: Attempt, before: Workload | None) -> Attempt | None:
    """The same attempt in an earlier value of its workload."""
    known = () if before is None else before.attempts[-2:]
    return next((one for one in known if one.attempt_id == attempt.attempt_id), None)


def is_reserved(workload: Workload, before: Workload | None) -> bool:
    """It got devices."""
    return any(as_it_was(one, before) is None for one in newest(workload))


def pool_of(cluster: Cluster, attempt: Attempt) -> str:
    """Where an attempt lies; "" where its nodes are not known any more."""
    nodes = (cluster.nodes.get(one.node_id) for one in attempt.placements)
    return next((one.pool for one in nodes if one is not None), "")


def in_line_again_since(before: Workload | None) -> Millis | None:
    """A parked notebook waits from when it wants its GPU back, and not since its last attempt ended."""
    if before is None or before.state is not State.WAITING or not before.attempts:
        return None
    return before.since_ms


def is_nominated(workload: Workload, before: Workload | None) -> bool:
    """It was promised devices that others still hold."""
    known = None if before is None else before.nomination
    return workload.nomination is not None and known is None


def is_over(attempt: Attempt | None) -> bool:
    """Whether its start has come to an end."""
    return attempt is not None and (attempt.started_ms, attempt.ended_ms) != (None, None)


def left_the_line(workload: Workload, before: Workload | None) -> bool:
    """It is over without having had its turn."""
    return before is not None and before.state in WAITING_STATES and is_final(workload)
