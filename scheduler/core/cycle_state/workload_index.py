"""Who stands where, kept up to date by every change instead of looked up by going through all.

A cycle asks the same questions of tens of thousands of workloads, and few of the answers have
changed since the last cycle. The index answers them from sets, and keeps the waiting jobs in
equivalence classes: the jobs of one class ask for the same under the same rules, so when the first
of them cannot start, none of them can.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpucommons.scheduler.core.model.ages import in_line_since_ms
from gpucommons.scheduler.core.model.demand import (
    class_of_worker,
    elastic,
    may_have,
    must_have,
    placed_milli_gpu,
    shape,
)
from gpucommons.scheduler.core.model.lifecycle import FINAL_STATES, WAITING_STATES, is_lease
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Kind,
    NodeId,
    PoolName,
    Resized,
    State,
    TeamName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)


class EquivalenceKey(NamedTuple):
    """What the jobs of one class have in common."""

    team: TeamName
    pools: tuple[PoolName, ...]
    priority: str
    kind: Kind
    over_quota: bool
    environment: str
    shape: tuple[object, ...]


class QueuePosition(NamedTuple):
    """Where a job stands in its class: who has been in line longest goes first."""

    since_ms: int
    workload_id: WorkloadId


@dataclass(slots=True)
class EquivalenceClass:
    """Jobs that wait for the same, in order."""

    key: EquivalenceKey
    members: list[QueuePosition] = field(default_factory=list)


#: The sets that a workload may be in.
_SETS = (
    "holding",
    "nominated",
    "stopping",
    "borrowing",
    "acting",
    "tickets",
    "paused",
    "hindered",
    "dependent",
    "final",
    "moved",
    "growable",
    "withdrawn",
)
_BIT = {name: 1 << i for i, name in enumerate(_SETS)}
_HOLDING, _NOMINATED, _STOPPING, _BORROWING, _ACTING = (_BIT[name] for name in _SETS[:5])
_TICKETS, _PAUSED, _HINDERED, _DEPENDENT, _FINAL, _MOVED, _GROWABLE, _WITHDRAWN = (
    _BIT[name] for name in _SETS[5:]
)


class Lent(NamedTuple):
    """What a workload borrows, or was promised to borrow."""

    team: TeamName
    #: The least of it that can be taken back, in milli-GPU.
    part: int
    #: Milli-GPU by node.
    nodes: tuple[tuple[NodeId, int], ...]


class _Known(NamedTuple):
    sets: int
    attempt_id: AttemptId | None = None
    #: Its place in its line, where it waits in one.
    place: QueuePosition | None = None
    lent: Lent | None = None
    #: What it runs after, as long as it is live.
    after: tuple[WorkloadId, ...] = ()


_UNKNOWN = _Known(0)


class WorkloadIndex:
    """Sets of ids by what holds for the workload. Sets have no order: sort where it matters."""

    def __init__(self) -> None:
        """Start with nobody."""
        #: It has a current attempt.
        self.holding: set[WorkloadId] = set()
        #: It was promised devices.
        self.nominated: set[WorkloadId] = set()
        #: An end of its attempt was announced.
        self.stopping: set[WorkloadId] = set()
        #: It borrows and is not being stopped.
        self.borrowing: set[WorkloadId] = set()
        #: Something may have to be done for it after each cycle.
        self.acting: set[WorkloadId] = set()
        #: A notebook that waits.
        self.tickets: set[WorkloadId] = set()
        self.paused: set[WorkloadId] = set()
        #: It waits, and something of its own may keep it out of the line.
        self.hindered: set[WorkloadId] = set()
        #: It runs after others.
        self.dependent: set[WorkloadId] = set()
        #: Who runs after a workload.
        self.followers: dict[WorkloadId, set[WorkloadId]] = {}
        self.final: set[WorkloadId] = set()
        #: It holds, and was told to move at some time.
        self.moved: set[WorkloadId] = set()
        #: It runs with fewer workers than it likes.
        self.growable: set[WorkloadId] = set()
        #: It left the line at some time, or was paused, after others had been stopped for it.
        self.withdrawn: set[WorkloadId] = set()
        #: Whose current attempt it is.
        self.attempts: dict[AttemptId, WorkloadId] = {}
        self.equivalence_classes: dict[EquivalenceKey, EquivalenceClass] = {}
        #: Who borrows, and what.
        self.lent: dict[WorkloadId, Lent] = {}
        self.lent_changes = 0
        #: By team, how many workloads borrow in parts of a size and not in smaller ones.
        self.borrowed_parts: dict[TeamName, Counter[int]] = {}
        self._keys: dict[WorkloadId, EquivalenceKey] = {}
        self._known: dict[WorkloadId, _Known] = {}
        #: In what size those were looked at whose size was changed.
        self._resized: dict[WorkloadId, Resized] = {}
        self._sets = tuple((_BIT[name], getattr(self, name)) for name in _SETS)

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
            )
            waiting = self.equivalence_classes.get(found)
            found = self._keys[workload.workload_id] = found if waiting is None else waiting.key
        return found

    def look(self, workloads: Mapping[WorkloadId, Workload], changed: Iterable[WorkloadId]) -> None:
        """Look at these workloads again, and at who runs after them: its place is from their end on."""
        if self.followers:
            changed = set(changed)
            for one in changed & self.followers.keys():
                changed |= self.followers[one]
        for workload_id in changed:
            workload = workloads.get(workload_id)
            before = self._known.get(workload_id, _UNKNOWN)
            if workload is None:
                after = _UNKNOWN
                self._known.pop(workload_id, None)
            else:
                before = self._left_where_resized(workload, before)
                after = self._known[workload_id] = _facts(workload, workloads)
            if after != before:
                self._change(workload_id, workload, before, after)
            if workload is None:
                self._keys.pop(workload_id, None)
                self._resized.pop(workload_id, None)

    def _left_where_resized(self, workload: Workload, before: _Known) -> _Known:
        """A job of another size belongs to another class: it leaves the one in which it was."""
        resized, workload_id = workload.resized, workload.workload_id
        if resized is None or resized == self._resized.get(workload_id):
            return before
        if before.place is not None:
            self._leave(before.place)
        self._keys.pop(workload_id, None)
        self._resized[workload_id] = resized
        return before._replace(place=None)

    def _change(
        self, workload_id: WorkloadId, workload: Workload | None, before: _Known, after: _Known
    ) -> None:
        if before.sets != after.sets:
            self._count_in(workload_id, before.sets ^ after.sets, after.sets)
        if before.attempt_id != after.attempt_id:
            if before.attempt_id is not None:
                self.attempts.pop(before.attempt_id, None)
            if after.attempt_id is not None:
                self.attempts[after.attempt_id] = workload_id
        if before.lent != after.lent:
            self._lend(workload_id, before.lent, after.lent)
        if before.after != after.after:
            self._follow(workload_id, before.after, after.after)
        if before.place != after.place:
            if before.place is not None:
                self._leave(before.place)
            if after.place is not None and workload is not None:
                self._enter(self.key_of(workload), after.place)

    def _count_in(self, workload_id: WorkloadId, changed: int, sets: int) -> None:
        for bit, members in self._sets:
            if changed & bit:
                (members.add if sets & bit else members.discard)(workload_id)

    def _lend(self, workload_id: WorkloadId, before: Lent | None, after: Lent | None) -> None:
        self._count_lent(before, sign=-1)
        self._count_lent(after, sign=1)
        self.lent_changes += 1
        if after is None:
            del self.lent[workload_id]
        else:
            self.lent[workload_id] = after

    def _count_lent(self, lent: Lent | None, *, sign: int) -> None:
        if lent is not None:
            parts = self.borrowed_parts.setdefault(lent.team, Counter())
            parts[lent.part] += sign
            if not parts[lent.part]:
                del parts[lent.part]

    def _follow(
        self,
        workload_id: WorkloadId,
        old: tuple[WorkloadId, ...],
        new: tuple[WorkloadId, ...],
    ) -> None:
        for one in old:
            followers = self.followers.get(one, set())
            followers.discard(workload_id)
            if not followers:
                self.followers.pop(one, None)
        for one in new:
            self.followers.setdefault(one, set()).add(workload_id)

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


def _facts(workload: Workload, workloads: Mapping[WorkloadId, Workload]) -> _Known:
    state, attempt, after = workload.state, workload.current, workload.spec.after
    sets = (_ACTING if _to_restart(workload) else 0) | (_WITHDRAWN if workload.withdrawn_ms else 0)
    if state in FINAL_STATES:
        return _Known(sets | _FINAL)
    if workload.nomination is not None:
        sets |= _NOMINATED
    if after:
        sets |= _DEPENDENT
    if attempt is not None:
        sets |= _of_attempt(workload, attempt)
        splits = elastic(workload.spec)
        lent = _lent(workload, attempt.hold_class, attempt.placements, splits=splits)
        return _Known(sets, attempt.attempt_id, lent=lent, after=after)
    if state is State.PAUSED:
        return _Known(sets | _PAUSED, after=after)
    if state not in WAITING_STATES:
        return _Known(sets, after=after)
    if after or workload.not_before_ms or workload.spec.not_before_ms:
        sets |= _HINDERED
    promise = workload.nomination
    lent = None if promise is None else _lent(workload, promise.hold_class, promise.placements)
    if is_lease(workload):
        return _Known(sets | _TICKETS, lent=lent, after=after)
    place = QueuePosition(in_line_since_ms(workload, workloads), workload.workload_id)
    return _Known(sets, place=place, lent=lent, after=after)


def _lent(
    workload: Workload,
    hold_class: HoldClass,
    placements: Sequence[WorkerPlacement],
    *,
    splits: bool = False,
) -> Lent | None:
    """What is borrowed there; an elastic job can give back one worker alone."""
    borrowed = [
        (one.node_id, placed_milli_gpu(one))
        for one in placements
        if one.device_ids and class_of_worker(hold_class, one) is HoldClass.OVER_QUOTA
    ]
    if not borrowed:
        return None
    sizes = [milli for _, milli in borrowed]
    return Lent(workload.spec.team, min(sizes) if splits else sum(sizes), tuple(borrowed))


def _to_restart(workload: Workload) -> bool:
    """A notebook's server may have to come back without a GPU."""
    last = workload.attempts[-1].stop if workload.attempts else None
    return last is not None and last.restart_on_cpu


def _of_attempt(workload: Workload, attempt: Attempt) -> int:
    sets = _HOLDING
    if attempt.stop is not None:
        sets |= _STOPPING | _ACTING
    elif attempt.hold_class is HoldClass.OVER_QUOTA:
        sets |= _BORROWING
    if (
        attempt.state is AttemptState.STARTING
        or attempt.spared_ms is not None
        or workload.redeem_by_ms is not None
    ):
        sets |= _ACTING
    if _is_growable(workload, attempt):
        sets |= _GROWABLE
    if any(one.stop is not None and one.stop.why == "move" for one in workload.attempts):
        sets |= _MOVED
    return sets


def _is_growable(workload: Workload, attempt: Attempt) -> bool:
    spec = workload.spec
    if attempt.state is not AttemptState.RUNNING or attempt.stop is not None:
        return False
    if not spec.over_quota or not elastic(spec):
        return False
    return len(attempt.placements) < len(must_have(spec)) + len(may_have(spec))
