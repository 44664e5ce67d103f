"""What trial cycles found about who waits, so that the same question is worked out once.

A trial costs as much as a decision. It is good for a cluster of the same jobs, nodes and rules as
the one that it was made on, and for moments: time itself opens ways.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields
from operator import attrgetter

from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.core.whatif.counterfactuals import Counterfactual

#: Reservations, pauses and shares move on although nobody does anything.
FRESH_MS = 5_000
#: What no trial asks for: where a job has got to, what was last told of it, and which choices were noted.
_PASSED_OVER = frozenset({"progress", "reason", "loader_told_ms"})
_WEIGHED = attrgetter(*(one.name for one in fields(Workload) if one.name not in _PASSED_OVER))


@dataclass(frozen=True, kw_only=True, slots=True)
class Trials:
    """What would start a workload now, and when it starts if nothing ends early."""

    made_ms: Millis
    ways: tuple[Counterfactual, ...]
    at_latest_ms: int | None


class KnownTrials:
    """Those of the newest cluster that was asked about. May be used from any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._cluster = Cluster()
        self._known: dict[WorkloadId, Trials] = {}

    def found(self, cluster: Cluster, workload_id: WorkloadId, now_ms: Millis) -> Trials | None:
        """What was worked out on this cluster a moment ago."""
        with self._turn:
            known = self._known.get(workload_id) if _same(cluster, self._cluster) else None
            return known if known is not None and now_ms - known.made_ms <= FRESH_MS else None

    def keep(self, cluster: Cluster, workload_id: WorkloadId, trials: Trials) -> None:
        """Remember it, and forget what was worked out on another cluster."""
        with self._turn:
            if not _same(cluster, self._cluster):
                self._known = {}
            self._cluster = cluster
            self._known[workload_id] = trials


def _same(one: Cluster, other: Cluster) -> bool:
    """Whether what is decided on is the same; what a cycle left alone is the same object."""
    return one is other or (
        one.workloads.keys() == other.workloads.keys()
        and all(_alike(each, other.workloads[name]) for name, each in one.workloads.items())
        and one.nodes == other.nodes
        and (one.pools, one.teams) == (other.pools, other.teams)
        and (one.blocks, one.policy) == (other.blocks, other.policy)
    )


def _alike(one: Workload, other: Workload) -> bool:
    """Whether the same is found with either: what a job reports of its progress moves nobody."""
    return one is other or _WEIGHED(one) == _WEIGHED(other)
