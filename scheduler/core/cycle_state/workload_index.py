"""Who stands where, kept up to date by every change instead of looked up by going through all.

A cycle asks the same questions of tens of thousands of workloads, and few of the answers have
changed since the last cycle. The index answers them from sets, and keeps the waiting jobs in
equivalence classes: the jobs of one class ask for the same under the same rules, so when the first
of them cannot start, none of them can.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpucommons.scheduler.core.cycle_state.workload_facts import (
    BIT,
    SETS,
    UNKNOWN,
    Borrowed,
    Leaving,
    QueuePosition,
    Stops,
    WorkloadFacts,
    facts_of,
)
from gpucommons.scheduler.core.model.demand import shape
from gpucommons.scheduler.core.model.going_on import Resized
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    Kind,
    Millis,
    PoolName,
    TeamName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.parents import ParentId

_AT_FIRST: tuple[Resized | None, tuple[PoolName, ...], bool] = (None, (), False)


class EquivalenceKey(NamedTuple):
    """What the jobs of one class have in common."""

    team: TeamName
    pools: tuple[PoolName, ...]
    priority: str
    kind: Kind
    over_quota: bool
    environment: str
    shape: tuple[object, ...]
    #: Children of one sweep, map or pipeline are in line together.
    part_of: ParentId | None


@dataclass(slots=True)
class EquivalenceClass:
    """Jobs that wait for the same, in order."""

    key: EquivalenceKey
    members: list[QueuePosition] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class WorkloadIndex:
    """Sets of ids by what holds for the workload. Sets have no order: sort where it matters."""

    #: It has a current attempt.
    holding: set[WorkloadId] = field(default_factory=set)
    #: It was promised devices.
    nominated: set[WorkloadId] = field(default_factory=set)
    #: An end of its attempt was announced.
    stopping: set[WorkloadId] = field(default_factory=set)
    #: It borrows and is not being stopped.
    borrowing: set[WorkloadId] = field(default_factory=set)
    #: Something may have to be done for it after each cycle.
    acting: set[WorkloadId] = field(default_factory=set)
    #: A notebook that waits.
    tickets: set[WorkloadId] = field(default_factory=set)
    paused: set[WorkloadId] = field(default_factory=set)
    #: It is paused, and was told something else, or nothing yet.
    untold: set[WorkloadId] = field(default_factory=set)
    #: It waits, and something of its own may keep it out of the line.
    hindered: set[WorkloadId] = field(default_factory=set)
    #: It runs after others.
    dependent: set[WorkloadId] = field(default_factory=set)
    #: Who runs after a workload.
    dependents_of: dict[WorkloadId, set[WorkloadId]] = field(default_factory=dict)
    final: set[WorkloadId] = field(default_factory=set)
    #: It holds, and was told to move at some time.
    moved: set[WorkloadId] = field(default_factory=set)
    #: It runs with fewer workers than it likes.
    growable: set[WorkloadId] = field(default_factory=set)
    #: It runs with more workers than it must have.
    shrinkable: set[WorkloadId] = field(default_factory=set)
    #: It left the line at some time, or was paused, after others had been stopped for it.
    withdrawn: set[WorkloadId] = field(default_factory=set)
    #: Its processes are saved on a disk or it pays so much and no more, or its pools are fewer for that.
    narrowed: set[WorkloadId] = field(default_factory=set)
    #: A notebook whose GPU memory is on the host.
    parked: set[WorkloadId] = field(default_factory=set)
    #: Whose current attempt it is.
    attempts: dict[AttemptId, WorkloadId] = field(default_factory=dict)
    equivalence_classes: dict[EquivalenceKey, EquivalenceClass] = field(default_factory=dict)
    #: Who borrows, and what.
    borrowed: dict[WorkloadId, Borrowed] = field(default_factory=dict)
    borrowed_changes: int = 0
    #: By team, how many workloads borrow in parts of a size and not in smaller ones.
    borrowed_parts: dict[TeamName, Counter[int]] = field(default_factory=dict)
    #: By team, how many jobs of each priority hold or were promised devices.
    holders: dict[TeamName, Counter[int]] = field(default_factory=dict)
    #: Attempts that are to end for somebody who waits, and how many wait for it.
    pending_victims: Counter[AttemptId] = field(default_factory=Counter)
    #: Who is being stopped and goes on nowhere.
    leaving: dict[WorkloadId, Leaving] = field(default_factory=dict)
    #: For whom others were stopped in earnest: who they were, and when it was announced last.
    stopped_for: dict[WorkloadId, dict[WorkloadId, Millis]] = field(default_factory=dict)
    _keys: dict[WorkloadId, EquivalenceKey] = field(default_factory=dict)
    _known: dict[WorkloadId, WorkloadFacts] = field(default_factory=dict)
    #: In what size, for which pools and whether kept from borrowing those were looked at who ask
    #: for something else than at first.
    _changed: dict[WorkloadId, tuple[Resized | None, tuple[PoolName, ...], bool]] = field(
        default_factory=dict
    )
    _sets: tuple[tuple[int, set[WorkloadId]], ...] = field(init=False)

    def __post_init__(self) -> None:
        """Each set with its bit."""
        self._sets = tuple((BIT[name], getattr(self, name)) for name in SETS)

    def key_of(self, workload: Workload) -> EquivalenceKey:
        """The line in which a job waits, or would."""
        found = self._keys.get(workload.workload_id)
        if found is None:
            spec = workload.spec
            found = EquivalenceKey(
                spec.team,
                spec.pools,
                spec.priority,
                spec.kind,
                spec.over_quota,
                spec.environment,
                shape(spec),
                None if spec.part_of is None else spec.part_of.parent_id,
            )
            waiting = self.equivalence_classes.get(found)
            found = self._keys[workload.workload_id] = found if waiting is None else waiting.key
        return found

    def look(self, workloads: Mapping[WorkloadId, Workload], changed: Iterable[WorkloadId]) -> None:
        """Look at these workloads again, and at who runs after them: its place is from their end on."""
        if self.dependents_of:
            changed = set(changed)
            for one in changed & self.dependents_of.keys():
                changed |= self.dependents_of[one]
        for workload_id in changed:
            workload = workloads.get(workload_id)
            before = self._known.get(workload_id, UNKNOWN)
            if workload is None:
                after = UNKNOWN
                self._known.pop(workload_id, None)
            else:
                before = self._left_where_changed(workload, before)
                after = self._known[workload_id] = facts_of(workload, workloads)
            if after != before:
                self._change(workload_id, workload, before, after)
            if workload is None:
                self._keys.pop(workload_id, None)
                self._changed.pop(workload_id, None)

    def _left_where_changed(self, workload: Workload, before: WorkloadFacts) -> WorkloadFacts:
        """A job of another size, for fewer pools or that borrows no more leaves its class for another."""
        workload_id = workload.workload_id
        confined = workload.drill is not None and workload.drill.confines
        as_submitted = workload.resized is None and not workload.submitted_pools and not confined
        if as_submitted and not self._changed:
            return before
        pools = workload.spec.pools if workload.submitted_pools else ()
        now = (workload.resized, pools, confined)
        if now == self._changed.get(workload_id, _AT_FIRST):
            return before
        if before.place is not None:
            self._leave(before.place)
        self._keys.pop(workload_id, None)
        self._changed[workload_id] = now
        return before._replace(place=None)

    def _change(
        self,
        workload_id: WorkloadId,
        workload: Workload | None,
        before: WorkloadFacts,
        after: WorkloadFacts,
    ) -> None:
        if before.sets != after.sets:
            self._count_in(workload_id, before.sets ^ after.sets, after.sets)
        if before.attempt_id != after.attempt_id:
            self._hold(workload_id, before.attempt_id, after.attempt_id)
        if before.borrowed != after.borrowed:
            self._set_borrowed(workload_id, before.borrowed, after.borrowed)
        if before.holds_at != after.holds_at:
            self._count_holds(before.holds_at, sign=-1)
            self._count_holds(after.holds_at, sign=1)
        if before.after != after.after:
            self._follow(workload_id, before.after, after.after)
        if before.stops != after.stops:
            self._stop(workload_id, before.stops, after.stops)
        if before.place != after.place:
            if before.place is not None:
                self._leave(before.place)
            if after.place is not None and workload is not None:
                self._enter(self.key_of(workload), after.place)

    def _count_in(self, workload_id: WorkloadId, changed: int, sets: int) -> None:
        for bit, members in self._sets:
            if changed & bit:
                (members.add if sets & bit else members.discard)(workload_id)

    def _hold(self, workload_id: WorkloadId, old: AttemptId | None, new: AttemptId | None) -> None:
        if old is not None:
            self.attempts.pop(old, None)
        if new is not None:
            self.attempts[new] = workload_id

    def _set_borrowed(
        self, workload_id: WorkloadId, before: Borrowed | None, after: Borrowed | None
    ) -> None:
        self._count_borrowed(before, sign=-1)
        self._count_borrowed(after, sign=1)
        self.borrowed_changes += 1
        if after is None:
            del self.borrowed[workload_id]
        else:
            self.borrowed[workload_id] = after

    def _count_borrowed(self, borrowed: Borrowed | None, *, sign: int) -> None:
        if borrowed is not None:
            _tally(self.borrowed_parts, (borrowed.team, borrowed.part), sign)

    def _count_holds(self, held: tuple[TeamName, int] | None, *, sign: int) -> None:
        if held is not None:
            _tally(self.holders, held, sign)

    def _follow(
        self,
        workload_id: WorkloadId,
        old: tuple[WorkloadId, ...],
        new: tuple[WorkloadId, ...],
    ) -> None:
        for one in old:
            followers = self.dependents_of.get(one, set())
            followers.discard(workload_id)
            if not followers:
                self.dependents_of.pop(one, None)
        for one in new:
            self.dependents_of.setdefault(one, set()).add(workload_id)

    def _stop(self, workload_id: WorkloadId, old: Stops, new: Stops) -> None:
        self.pending_victims.update(new.victims)
        self.pending_victims.subtract(old.victims)
        for one in old.victims:
            if not self.pending_victims[one]:
                del self.pending_victims[one]
        if new.leaving is not None:
            self.leaving[workload_id] = new.leaving
        elif old.leaving is not None:
            del self.leaving[workload_id]
        for beneficiary, _ in old.stopped_for:
            stopped = self.stopped_for.get(beneficiary, {})
            stopped.pop(workload_id, None)
            if not stopped:
                self.stopped_for.pop(beneficiary, None)
        for beneficiary, announced_ms in new.stopped_for:
            self.stopped_for.setdefault(beneficiary, {})[workload_id] = announced_ms

    def _enter(self, key: EquivalenceKey, place: QueuePosition) -> None:
        waiting = self.equivalence_classes.get(key)
        if waiting is None:
            waiting = self.equivalence_classes[key] = EquivalenceClass(key)
        insort(waiting.members, place)

    def _leave(self, place: QueuePosition) -> None:
        waiting = self.equivalence_classes[self._keys[place.workload_id]]
        members = waiting.members
        del members[bisect_left(members, place)]
        if not members:
            del self.equivalence_classes[waiting.key]


def _tally(by_team: dict[TeamName, Counter[int]], one: tuple[TeamName, int], sign: int) -> None:
    """One more, or less, of a team's; what there is none of is not listed."""
    team, value = one
    found = by_team.setdefault(team, Counter())
    found[value] += sign
    if not found[value]:
        del found[value]
