"""Processor and memory that candidates on one node would give back: looked at where they are short.

What a victim gives counts for the promise it was stopped for. Should it go earlier and for somebody
else, that promise lacks it, and it has to come from what is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.model.holds import HoldKey, Load, sum_loads
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.core.placement.admission import EvictionCandidate


@dataclass(slots=True)
class _Giver:
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
        self._room = capacity
        self._node = node
        self._spare: dict[WorkloadId, Load] = {}
        self._givers: list[_Giver] = []
        numbers: dict[int, int] = {}
        for key, candidate in here:
            number = numbers.setdefault(id(candidate), len(numbers))
            if number == len(self._givers):
                self._givers.append(_Giver(candidate.workload_id))
            giver = self._givers[number]
            if key is None:
                promise = capacity.promises.get(candidate.workload_id)
                extra = Load() if promise is None else promise.extra.get(node.node.node_id, Load())
                giver.load, giver.firm = giver.load.plus(extra), giver.firm.plus(extra)
            else:
                self._add_hold(giver, key)

    def _add_hold(self, giver: _Giver, key: HoldKey) -> None:
        hold = self._node.holds[key]
        giver.load = giver.load.plus(hold.load)
        if hold.firm:
            giver.firm = giver.firm.plus(hold.load)
        if key in self._room.covered:
            for other in self._node.promised_by:
                if key in self._room.promises[other].covered:
                    counted = giver.counted_on.get(other, Load())
                    giver.counted_on[other] = counted.plus(hold.load)
                    self._spare.setdefault(other, self._spare_of(other))

    def _spare_of(self, other: WorkloadId) -> Load:
        """How much more a promise was given by its victims here than it needs; may be negative."""
        promise, here = self._room.promises[other], self._node.node.node_id
        spare = sum_loads(h.load for k, h in self._node.holds.items() if k in promise.covered)
        for one in promise.placements:
            if one.node_id == here:
                spare = spare.minus(Load(one.cpu_milli, one.memory_mib))
        return spare

    def given(self, numbers: Iterable[int]) -> tuple[Load, Load]:
        """What these candidates together give: in all, and of what only firm work may have."""
        given = firm = Load()
        leaving: set[WorkloadId] = set()
        counted: dict[WorkloadId, Load] = {}
        for number in numbers:
            giver = self._givers[number]
            leaving.add(giver.workload_id)
            given, firm = given.plus(giver.load), firm.plus(giver.firm)
            for other, load in giver.counted_on.items():
                counted[other] = counted.get(other, Load()).plus(load)
        for other, load in counted.items():
            if other not in leaving:
                spare = self._spare[other]
                lacks = load.minus(spare).positive().minus(Load().minus(spare).positive())
                given, firm = given.minus(lacks), firm.minus(lacks)
        return given, firm
