"""The waiting jobs of one cycle in classes of equal requests, and the order in which classes are tried.

The jobs of one class ask for the same under the same rules. So when one of them gets nothing, the
rest of its class is passed over: free capacity only shrinks until somebody loses a promise, and then
every class is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Any

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.workload_facts import QueuePosition
from gpucommons.scheduler.core.cycle_state.workload_index import EquivalenceClass, EquivalenceKey
from gpucommons.scheduler.core.model.types import Reason, Workload, WorkloadId
from gpucommons.scheduler.core.queue import reclaim_cooldown

#: What is smaller goes first; equal ranks are told apart by age and id.
Rank = tuple[Any, ...]


class ClassHead:
    """The first job of a class that was not tried yet."""

    __slots__ = ("_ahead", "place", "rank")

    def __init__(self, rank: Rank, members: Iterable[QueuePosition]) -> None:
        """Begin with the oldest. There must be one."""
        #: The place of the class among classes.
        self.rank = rank
        self._ahead = iter(members)
        #: Age and id of who is next.
        self.place = next(self._ahead)

    @property
    def workload_id(self) -> WorkloadId:
        """Who is next."""
        return self.place.workload_id

    def goes_on(self, cycle: CycleState) -> bool:
        """After a try, say whether there is a next one that is worth trying."""
        workload = cycle.workloads[self.place.workload_id]
        got_nothing = workload.current is None and workload.nomination is None
        if got_nothing and reclaim_cooldown.answers_for_its_class(cycle, workload):
            return False
        place = next(self._ahead, None)
        if place is None:
            return False
        self.place = place
        return True


class ClassHeads:
    """Classes that are tried in one common order."""

    def __init__(self, heads: Iterable[ClassHead]) -> None:
        """Order them."""
        # No two places are equal: heads themselves are never compared.
        self._heap = [(one.rank, one.place, one) for one in heads]
        heapify(self._heap)

    def __bool__(self) -> bool:
        """Somebody has not had a turn."""
        return bool(self._heap)

    @property
    def first(self) -> ClassHead:
        """Who is next."""
        return self._heap[0][2]

    def step(self, cycle: CycleState) -> None:
        """The first had its turn."""
        head = self.first
        if head.goes_on(cycle):
            heapreplace(self._heap, (head.rank, head.place, head))
        else:
            heappop(self._heap)


def in_turn(cycle: CycleState, heads: Iterable[ClassHead]) -> Iterator[Workload]:
    """Everyone who may get something, in order; each has had its turn when the next is asked for."""
    ahead = ClassHeads(heads)
    while ahead:
        yield cycle.workloads[ahead.first.workload_id]
        ahead.step(cycle)


def heads(
    cycle: CycleState,
    obstacles: Mapping[WorkloadId, Reason],
    rank: Callable[[EquivalenceKey], Rank],
    wanted: Callable[[Workload], bool] = lambda _: True,
) -> list[ClassHead]:
    """The heads of all classes that are wanted, without jobs that are not eligible."""
    return [head for _, head in keyed_heads(cycle, obstacles, rank, wanted)]


def keyed_heads(
    cycle: CycleState,
    obstacles: Mapping[WorkloadId, Reason],
    rank: Callable[[EquivalenceKey], Rank],
    wanted: Callable[[Workload], bool] = lambda _: True,
) -> Iterator[tuple[EquivalenceKey, ClassHead]]:
    """Heads with what their classes ask for. One job of a class answers for all whether it is wanted."""
    for key, waiting in tuple(cycle.index.equivalence_classes.items()):
        members = eligible(waiting, obstacles)
        if members and wanted(cycle.workloads[members[0].workload_id]):
            yield key, ClassHead(rank(key), members)


def eligible(
    waiting: EquivalenceClass, obstacles: Mapping[WorkloadId, Reason]
) -> list[QueuePosition]:
    """Who of a class may be considered, oldest first."""
    if not obstacles:
        return list(waiting.members)
    return [one for one in waiting.members if one.workload_id not in obstacles]
