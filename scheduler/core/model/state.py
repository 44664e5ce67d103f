"""Everything the scheduler knows, as one immutable value: what a cycle starts from and makes.

The loop keeps one :class:`Cluster`, the store keeps its rows; :mod:`.advance` turns one value into
the next. Nothing here refers to a clock, a database or a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpucommons.scheduler.core.model.actions import Act
from gpucommons.scheduler.core.model.evolving import quick
from gpucommons.scheduler.core.model.going_on import Badge, BadgeKey, Hibernation, ProcessImage
from gpucommons.scheduler.core.model.holds import FairShareReservation
from gpucommons.scheduler.core.model.intents import Verdict
from gpucommons.scheduler.core.model.resources import Block, Node, Policy, Pool, Team
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    Checkpoint,
    HoldClass,
    Millis,
    NodeId,
    PoolName,
    Progress,
    TeamName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.packing.learning import LearnedDemand
from gpucommons.scheduler.data_loading import Loading


class Derived:
    """What the cycle that made a cluster worked out of it, for the one that goes on from it.

    It can be had once, because it is changed by whoever has it, and only for the very workloads
    and nodes it was made of. A cluster without it is as good as any: it is worked out again.
    """

    __slots__ = ("_kept", "_of")

    def __init__(self, value: object = None, of: tuple[object, ...] = ()) -> None:
        """Keep a value, or nothing, and what it was made of."""
        self._kept = [] if value is None else [value]
        self._of = of

    def take(self, of: tuple[object, ...]) -> object | None:
        """Return the value to the first who asks for what it was made of."""
        if len(of) != len(self._of) or any(a is not b for a, b in zip(of, self._of, strict=True)):
            return None
        try:
            return self._kept.pop()
        except IndexError:
            return None


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingResize:
    """Another size that would suit a running elastic job, on GPUs that nobody waits for."""

    since_ms: Millis
    #: When it is worth a restart, if nothing changes.
    due_ms: Millis


@dataclass(frozen=True, kw_only=True, slots=True)
class Released:
    """What an attempt held inside its team's guarantee, or won back for a notebook, until a moment ago."""

    team: TeamName
    placement: WorkerPlacement
    hold_class: HoldClass
    #: Until then it is not lent.
    until_ms: Millis


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """One consistent view. ``workloads`` holds every workload that is not final, the final ones
    that a live one depends on, leases that ended a moment ago, and for an hour what left the line
    after others had been stopped for it.
    """

    pools: Mapping[PoolName, Pool] = field(default_factory=dict)
    nodes: Mapping[NodeId, Node] = field(default_factory=dict)
    teams: Mapping[TeamName, Team] = field(default_factory=dict)
    workloads: Mapping[WorkloadId, Workload] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    policy: Policy = field(default_factory=Policy)
    #: Decayed GPU use per team and pool, milli-GPU·seconds, and the time it was brought up to.
    usage: Mapping[tuple[TeamName, PoolName], int] = field(default_factory=dict)
    usage_at_ms: Millis = Millis(0)
    #: Kept in memory only: after a restart of the scheduler, lending starts at once.
    released: tuple[Released, ...] = ()
    #: Since when elastic jobs could have another size; in memory only, like the line above.
    pending_resizes: Mapping[WorkloadId, PendingResize] = field(default_factory=dict)
    #: Until when each team's place in a pool is kept; in memory only as well.
    fair_share_reservations: Mapping[tuple[TeamName, PoolName], FairShareReservation] = field(
        default_factory=dict
    )
    #: What work has come to each pool: what packing keeps free GPUs good for.
    demand: Mapping[PoolName, LearnedDemand] = field(default_factory=dict)
    #: Code that was stopped and went on.
    badges: Mapping[BadgeKey, Badge] = field(default_factory=dict)
    now_ms: Millis = Millis(0)
    #: No part of the value: it says nothing that the rest does not.
    derived: Derived = field(default_factory=Derived, compare=False, repr=False)

    def apart(self) -> Cluster:
        """Return the same value for a trial: what follows this one finds its derived part."""
        return replace(self, derived=Derived())


