"""Who is considered first: by priority, share and age (time in line), with fixed ties.

Waiting jobs are lined up in classes of equal requests. When one of a class gets nothing, the rest of it
is passed over: free capacity only shrinks until somebody loses a promise, and then every class is tried
again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Any, NamedTuple

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.workload_facts import QueuePosition
from gpucommons.scheduler.core.cycle_state.workload_index import EquivalenceClass, EquivalenceKey
from gpucommons.scheduler.core.model.demand import PRIORITIES, on_cpu_only, priority
from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES, in_line_since_ms, is_lease
from gpucommons.scheduler.core.model.types import (
    PoolName,
    ReasonClass,
    TeamName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.queue import reclaim_cooldown
from gpucommons.scheduler.parents import ParentId

#: Whether the line of this job is considered.
Wanted = Callable[[Workload], bool]


def by_age(workload: Workload) -> tuple[int, str]:
    """Oldest first; tickets are in line from the moment they are asked for."""
    return (workload.submitted_ms, workload.workload_id)


def in_team(
    workloads: Mapping[WorkloadId, Workload],
) -> Callable[[Workload], tuple[int, int, str]]:
    """The order within a team: priority, then time in line."""

    def key(one: Workload) -> tuple[int, int, str]:
        return (-priority(one), in_line_since_ms(one, workloads), one.workload_id)

    return key


#: Who waits for one of these is not in line: something else must happen first.
_OUT_OF_LINE = frozenset(
    {
        ReasonClass.PAUSED,
        ReasonClass.BACKOFF,
        ReasonClass.DEPENDENCY,
        ReasonClass.POLICY,
        ReasonClass.MISCONFIGURED,
        ReasonClass.NEVER,
        ReasonClass.PRICE,
    }
)


def places(workloads: Mapping[WorkloadId, Workload]) -> dict[WorkloadId, int]:
    """The place of everyone in line within team, pool and kind, from 1; children of one parent take turns."""
    in_line = [
        one
        for one in workloads.values()
        if one.state in WAITING_STATES
        and (one.reason is None or one.reason.code not in _OUT_OF_LINE)
    ]
    found: dict[WorkloadId, int] = {}
    lengths: dict[tuple[TeamName, PoolName, bool], int] = {}
    for one in _in_turns(sorted(in_line, key=in_team(workloads)), workloads):
        line = (one.spec.team, one.spec.pools[0], is_lease(one))
        found[one.workload_id] = lengths[line] = lengths.get(line, 0) + 1
    return found


def _in_turns(in_line: list[Workload], workloads: Mapping[WorkloadId, Workload]) -> list[Workload]:
    """So many of a parent's children hold GPUs or stand before one of them: behind so many of others."""
    if not any(one.spec.part_of for one in in_line):
        return in_line
    had = _siblings(workloads.values())
    turns: list[tuple[int, int]] = []
    for one in in_line:
        parent = _parent_of(one)
        turns.append((-priority(one), 0 if parent is None else had[parent]))
        if parent is not None:
            had[parent] += 1
    order = sorted(range(len(in_line)), key=turns.__getitem__)
    return [in_line[i] for i in order]


def _parent_of(workload: Workload) -> ParentId | None:
    part_of = workload.spec.part_of
    return None if part_of is None else part_of.parent_id


def _siblings(workloads: Iterable[Workload]) -> Counter[ParentId]:
    """How many of each parent's children hold devices, or were promised some."""
    return Counter(
        parent
        for one in workloads
        if (one.nomination is not None or one.current is not None)
        and (parent := _parent_of(one)) is not None
    )


#: What is smaller goes first; equal ranks are told apart by age and id.
_Rank = tuple[Any, ...]


class _ClassHead:
    """The first job of a class that was not tried yet."""

    __slots__ = ("_ahead", "_rank", "_turn", "place")

    def __init__(
        self, rank: _Rank, members: Iterable[QueuePosition], turn: int | None = None
    ) -> None:
        """Begin with the oldest. There must be one.

        ``turn`` is how many have had theirs of the parent whose children these are.
        """
        self._rank, self._turn = rank, turn
        self._ahead = iter(members)
        #: Age and id of who is next.
        self.place = next(self._ahead)

    @property
    def rank(self) -> _Rank:
        """The place of the class among classes: a parent is one, and its next child comes at its next turn."""
        return (*self._rank, self._turn or 0)

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
        if self._turn is not None and not got_nothing:
            self._turn += 1
        return True


