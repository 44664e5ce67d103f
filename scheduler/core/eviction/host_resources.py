"""Processor and memory that candidates on one node would give back: looked at where they are short.

What a victim gives back is counted on by the promise it is stopped for. If it is stopped for somebody
else instead, that promise lacks it, and what is given is less by as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.model.holds import HoldKey, Load, sum_loads
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.core.placement.eviction_plan import EvictionCandidate


@dataclass(slots=True)
class _Freed:
    workload_id: WorkloadId
    load: Load = Load()
    firm: Load = Load()
    #: What of it a promise counts on, by whose promise it is.
    counted_on: dict[WorkloadId, Load] = field(default_factory=dict)


class FreedHostResources:
    """What each candidate on a node holds of its processor and memory."""

    def __init__(
        self,
        capacity: Capacity,
        node: NodeCapacity,
        here: Sequence[tuple[HoldKey | None, EvictionCandidate]],
    ) -> None:
        self._capacity = capacity
        self._node = node
        self._left_over: dict[WorkloadId, Load] = {}
        self._freed: list[_Freed] = []
        numbers: dict[int, int] = {}
        for key, candidate in here:
            number = numbers.setdefault(id(candidate), len(numbers))
            if number == len(self._freed):
                self._freed.append(_Freed(candidate.workload_id))
            freed = self._freed[number]
            if key is None:
                promise = capacity.promises.get(candidate.workload_id)
                extra = Load() if promise is None else promise.extra.get(node.node.node_id, Load())
                freed.load, freed.firm = freed.load.plus(extra), freed.firm.plus(extra)
            else:
                self._add_hold(freed, key)

    def _add_hold(self, freed: _Freed, key: HoldKey) -> None:
        hold = self._node.holds[key]
        freed.load = freed.load.plus(hold.load)
        if hold.firm:
            freed.firm = freed.firm.plus(hold.load)
        if key in self._capacity.covered:
            for other in self._node.promised_by:
                if key in self._capacity.promises[other].covered:
                    counted = freed.counted_on.get(other, Load())
                    freed.counted_on[other] = counted.plus(hold.load)
                    self._left_over.setdefault(other, self._left_over_of(other))

    def _left_over_of(self, other: WorkloadId) -> Load:
        """How much more a promise was given by its victims here than it needs; may be negative."""
        promise, here = self._capacity.promises[other], self._node.node.node_id
        left_over = sum_loads(h.load for k, h in self._node.holds.items() if k in promise.covered)
        for one in promise.placements:
            if one.node_id == here:
                left_over = left_over.minus(Load(one.cpu_milli, one.memory_mib))
        return left_over

    def given(self, numbers: Iterable[int]) -> tuple[Load, Load]:
        """What these candidates together give: in all, and of what only firm work may have."""
        given = firm = Load()
        leaving: set[WorkloadId] = set()
        counted: dict[WorkloadId, Load] = {}
        for number in numbers:
            freed = self._freed[number]
            leaving.add(freed.workload_id)
            given, firm = given.plus(freed.load), firm.plus(freed.firm)
            for other, load in freed.counted_on.items():
                counted[other] = counted.get(other, Load()).plus(load)
        for other, load in counted.items():
            if other not in leaving:
                left_over = self._left_over[other]
                lacks = load.minus(left_over).positive().minus(Load().minus(left_over).positive())
                given, firm = given.minus(lacks), firm.minus(lacks)
        return given, firm