# --- observations: what executors and nodes report -------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptStarted:
    """All workers of the attempt run."""

    attempt_id: AttemptId
    #: None where nobody has looked.
    hibernation: Hibernation | None = None
    #: How far it had come before, and when, in the executor's words; nothing is decided by it.
    steps: tuple[tuple[str, Millis], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptSignalled:
    """SIGTERM was sent to the attempt's workers."""

    attempt_id: AttemptId


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptEnded:
    """All processes of the attempt are seen dead (and its slices read empty)."""

    attempt_id: AttemptId
    #: Worst of its workers: 0, 1…255 or -signal; None = lost without a trace.
    exit_code: int | None
    #: It never started: image, command, node. Counts as a start failure, not as a run.
    start_failed: bool = False
    #: SIGKILL was needed.
    killed: bool = False
    text: str = ""
    #: A signal, or a true answer of ``should_stop``, reached a worker before it ended.
    told: bool = False
    #: It left word that its work is done.
    finished: bool = False
    #: How many files it changed in its working folder that the next attempt finds; None = not known.
    files_kept: int | None = None
    #: Its processes, saved whole; they end with that.
    image: ProcessImage | None = None
    #: Why they could not be saved.
    not_saved: str = ""
    #: How it ran, or what stood in the way of a wake; of use where its start was not seen.
    hibernation: Hibernation | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceCleared:
    """No process of a slice whose notebook says that it is parked holds anything of its devices."""

    attempt_id: AttemptId


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptFinished:
    """A training process told that its work is done, whatever ends it now."""

    attempt_id: AttemptId


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressReported:
    """A training process told how far it is."""

    attempt_id: AttemptId
    progress: Progress
    #: How it waits for its data; None = it told nothing of that.
    loading: Loading | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointReported:
    """A complete checkpoint lies in the attempt's folder."""

    attempt_id: AttemptId
    checkpoint: Checkpoint


@dataclass(frozen=True, kw_only=True, slots=True)
class FilesKept:
    """An attempt that ends has handed over its working folder for the next one."""

    attempt_id: AttemptId
    files: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeReported:
    """An attempt away from here told how it runs: in a tree that can be saved, woken, or why not."""

    attempt_id: AttemptId
    hibernation: Hibernation


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryReported:
    """How much saving an attempt's processes would write now."""

    attempt_id: AttemptId
    memory_mib: int
    #: Of its disk, where the attempt itself has measured it; 0 = as known before.
    save_mib_per_s: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class NodesObserved:
    """The nodes of one executor, as they are now; missing ones are lost."""

    executor: str
    nodes: tuple[Node, ...]


Observation = (
    AttemptStarted
    | AttemptSignalled
    | AttemptEnded
    | AttemptFinished
    | SliceCleared
    | ProgressReported
    | CheckpointReported
    | FilesKept
    | TreeReported
    | MemoryReported
    | NodesObserved
)


# --- what a cycle gives ----------------------------------------------------------------------


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One thing that happened: audit log, receipt, feed. The store numbers them at commit."""

    at_ms: Millis
    #: ``submitted``, ``admitted``, ``started``, ``preempted``, ``quota-changed``, …
    kind: str
    #: Who or what caused it: a user's name, or ``scheduler``.
    by: str
    #: For people.
    text: str
    workload_id: WorkloadId | None = None
    attempt_id: AttemptId | None = None
    team: TeamName | None = None
    #: Receipts and old → new values, JSON.
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What one cycle writes, in one transaction."""

    now_ms: Millis
    workloads: tuple[Workload, ...] = ()
    teams: tuple[Team, ...] = ()
    removed_teams: tuple[TeamName, ...] = ()
    pools: tuple[Pool, ...] = ()
    nodes: tuple[Node, ...] = ()
    removed_nodes: tuple[NodeId, ...] = ()
    #: None = unchanged.
    blocks: tuple[Block, ...] | None = None
    policy: Policy | None = None
    usage: Mapping[tuple[TeamName, PoolName], int] | None = None
    #: Pools to which work came.
    demand: Mapping[PoolName, LearnedDemand] = field(default_factory=dict)
    badges: Mapping[BadgeKey, Badge] = field(default_factory=dict)
    removed_badges: tuple[BadgeKey, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def empty(self) -> bool:
        """Nothing to write."""
        return self == Changes(now_ms=self.now_ms)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One step of the scheduler: the next value, what to write, and what to do after the write.

    ``acts`` are levelled, not edges: each cycle repeats every act that is still due (an attempt
    that is ``starting`` is started, one whose ``term_ms`` has come is signalled), and executors
    are idempotent by attempt id, so a crash between write and act loses nothing.
    """

    cluster: Cluster
    changes: Changes
    actions: tuple[Act, ...] = ()
    #: When the next cycle is due though nothing happens (a notice ends, a back-off ends).
    wake_ms: Millis | None = None
