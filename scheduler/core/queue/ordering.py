"""Who is considered first: by priority, share and age (time in line), with fixed ties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.workload_facts import QueuePosition
from gpucommons.scheduler.core.cycle_state.workload_index import EquivalenceKey
from gpucommons.scheduler.core.model.demand import on_cpu_only
from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES, in_line_since_ms, is_lease
from gpucommons.scheduler.core.model.types import (
    PoolName,
    Reason,
    ReasonClass,
    TeamName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.queue.equivalence_classes import (
    ClassHead,
    ClassHeads,
    Rank,
    heads,
    in_turn,
    keyed_heads,
)

#: Priorities by name.
PRIORITIES = {"low": -100, "normal": 0, "high": 100}
HIGHEST = max(PRIORITIES.values())

Usage = dict[tuple[TeamName, PoolName], int]
#: Whether the line of this job is considered.
Wanted = Callable[[Workload], bool]


def priority(workload: Workload) -> int:
    """Its priority as a number; higher goes first."""
    return PRIORITIES[workload.spec.priority]


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
    }
)


def places(workloads: Mapping[WorkloadId, Workload]) -> dict[WorkloadId, int]:
    """The place of everyone in line within team, pool and kind, from 1."""
    in_line = [
        one
        for one in workloads.values()
        if one.state in WAITING_STATES
        and (one.reason is None or one.reason.code not in _OUT_OF_LINE)
    ]
    found: dict[WorkloadId, int] = {}
    lengths: dict[tuple[TeamName, PoolName, bool], int] = {}
    for one in sorted(in_line, key=in_team(workloads)):
        line = (one.spec.team, one.spec.pools[0], is_lease(one))
        found[one.workload_id] = lengths[line] = lengths.get(line, 0) + 1
    return found


def surplus_had(cycle: CycleState, usage: Usage, team: TeamName, pool: PoolName) -> tuple[int, ...]:
    """How much of a pool's surplus a department and its team have had."""
    return cycle.accounts(pool, usage, cycle.uses).line(team)


def for_guarantee(
    cycle: CycleState,
    usage: Usage,
    obstacles: Mapping[WorkloadId, Reason],
    wanted: Wanted,
    running: Iterable[Workload] = (),
) -> Iterator[Workload]:
    """Line up in-guarantee work: priority, what runs already, the share of its team, age.

    A borrower that becomes in-guarantee costs nobody anything; a waiting job that takes the last of
    the guarantee before it would stop somebody else's borrower instead. A team's share is that of
    the pool it likes most, as it stands when the turns begin.
    """
    lines: dict[tuple[TeamName, PoolName], tuple[int, ...]] = {}

    def rank(key: EquivalenceKey, *, waits: bool = True) -> Rank:
        home = (key.team, key.pools[0])
        if home not in lines:
            lines[home] = surplus_had(cycle, usage, *home)
        return (-PRIORITIES[key.priority], waits, lines[home])

    ahead = heads(cycle, obstacles, rank, wanted)
    for one in running:
        place = QueuePosition(in_line_since_ms(one, cycle.workloads), one.workload_id)
        ahead.append(ClassHead(rank(cycle.index.key_of(one), waits=False), (place,)))
    return in_turn(cycle, ahead)


def by_standing(cycle: CycleState, usage: Usage, workloads: Iterable[Workload]) -> list[Workload]:
    """Sort by priority, then the share of the team, then age."""
    return sorted(
        workloads,
        key=lambda one: (
            -priority(one),
            surplus_had(cycle, usage, one.spec.team, one.spec.pools[0]),
            in_line_since_ms(one, cycle.workloads),
            one.workload_id,
        ),
    )


class _Contender(NamedTuple):
    """A team, and what for: its work on GPUs and its work without one take turns apart."""

    without_gpu: bool
    team: TeamName


def for_surplus(
    cycle: CycleState, usage: Usage, obstacles: Mapping[WorkloadId, Reason]
) -> Iterator[Workload]:
    """Line up over-quota work: each time the team that has had least for its weight.

    Looks at what teams hold at each step, so what was admitted a moment ago already counts. Work
    without a GPU comes after: there it is the team that holds fewest processors for its weight.
    """
    by_team: dict[_Contender, list[ClassHead]] = {}
    for key, head in keyed_heads(cycle, obstacles, lambda key: (-PRIORITIES[key.priority],)):
        without_gpu = on_cpu_only(cycle.workloads[head.workload_id].spec)
        by_team.setdefault(_Contender(without_gpu, key.team), []).append(head)
    ahead = {one: ClassHeads(fronts_of) for one, fronts_of in by_team.items()}
    dues = _Dues(cycle, usage)
    while ahead:
        first = dues.most_due(ahead)
        yield cycle.workloads[ahead[first].first.workload_id]
        ahead[first].step(cycle)
        dues.had_turn(first)
        if not ahead[first]:
            del ahead[first]


class _Dues:
    """How much each team has had; added up anew after its turn, and when its pool changes hands."""

    def __init__(self, cycle: CycleState, usage: Usage) -> None:
        self._draft = cycle
        self._usage = usage
        self._uses = dict(cycle.uses)
        self._known: dict[_Contender, tuple[bool, tuple[int, ...], QueuePosition]] = {}
        self._pools: dict[_Contender, PoolName] = {}

    def most_due(self, ahead: Mapping[_Contender, ClassHeads]) -> _Contender:
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
        uses = self._draft.uses
        if uses == self._uses:
            return
        changed = {key[1] for key, use in uses.items() if self._uses.get(key) != use}
        for one in [one for one in self._known if self._pools[one] in changed]:
            del self._known[one]
        self._uses = dict(uses)

    def _due(self, one: _Contender, head: ClassHead) -> tuple[bool, tuple[int, ...], QueuePosition]:
        pool = self._pools[one] = self._draft.workloads[head.workload_id].spec.pools[0]
        accounts = self._draft.accounts(pool, self._usage, self._draft.uses)
        line = accounts.line_without_gpu if one.without_gpu else accounts.line
        return one.without_gpu, line(one.team), head.place


def by_priority(
    cycle: CycleState, obstacles: Mapping[WorkloadId, Reason], wanted: Wanted
) -> Iterator[Workload]:
    """Line up who waits and is wanted: priority, then age."""
    return in_turn(cycle, heads(cycle, obstacles, lambda key: (-PRIORITIES[key.priority],), wanted))