class _ClassHeads:
    """Classes that are tried in one common order."""

    def __init__(self, heads: Iterable[_ClassHead]) -> None:
        """Order them."""
        # No two places are equal: heads themselves are never compared.
        self._heap = [(one.rank, one.place, one) for one in heads]
        heapify(self._heap)

    def __bool__(self) -> bool:
        """Somebody has not had a turn."""
        return bool(self._heap)

    @property
    def first(self) -> _ClassHead:
        """Who is next."""
        return self._heap[0][2]

    def step(self, cycle: CycleState) -> None:
        """The first had its turn."""
        head = self.first
        if head.goes_on(cycle):
            heapreplace(self._heap, (head.rank, head.place, head))
        else:
            heappop(self._heap)


def _in_turn(cycle: CycleState, heads: Iterable[_ClassHead]) -> Iterator[Workload]:
    """Everyone who may get something, in order; each has had its turn when the next is asked for."""
    ahead = _ClassHeads(heads)
    while ahead:
        yield cycle.workloads[ahead.first.workload_id]
        ahead.step(cycle)


def _heads(
    cycle: CycleState,
    rank: Callable[[EquivalenceKey], _Rank],
    wanted: Wanted = lambda _: True,
    among: Iterable[EquivalenceKey] | None = None,
) -> Iterator[tuple[EquivalenceKey, _ClassHead]]:
    """The heads of all classes that are wanted, with what these ask for, without who is not eligible.

    One job of a class answers for all whether it is wanted. ``among``: of these classes alone.
    """
    known = cycle.index.equivalence_classes
    classes = tuple(
        known.items() if among is None else ((one, known[one]) for one in among if one in known)
    )
    had: Counter[ParentId] = Counter()
    if any(key.part_of is not None for key, _ in classes):
        had = _siblings(cycle.among(cycle.index.holding | cycle.index.nominated))
    for key, waiting in classes:
        members = _eligible(cycle, waiting)
        if members and wanted(cycle.workloads[members[0].workload_id]):
            turn = None if key.part_of is None else had[key.part_of]
            yield key, _ClassHead(rank(key), members, turn)


def _eligible(cycle: CycleState, waiting: EquivalenceClass) -> list[QueuePosition]:
    """Who of a class may be considered, oldest first."""
    obstacles = cycle.turns.obstacles
    if not obstacles:
        return list(waiting.members)
    return [one for one in waiting.members if one.workload_id not in obstacles]


def surplus_had(cycle: CycleState, team: TeamName, pool: PoolName) -> tuple[int, ...]:
    """How much of a pool's surplus a department and its team have had."""
    return cycle.accounts(pool, cycle.uses).line(team)


def for_guarantee(
    cycle: CycleState,
    wanted: Wanted,
    running: Iterable[Workload] = (),
) -> Iterator[Workload]:
    """Line up in-guarantee work: priority, what runs already, what its team had of the surplus, age.

    A borrower that becomes in-guarantee costs nobody anything; a waiting job that takes the last of
    the guarantee before it would stop somebody else's borrower instead. What a team had is that of
    the pool it likes most, as it stands when the turns begin.
    """
    lines: dict[tuple[TeamName, PoolName], tuple[int, ...]] = {}

    def rank(key: EquivalenceKey, *, waits: bool = True) -> _Rank:
        home = (key.team, key.pools[0])
        if home not in lines:
            lines[home] = surplus_had(cycle, *home)
        return (-PRIORITIES[key.priority], waits, lines[home])

    ahead = [head for _, head in _heads(cycle, rank, wanted)]
    for one in running:
        place = QueuePosition(in_line_since_ms(one, cycle.workloads), one.workload_id)
        ahead.append(_ClassHead(rank(cycle.index.key_of(one), waits=False), (place,)))
    return _in_turn(cycle, ahead)


