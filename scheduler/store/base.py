"""The one contract with durable memory; ``memory`` and ``sql`` pass the same suite.

Three kinds of writers, kept apart: the API adds *intents* and blobs, executors add *observations*
through the loop, and only the leader's loop commits *changes*, one transaction a cycle, checking
its epoch. All methods are synchronous and may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from gpucommons.scheduler.core.model.intents import Intent, Verdict
from gpucommons.scheduler.core.model.state import Changes, Cluster, Event
from gpucommons.scheduler.core.model.types import (
    REPORTED,
    HoldClass,
    IntentId,
    Kind,
    Millis,
    PoolName,
    State,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.store.estimates import Estimate
from gpucommons.scheduler.store.notifications.base import NotificationStore
from gpucommons.scheduler.store.pipelines.base import PipelineStore
from gpucommons.scheduler.store.plans.base import PlanStore
from gpucommons.scheduler.store.profiles.base import ProfileStore
from gpucommons.scheduler.store.quota_minutes.base import QuotaMinuteStore
from gpucommons.scheduler.store.reports.base import ReportStore
from gpucommons.scheduler.store.schedules.base import Epoch as Epoch  # noqa: PLC0414 - for others
from gpucommons.scheduler.store.schedules.base import ScheduleStore
from gpucommons.scheduler.store.sweeps.base import SweepStore

T = TypeVar("T")

#: Is given what :meth:`Store.pending_jobs` has of the new job's owner, and raises to refuse it.
Admit = Callable[[frozenset[WorkloadId | ParentId]], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredEvent:
    """An event with its number: the cursor of feeds."""

    number: int
    event: Event


@dataclass(frozen=True, kw_only=True, slots=True)
class EventSight:
    """Which events somebody may see: of these teams, and those of no team that they caused."""

    teams: frozenset[TeamName] = frozenset()
    by: str | None = None
    #: Look no further than this number: who sees little would have everything searched.
    until: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """What ties a snapshot to some users and a team."""

    #: One of the users brought its bytes.
    uploaded: bool = False
    #: A job of one of the users runs, or ran, from it.
    own_job: bool = False
    #: A job of the team does, or did.
    team_job: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadFilter:
    """Which workloads to list; empty fields do not restrict."""

    kinds: frozenset[Kind] = frozenset()
    states: frozenset[State] = frozenset()
    teams: frozenset[TeamName] = frozenset()
    owner: UserName | None = None
    name: str | None = None
    part_of: ParentId | None = None
    snapshot: str | None = None
    #: With one of these labels; perhaps some more, of whose request another entry reads the same.
    labelled: frozenset[tuple[str, str]] = frozenset()
    #: True: only those that are not final; False: only final ones.
    live: bool | None = None
    #: Only those that have ended since, and listed by when they ended.
    ended_after_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[T]):
    """A page of a list, newest first; ``cursor`` is None on the last page."""

    items: tuple[T, ...]
    cursor: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerRow:
    """One minute of one workload: what it held or had parked, and what it used. Key: (workload, minute)."""

    workload_id: WorkloadId
    minute_ms: Millis
    team: TeamName
    pool: PoolName
    owner: UserName
    kind: Kind
    hold_class: HoldClass
    #: Held during the minute, in milli-GPU·milliseconds.
    held_milli_gpu_ms: int
    #: Of that, held by workers of an elastic job beyond its guarantee: borrowed, though its class is not.
    surplus_milli_gpu_ms: int = 0
    #: Of that, after work since the last checkpoint was thrown away; filled in at an eviction.
    lost_milli_gpu_ms: int = 0
    parked_milli_gpu_ms: int = 0  #: No part of it: what a parked notebook would have held.
    #: True where the culler counted the minute as idle.
    idle: bool = False
    compute_percent_mean: int | None = None
    memory_used_mib_max: int | None = None
    project: str = ""  #: The value of the label `project`; "" without.

    @property
    def borrowed_milli_gpu_ms(self) -> int:
        """What of it was over the quota: all, where the job is; else what it held beyond its guarantee."""
        over = self.hold_class is HoldClass.OVER_QUOTA
        return self.held_milli_gpu_ms if over else self.surplus_milli_gpu_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class LostMinutes:
    """Minutes of one workload whose rows are written: all that it held in them was for nothing."""

    workload_id: WorkloadId
    from_ms: Millis
    to_ms: Millis


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPoint:
    """One step of a job's curve."""

    attempt_number: int
    step: int
    at_ms: Millis
    metrics: dict[str, float] = field(default_factory=dict)
    #: Where it was read; ``report`` = the script itself told it.
    source: str = REPORTED
    #: What steps count, where the source says so.
    unit: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submits:
    """Jobs that were asked for within a while, and how long their documents are together."""

    count: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Intents without a verdict, in order of arrival, and what is to be said of those that cannot be read."""

    intents: tuple[Intent, ...] = ()
    unreadable: tuple[Verdict, ...] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.intents) + len(self.unreadable)


class Mirror(Protocol):
    """What a replica that does not lead sees of the cluster. One thread at a time."""

    def refresh(self) -> Cluster:
        """What was committed last; the same object as before when that is nothing new."""
        ...


class Store(Protocol):
    """Durable memory. Raises :class:`gpucommons.scheduler.errors.LeaderLost` on a stale epoch."""

    @property
    def schedules(self) -> ScheduleStore:
        """Jobs that start again and again."""
        ...

    @property
    def quota_minutes(self) -> QuotaMinuteStore:
        """How large pools and quotas were, and what was lent of them."""
        ...

    @property
    def reports(self) -> ReportStore:
        """Sums over what the ledger and jobs that are over say."""
        ...

    @property
    def plans(self) -> PlanStore:
        """Plans that were offered, and what became of them."""
        ...

    @property
    def profiles(self) -> ProfileStore:
        """Forms of teams that jobs are started with."""
        ...

    @property
    def sweeps(self) -> SweepStore:
        """Many jobs over a search space or a list."""
        ...

    @property
    def pipelines(self) -> PipelineStore:
        """Jobs that belong together."""
        ...

    @property
    def notifications(self) -> NotificationStore:
        """Who wants to be told what, and messages on their way."""
        ...

    # --- leadership ---
    def take_lead(self, holder: str) -> Epoch:
        """Become the one writer of state; earlier epochs are stale from now on."""
        ...

    def check_lead(self, epoch: Epoch) -> None:
        """See that this epoch is still the one that writes; raises ``LeaderLost``."""
        ...

    def leader(self) -> str:
        """The holder that took the lead last; "" when nobody ever did."""
        ...

    def mirror(self) -> Mirror:
        """For a replica that does not lead."""
        ...

    def listen(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back when another process has ``asked`` or ``committed`` something, soon but without
        promise, from a thread of the store's; returns what ends that.
        """
        ...

    def now_ms(self) -> Millis | None:
        """The one clock of all replicas; None where a store serves one scheduler alone."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...

    # --- intents (any replica) ---
    def put_intent(self, intent: Intent, *, admit: Admit | None = None) -> Intent:
        """Commit an intent, durably. The same ``(by, idempotency_key)`` returns the first one; with
        another fingerprint raises ``Conflict``. With ``admit`` a new job is asked for only if that lets
        it in, no other submit of its owner comes in between, and its name is the next of its base.
        """
        ...

    def put_intents(self, intents: Sequence[Intent]) -> None:
        """Commit several that have no key, in this order: all of them or none."""
        ...

    def submits(self, owner: UserName, *, since_ms: Millis) -> Submits:
        """What was asked for a user since then, whatever became of it."""
        ...

    def pending_jobs(self, owner: UserName) -> frozenset[WorkloadId | ParentId]:
        """Jobs of a user that wait or are paused, seen by a cycle or not; a parent's are one, by its id."""
        ...

    def intent_with_key(self, by: UserName, key: str, fingerprint: str) -> Intent | None:
        """What :meth:`put_intent` would return or raise for a key that was used; else None."""
        ...

    def asked(self, limit: int = 1000) -> Asked:
        """Intents without a verdict, as they came; a damaged or foreign one keeps no other from its turn."""
        ...

    def verdict(self, intent_id: IntentId) -> Verdict | None:
        """The verdict, once a cycle has handled the intent."""
        ...

    # --- the leader's loop ---
    def load(self) -> Cluster:
        """What the loop starts from: everything live, the final workloads that a live one depends
        on, and those that are remembered (:func:`.lifecycle.is_remembered`).
        """
        ...

    def commit(self, epoch: Epoch, changes: Changes) -> tuple[StoredEvent, ...]:
        """Write one cycle in one transaction; numbers its events without gaps, in order."""
        ...

    def add_ledger(
        self, epoch: Epoch, rows: Sequence[LedgerRow], lost: Sequence[LostMinutes] = ()
    ) -> None:
        """Add or replace ledger rows by key, and mark what was lost after all, in one transaction."""
        ...

    def add_points(self, epoch: Epoch, curves: Mapping[WorkloadId, Sequence[LogPoint]]) -> None:
        """Add points to jobs' curves in one transaction (same source, attempt and step: replaced); a curve
        that grows too long loses every second point.
        """
        ...

    def add_estimates(self, epoch: Epoch, estimates: Sequence[Estimate]) -> None:
        """Add forecast windows, or replace them by (workload, time made)."""
        ...

    def prune(self, epoch: Epoch, *, before_ms: Millis, kept: Collection[WorkloadId]) -> int:
        """Drop ledger rows, events, points, estimates and final workloads older than this; ``kept``
        are final workloads that the cluster needs still. Returns how many rows went.
        """
        ...

    # --- reading (any replica) ---
    def workload(self, workload_id: WorkloadId) -> Workload | None:
        """One workload, live or final."""
        ...

    def workloads_by_id(self, ids: Collection[WorkloadId]) -> dict[WorkloadId, Workload]:
        """Those of these that there are, live or final, in one look."""
        ...

    def workloads(
        self, where: WorkloadFilter, *, limit: int = 100, cursor: str | None = None
    ) -> Page[Workload]:
        """Workloads, newest first."""
        ...

    def intent_submits(self, ids: Collection[WorkloadId]) -> dict[WorkloadId, Intent]:
        """The unconsumed submits of these workloads, which read as ``queued``, in one look."""
        ...

    def next_name(self, team: TeamName, base: str, wanted: int | None = None) -> str:
        """The next free name of a team, ``digits-7``, or with a ``wanted`` later number; never reused."""
        ...

    def note_upload(self, sha256: str, by: UserName, *, at_ms: Millis) -> None:
        """Somebody has brought the bytes of this snapshot, now or once more."""
        ...

    def claims(
        self, sha256: str, of: frozenset[UserName], *, team: TeamName | None = None
    ) -> Claims:
        """What ties a snapshot to these users, and to a team."""
        ...

    def drop_uploads(self, *, before_ms: Millis, is_gone: Callable[[str], bool]) -> int:
        """Forget older uploads of snapshots that are gone; returns of how many snapshots."""
        ...

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
        """Events with larger numbers, oldest first; beyond ``limit`` the oldest are kept, or with
        ``newest`` the last ones.
        """
        ...

    def last_event_number(self) -> int:
        """The number of the newest event; 0 when there is none."""
        ...

    def points(
        self, workload_id: WorkloadId, limit: int = 2000, source: str = REPORTED, from_ms: int = 0
    ) -> tuple[LogPoint, ...]:
        """A job's curve as one source tells it, oldest first; what was told since a moment alone."""
        ...

    def curve_sources(self, workload_id: WorkloadId) -> Mapping[str, int]:
        """Where a job's curve was read, with how many points are kept of each source."""
        ...

    def ledger(
        self, *, from_ms: Millis, to_ms: Millis, of: frozenset[WorkloadId] | None = None
    ) -> tuple[LedgerRow, ...]:
        """Ledger rows of a span; None = of all workloads."""
        ...

    def estimates(self, *, limit: int = 5000) -> tuple[Estimate, ...]:
        """The newest forecast windows, and as many of waits that were told none, oldest first."""
        ...
