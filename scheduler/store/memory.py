"""A store without a disk: for tests, simulation and replays.

Numbering, epochs, idempotency and order are those of the SQL store: both pass one suite. What is not
read in each cycle (schedules, sweeps, plans, …) is kept by the same SQL, in memory.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from gpucommons.scheduler.core.model.intents import Intent, Verdict
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import Changes, Cluster
from gpucommons.scheduler.core.model.types import (
    REPORTED,
    IntentId,
    Millis,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import LeaderLost
from gpucommons.scheduler.idempotency import check_same_request
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.store import rules
from gpucommons.scheduler.store.base import (
    Admit,
    Asked,
    Claims,
    Epoch,
    EventSight,
    LedgerRow,
    LogPoint,
    LostMinutes,
    Mirror,
    Page,
    StoredEvent,
    Submits,
    WorkloadFilter,
)
from gpucommons.scheduler.store.codec import encode
from gpucommons.scheduler.store.estimates import UNFORESEEN, Estimate
from gpucommons.scheduler.store.reports.memory import MemoryReports
from gpucommons.scheduler.store.sql.parts import SqlParts
from gpucommons.scheduler.store.sql.transactions import WithoutDisk


class MemoryStore(SqlParts):
    """See :class:`gpucommons.scheduler.store.base.Store`."""

    def __init__(self) -> None:
        super().__init__(WithoutDisk(self.check_lead).transactions())
        self._lock = threading.RLock()
        self._epoch, self._holder, self._commits, self._last_event = Epoch(0), "", 0, 0
        self._cluster = Cluster()
        self._workloads: dict[WorkloadId, Workload] = {}
        self._intents: dict[IntentId, Intent] = {}
        self._pending: dict[IntentId, Intent] = {}
        self._sizes: dict[IntentId, int] = {}
        self._by_key: dict[tuple[UserName, str], IntentId] = {}
        self._verdicts: dict[IntentId, Verdict] = {}
        self._events: list[StoredEvent] = []
        self._ledger: dict[tuple[WorkloadId, Millis], LedgerRow] = {}
        self._points: dict[WorkloadId, dict[tuple[str, int, int], LogPoint]] = defaultdict(dict)
        self._estimates: dict[tuple[Millis, WorkloadId], Estimate] = {}
        self._names: dict[tuple[TeamName, str], int] = {}
        self._uploads: dict[tuple[str, UserName], Millis] = {}
        self.reports = MemoryReports(
            rows=lambda from_ms, to_ms: self.ledger(from_ms=from_ms, to_ms=to_ms),
            workloads=lambda: tuple(self._workloads.values()),
        )

    def take_lead(self, holder: str) -> Epoch:
        """Become the one writer of state."""
        with self._lock:
            self._epoch, self._holder = Epoch(self._epoch + 1), holder
            return self._epoch

    def check_lead(self, epoch: Epoch) -> None:
        """See that nobody has taken over."""
        with self._lock:
            self._check(epoch)

    def leader(self) -> str:
        """Who took the lead last."""
        return self._holder

    def mirror(self) -> Mirror:
        """A view for those who do not lead."""
        return _MemoryMirror(self)

    def commits(self) -> int:
        """How many there were."""
        return self._commits

    def listen(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """There is no other process."""
        return lambda: None

    def now_ms(self) -> Millis | None:
        """There is no other clock."""
        return None

    def close(self) -> None:
        """Nothing is held."""

    def _check(self, epoch: Epoch) -> None:
        if epoch != self._epoch:
            raise LeaderLost

    # --- intents -----------------------------------------------------------------------------

    def put_intent(self, intent: Intent, *, admit: Admit | None = None) -> Intent:
        """Keep an intent, or find the one of the same key."""
        with self._lock:
            key, intent_id = (intent.by, intent.idempotency_key or ""), intent.intent_id
            has_key = intent.idempotency_key is not None
            first = self._intents.get(self._by_key.get(key, intent_id) if has_key else intent_id)
            if first is None:
                owner = rules.job_owner(intent)
                if admit is not None and owner is not None:
                    admit(self.pending_jobs(owner))
                    intent = rules.named(intent, self.next_name)
                self._intents[intent_id] = self._pending[intent_id] = first = intent
                self._sizes[intent_id] = len(encode(intent))
                if has_key:
                    self._by_key[key] = intent_id
            check_same_request(first.idempotency_key, first.fingerprint, intent.fingerprint)
            return first

    def put_intents(self, intents: Sequence[Intent]) -> None:
        """Keep several."""
        for intent in intents:
            self.put_intent(intent)

    def submits(self, owner: UserName, *, since_ms: Millis) -> Submits:
        """What was asked for a user since then."""
        with self._lock:
            jobs = (one for one in self._intents.values() if rules.job_owner(one) == owner)
            mine = [self._sizes[one.intent_id] for one in jobs if one.at_ms > since_ms]
        return Submits(count=len(mine), size_bytes=sum(mine))

    def pending_jobs(self, owner: UserName) -> frozenset[WorkloadId | ParentId]:
        """Jobs of a user that wait, seen by a cycle or not; those of one parent are one."""
        with self._lock:
            unseen = [i for i in self._pending.values() if rules.job_owner(i) == owner]
            asked = [rules.asked_part_of(i) or rules.submitted_id(i) for i in unseen]
            mine = (w for w in self._workloads.values() if w.spec.owner == owner)
            waiting = filter(rules.is_pending_job, mine)
            known = [rules.parent_of(w.spec) or w.workload_id for w in waiting]
            return frozenset((*known, *(one for one in asked if one is not None)))

    def intent_with_key(self, by: UserName, key: str, fingerprint: str) -> Intent | None:
        """The intent of this key, if there is one."""
        with self._lock:
            first = self._intents.get(self._by_key.get((by, key), IntentId("")))
            if first is not None:
                check_same_request(first.idempotency_key, first.fingerprint, fingerprint)
            return first

    def asked(self, limit: int = 1000) -> Asked:
        """Intents without a verdict, in order of arrival; all can be read."""
        with self._lock:
            return Asked(intents=tuple(itertools.islice(self._pending.values(), limit)))

    def verdict(self, intent_id: IntentId) -> Verdict | None:
        """The verdict, once there is one."""
        with self._lock:
            return self._verdicts.get(intent_id)

    # --- the leader's loop -------------------------------------------------------------------

    def load(self) -> Cluster:
        """Everything live, final workloads that live ones depend on, and those that are remembered."""
        with self._lock:
            known = rules.loaded(self._workloads, self._cluster.now_ms)
            return replace(self._cluster, workloads=known)

    def commit(self, epoch: Epoch, changes: Changes) -> tuple[StoredEvent, ...]:
        """Take over one cycle, whole."""
        with self._lock:
            self._check(epoch)
            self._commits += 1
            self._cluster = rules.applied(self._cluster, changes)
            self._workloads.update((w.workload_id, w) for w in changes.workloads)
            for verdict in changes.verdicts:
                self._verdicts.setdefault(verdict.intent_id, verdict)
                self._pending.pop(verdict.intent_id, None)
            stored = tuple(
                StoredEvent(number=number, event=event)
                for number, event in enumerate(changes.events, self._last_event + 1)
            )
            self._events.extend(stored)
            self._last_event += len(stored)
            return stored

    def add_ledger(
        self, epoch: Epoch, rows: Sequence[LedgerRow], lost: Sequence[LostMinutes] = ()
    ) -> None:
        """Add or replace rows by key, and mark what was lost after all."""
        with self._lock:
            self._check(epoch)
            marked = (rules.marked(row, lost) for row in self._ledger.values()) if lost else ()
            for row in (*marked, *rows):
                self._ledger[row.workload_id, row.minute_ms] = row

    def add_points(self, epoch: Epoch, curves: Mapping[WorkloadId, Sequence[LogPoint]]) -> None:
        """Add points to curves."""
        with self._lock:
            self._check(epoch)
            for workload_id, points in curves.items():
                curve = self._points[workload_id]
                curve.update(
                    ((point.source, point.attempt_number, point.step), point) for point in points
                )
                sizes = [(key, len(json.dumps(curve[key].metrics))) for key in sorted(curve)]
                self._points[workload_id] = {key: curve[key] for key in rules.kept_of(sizes)}

    def add_estimates(self, epoch: Epoch, estimates: Sequence[Estimate]) -> None:
        """Add or replace by key."""
        with self._lock:
            self._check(epoch)
            self._estimates.update(((one.made_ms, one.workload_id), one) for one in estimates)

    def prune(self, epoch: Epoch, *, before_ms: Millis, kept: Collection[WorkloadId]) -> int:
        """Drop what is older."""
        with self._lock:
            self._check(epoch)
            count = self._size()
            old = [
                w.workload_id
                for w in self._workloads.values()
                if is_final(w)
                and (w.ended_ms is not None and w.ended_ms < before_ms)
                and w.workload_id not in kept
            ]
            for workload_id in old:
                del self._workloads[workload_id]
                self._points.pop(workload_id, None)
            self._events = [e for e in self._events if e.event.at_ms >= before_ms]
            self._ledger = {k: r for k, r in self._ledger.items() if r.minute_ms >= before_ms}
            self._estimates = {k: e for k, e in self._estimates.items() if e.made_ms >= before_ms}
            self._drop_intents(before_ms)
            return count - self._size()

    def _drop_intents(self, before_ms: Millis) -> None:
        for intent in list(self._intents.values()):
            if intent.at_ms < before_ms and intent.intent_id in self._verdicts:
                del self._intents[intent.intent_id], self._verdicts[intent.intent_id]
                del self._sizes[intent.intent_id]
                if intent.idempotency_key is not None:
                    del self._by_key[intent.by, intent.idempotency_key]

    def _size(self) -> int:
        kept = (self._workloads, self._events, self._ledger, self._intents, self._estimates)
        return sum(map(len, (*kept, *self._points.values())))

    # --- reading -----------------------------------------------------------------------------

    def workload(self, workload_id: WorkloadId) -> Workload | None:
        """One workload, live or final."""
        return self.workloads_by_id((workload_id,)).get(workload_id)

    def workloads_by_id(self, ids: Collection[WorkloadId]) -> dict[WorkloadId, Workload]:
        """Those of these that there are, in one look."""
        with self._lock:
            return {one: self._workloads[one] for one in ids if one in self._workloads}

    def workloads(
        self, where: WorkloadFilter, *, limit: int = 100, cursor: str | None = None
    ) -> Page[Workload]:
        """A page, newest first."""
        with self._lock:
            return rules.page(self._workloads.values(), where, limit=limit, cursor=cursor)

    def intent_submits(self, ids: Collection[WorkloadId]) -> dict[WorkloadId, Intent]:
        """The unconsumed submits of these workloads, in one look."""
        with self._lock:
            pending = ((rules.submitted_id(intent), intent) for intent in self._pending.values())
            return {one: intent for one, intent in pending if one is not None and one in ids}

    def next_name(self, team: TeamName, base: str, wanted: int | None = None) -> str:
        """The next number for this base, or the one that is wanted."""
        with self._lock:
            key = team, rules.name_base(base)
            last = self._names.get(key)
            is_free = wanted is not None and (last is None or last < wanted)
            self._names[key] = wanted if wanted is not None and is_free else (last or 0) + 1
            return f"{key[1]}-{self._names[key]}"

    def note_upload(self, sha256: str, by: UserName, *, at_ms: Millis) -> None:
        """Add one, or make it young again."""
        self._uploads[sha256, by] = at_ms

    def claims(
        self, sha256: str, of: frozenset[UserName], *, team: TeamName | None = None
    ) -> Claims:
        """What ties a snapshot to these users, and to a team."""
        with self._lock:
            found = [w.spec for w in self._workloads.values() if w.spec.snapshot == sha256]
            return Claims(
                uploaded=any((sha256, user) in self._uploads for user in of),
                own_job=any(spec.owner in of for spec in found),
                team_job=any(spec.team == team for spec in found),
            )

    def drop_uploads(self, *, before_ms: Millis, is_gone: Callable[[str], bool]) -> int:
        """Those that are older, also by then."""
        old = {sha256 for (sha256, _), at_ms in self._uploads.items() if at_ms < before_ms}
        gone = {sha256 for sha256 in old if is_gone(sha256)}
        with self._lock:
            for key in [k for k, at in self._uploads.items() if k[0] in gone and at < before_ms]:
                del self._uploads[key]
        return len(gone)

    def events(  # noqa: PLR0913 - the filters of one feed, all optional and named
        self,
        *,
        after: int = 0,
        workload_id: WorkloadId | None = None,
        kinds: frozenset[str] = frozenset(),
        sight: EventSight | None = None,
        limit: int = 500,
        newest: bool = False,
    ) -> tuple[StoredEvent, ...]:
        """Events after a number, oldest first."""
        audiences = None if sight is None else rules.audiences(sight)
        until = None if sight is None else sight.until
        with self._lock:
            found = [
                e
                for e in self._events
                if e.number > after
                and (until is None or e.number <= until)
                and workload_id in (None, e.event.workload_id)
                and (not kinds or e.event.kind in kinds)
                and (audiences is None or rules.audience(e.event) in audiences)
            ]
        return tuple(found[max(0, len(found) - limit) :] if newest else found[:limit])

    def last_event_number(self) -> int:
        """The newest event's number."""
        return self._last_event

    def points(
        self, workload_id: WorkloadId, limit: int = 2000, source: str = REPORTED, from_ms: int = 0
    ) -> tuple[LogPoint, ...]:
        """A curve, thinned evenly to ``limit``."""
        with self._lock:
            curve = sorted(self._points.get(workload_id, {}).items())
        told = [one for key, one in curve if key[0] == source and one.at_ms >= from_ms]
        return rules.thinned(told, limit)

    def curve_sources(self, workload_id: WorkloadId) -> Mapping[str, int]:
        """Points by source."""
        with self._lock:
            return Counter(key[0] for key in self._points.get(workload_id, ()))

    def ledger(
        self, *, from_ms: Millis, to_ms: Millis, of: frozenset[WorkloadId] | None = None
    ) -> tuple[LedgerRow, ...]:
        """Rows of a span, by minute."""
        with self._lock:
            found = [
                r
                for r in self._ledger.values()
                if from_ms <= r.minute_ms < to_ms and (of is None or r.workload_id in of)
            ]
        return tuple(sorted(found, key=lambda row: (row.minute_ms, row.workload_id)))

    def estimates(self, *, limit: int = 5000) -> tuple[Estimate, ...]:
        """The newest ones, oldest first; waits that were told no range push out none of the others."""
        with self._lock:
            found = [self._estimates[key] for key in sorted(self._estimates)]
        rest = [one for one in found if not one.wait_class.endswith(UNFORESEEN)]
        none = [one for one in found if one.wait_class.endswith(UNFORESEEN)]
        kept = [*rest[-limit:], *none[-limit:]]
        return tuple(sorted(kept, key=lambda one: (one.made_ms, one.workload_id)))


class _MemoryMirror:
    """See :class:`gpucommons.scheduler.store.base.Mirror`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._seen = -1
        self._cluster = Cluster()

    def refresh(self) -> Cluster:
        """What was committed last."""
        commits = self._store.commits()
        if commits != self._seen:
            self._seen, self._cluster = commits, self._store.load()
        return self._cluster