def by_standing(cycle: CycleState, workloads: Iterable[Workload]) -> list[Workload]:
    """Sort by priority, then the share of the team, then age."""
    return sorted(
        workloads,
        key=lambda one: (
            -priority(one),
            surplus_had(cycle, one.spec.team, one.spec.pools[0]),
            in_line_since_ms(one, cycle.workloads),
            one.workload_id,
        ),
    )


class _Contender(NamedTuple):
    """A team, and what for: its work on GPUs and its work without one take turns apart."""

    without_gpu: bool
    team: TeamName


def for_surplus(cycle: CycleState, has_two_turns: Wanted) -> Iterator[tuple[Workload, bool]]:
    """Line up over-quota work: each time the team that has had least for its weight.

    Looks at what teams hold at each step, so what was admitted a moment ago already counts. Work
    without a GPU comes after: there it is the team that holds fewest processors for its weight.

    Whoever ``has_two_turns`` has the second (True beside it) behind all of its team, and before a team that
    has had more.
    """

    def rank(key: EquivalenceKey) -> _Rank:
        return (-PRIORITIES[key.priority],)

    by_team: dict[_Contender, list[_ClassHead]] = {}
    again: dict[_Contender, list[EquivalenceKey]] = {}
    for key, head in _heads(cycle, rank):
        workload = cycle.workloads[head.workload_id]
        contender = _Contender(on_cpu_only(workload.spec), key.team)
        by_team.setdefault(contender, []).append(head)
        if has_two_turns(workload):
            again.setdefault(contender, []).append(key)
    ahead = {one: _ClassHeads(fronts_of) for one, fronts_of in by_team.items()}
    second: set[_Contender] = set()
    dues = _Dues(cycle)
    while ahead:
        first = dues.most_due(ahead)
        yield cycle.workloads[ahead[first].first.workload_id], first in second
        ahead[first].step(cycle)
        dues.had_turn(first)
        if not ahead[first]:
            ahead[first] = _ClassHeads(
                head for _, head in _heads(cycle, rank, among=again.pop(first, ()))
            )
            second.add(first)
        if not ahead[first]:
            del ahead[first]


class _Dues:
    """How much each team has had; added up anew after its turn, and when its pool changes hands."""

    def __init__(self, cycle: CycleState) -> None:
        self._cycle = cycle
        self._uses = dict(cycle.uses)
        self._known: dict[_Contender, tuple[bool, tuple[int, ...], QueuePosition]] = {}
        self._pools: dict[_Contender, PoolName] = {}

    def most_due(self, ahead: Mapping[_Contender, _ClassHeads]) -> _Contender:
        """The team that has had least, then whose first in line is oldest."""
        self._look()
        for one, fronts_of in ahead.items():
            if one not in self._known:
                self._known[one] = self._due(one, fronts_of.first)
        return min(ahead, key=self._known.__getitem__)

    def had_turn(self, one: _Contender) -> None:
        """Another of the team is next, if any."""
        self._known.pop(one, None)

    def _look(self) -> None:
        uses = self._cycle.uses
        if uses == self._uses:
            return
        changed = {key[1] for key, use in uses.items() if self._uses.get(key) != use}
        for one in [one for one in self._known if self._pools[one] in changed]:
            del self._known[one]
        self._uses = dict(uses)

    def _due(
        self, one: _Contender, head: _ClassHead
    ) -> tuple[bool, tuple[int, ...], QueuePosition]:
        pool = self._pools[one] = self._cycle.workloads[head.workload_id].spec.pools[0]
        accounts = self._cycle.accounts(pool, self._cycle.uses)
        line = accounts.line_without_gpu if one.without_gpu else accounts.line
        return one.without_gpu, line(one.team), head.place


def by_priority(cycle: CycleState, wanted: Wanted) -> Iterator[Workload]:
    """Line up who waits and is wanted: priority, then age."""
    found = _heads(cycle, lambda key: (-PRIORITIES[key.priority],), wanted)
    return _in_turn(cycle, (head for _, head in found))
