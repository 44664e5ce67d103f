"""What holds the GPUs that somebody waits for and that they, or a team-mate, could give back.

Each is tried: it is named only where the waiting one would start in the very cycle in which it is
gone. So nobody is told to give something up for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from gpucommons.scheduler.core.model.demand import PRIORITIES
from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES, is_lease
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import State, Workload, WorkloadId

#: Each try is a cycle of the core.
_TRIED = 4


class BlockerKind(StrEnum):
    """What it is, and with it what can be done about it."""

    #: The own notebook that idles: release its GPU.
    IDLE_NOTEBOOK = "idle-notebook"
    #: A GPU granted to another own server that has not started: leave that place.
    TICKET = "ticket"
    #: An own job of lower priority: pause it.
    JOB = "job"
    #: A team-mate's notebook that idles: ask them.
    TEAM_NOTEBOOK = "team-notebook"


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocker:
    """One holder without which the waiting one would start now."""

    kind: BlockerKind
    holder: WorkloadId


def blockers(
    cluster: Cluster, waiting: Workload, starts: Callable[[Cluster, Workload], bool]
) -> Iterator[Blocker]:
    """Those that alone are in the way, the own ones first, until one is found.

    ``starts`` plays a cycle: whether the waiting one has devices in it.
    """
    if waiting.state not in WAITING_STATES:
        return
    found = [
        Blocker(kind=kind, holder=one.workload_id)
        for one in cluster.workloads.values()
        if (kind := _kind(one, waiting)) is not None
    ]
    order = list(BlockerKind)
    found.sort(key=lambda one: (order.index(one.kind), one.holder))
    for one in found[:_TRIED]:
        without = {i: w for i, w in cluster.workloads.items() if i != one.holder}
        if starts(replace(cluster.apart(), workloads=without), waiting):
            yield one
            return


def still_blocks(cluster: Cluster, waiting: Workload, known: Blocker) -> bool:
    """Whether what was found a while ago can still be given back as it was said: it is idle, or waits yet."""
    holder = cluster.workloads.get(known.holder)
    return holder is not None and _kind(holder, waiting) is known.kind


def _kind(holder: Workload, waiting: Workload) -> BlockerKind | None:
    spec, wanted = holder.spec, waiting.spec
    attempt = holder.current
    shares_a_pool = not frozenset(spec.pools).isdisjoint(wanted.pools)
    if attempt is None or attempt.stop is not None or not shares_a_pool:
        return None
    own = spec.owner == wanted.owner
    if not is_lease(holder):
        lower = PRIORITIES[spec.priority] < PRIORITIES[wanted.priority]
        runs = holder.state in (State.STARTING, State.RUNNING)
        return BlockerKind.JOB if own and lower and runs else None
    if holder.state is State.GRANTED:
        return BlockerKind.TICKET if own and holder.redeem_by_ms is not None else None
    if holder.idleness is None or holder.idleness.idle_since_ms is None:
        return None
    if own:
        return BlockerKind.IDLE_NOTEBOOK
    return BlockerKind.TEAM_NOTEBOOK if spec.team == wanted.team else None
