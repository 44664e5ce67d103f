"""The waiting jobs of one cycle, in lines, and the order in which lines get their turns.

Those of one line ask for the same under the same rules. So when one of them gets nothing at its
turn, the rest of its line is passed over: the room only shrinks until somebody loses a promise,
and then everyone has another turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Any

from gpucommons.scheduler.core.cycle_state.draft import Draft
from gpucommons.scheduler.core.cycle_state.register import Line, LineKey, Place
from gpucommons.scheduler.core.model.types import Reason, Workload, WorkloadId
from gpucommons.scheduler.core.queue import withdrawals

#: What is smaller goes first; equal ranks are told apart by age and id.
Rank = tuple[Any, ...]


class Front:
    """The first of a line who has not had a turn."""

    __slots__ = ("_ahead", "place", "rank")

    def __init__(self, rank: Rank, members: Iterable[Place]) -> None:
        """Begin with the oldest. There must be one."""
        #: The place of the line among lines.
        self.rank = rank
        self._ahead = iter(members)
        #: Age and id of who is next.
        self.place = next(self._ahead)

    @property
    def workload_id(self) -> WorkloadId:
        """Who is next."""
        return self.place.workload_id

    def goes_on(self, draft: Draft) -> bool:
        """After a turn, say whether there is a next one that is worth trying."""
        workload = draft.workloads[self.place.workload_id]
        got_nothing = workload.current is None and workload.nomination is None
        if got_nothing and withdrawals.answers_for_its_line(draft, workload):
            return False
        place = next(self._ahead, None)
        if place is None:
            return False
        self.place = place
        return True


class Fronts:
    """Lines that get their turns in one common order."""

    def __init__(self, fronts: Iterable[Front]) -> None:
        """Line them up."""
        # No two places are equal: fronts themselves are never compared.
        self._heap = [(one.rank, one.place, one) for one in fronts]
        heapify(self._heap)

    def __bool__(self) -> bool:
        """Somebody has not had a turn."""
        return bool(self._heap)

    @property
    def first(self) -> Front:
        """Who is next."""
        return self._heap[0][2]

    def step(self, draft: Draft) -> None:
        """The first had its turn."""
        front = self.first
        if front.goes_on(draft):
            heapreplace(self._heap, (front.rank, front.place, front))
        else:
            heappop(self._heap)


def in_turn(draft: Draft, fronts: Iterable[Front]) -> Iterator[Workload]:
    """Everyone who may get something, in order; each has had its turn when the next is asked for."""
    ahead = Fronts(fronts)
    while ahead:
        yield draft.workloads[ahead.first.workload_id]
        ahead.step(draft)


def fronts(
    draft: Draft,
    obstacles: Mapping[WorkloadId, Reason],
    rank: Callable[[LineKey], Rank],
    wanted: Callable[[Workload], bool] = lambda _: True,
) -> list[Front]:
    """The fronts of all lines that are wanted, without those who are not in line."""
    return [front for _, front in keyed_fronts(draft, obstacles, rank, wanted)]


def keyed_fronts(
    draft: Draft,
    obstacles: Mapping[WorkloadId, Reason],
    rank: Callable[[LineKey], Rank],
    wanted: Callable[[Workload], bool] = lambda _: True,
) -> Iterator[tuple[LineKey, Front]]:
    """Fronts with what their lines ask for. One of a line answers for all whether it is wanted."""
    for key, line in tuple(draft.register.lines.items()):
        members = eligible(line, obstacles)
        if members and wanted(draft.workloads[members[0].workload_id]):
            yield key, Front(rank(key), members)


def eligible(line: Line, obstacles: Mapping[WorkloadId, Reason]) -> list[Place]:
    """Who of a line may be considered, oldest first."""
    if not obstacles:
        return list(line.members)
    return [one for one in line.members if one.workload_id not in obstacles]
