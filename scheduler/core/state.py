"""Everything the scheduler knows, as one immutable value: what a cycle starts from and makes.

The loop keeps one :class:`Cluster`, the store keeps its rows; :mod:`.advance` turns one value into
the next. Nothing here refers to a clock, a database or a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpucommons.scheduler.core.packing.learning import LearnedDemand
from gpucommons.scheduler.core.resources import Block, Node, NodeState, Policy, Pool, Quota, Team
from gpucommons.scheduler.core.types import (
    AttemptId,
    Checkpoint,
    IntentId,
    Millis,
    NodeId,
    PoolName,
    Progress,
    Spec,
    TeamName,
    UserName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)


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
class Released:
    """What an attempt held inside its team's guarantee until a moment ago."""

    team: TeamName
    placement: WorkerPlacement
    #: Until then it is not lent.
    until_ms: Millis


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """One consistent view. ``workloads`` holds every workload that is not final, the final ones
    that a live one depends on, and leases that ended a moment ago.
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
    #: What work has come to each pool: what packing keeps free GPUs good for.
    demand: Mapping[PoolName, LearnedDemand] = field(default_factory=dict)
    now_ms: Millis = Millis(0)
    #: No part of the value: it says nothing that the rest does not.
    derived: Derived = field(default_factory=Derived, compare=False, repr=False)

    def apart(self) -> Cluster:
        """Return the same value for a trial: what follows this one finds its derived part."""
        return replace(self, derived=Derived())


# --- intents: what people and parts ask for --------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Submit:
    """A new job or a new ticket (``spec.kind`` says which); an ``acquire`` is a Submit of a
    notebook with ``redeem=True``.
    """

    workload_id: WorkloadId
    spec: Spec
    #: Take a free slice in this very cycle (or this user's grant), else refuse: the spawner's call.
    redeem: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancel:
    """End it: a job, a ticket, or a lease whose server stopped (``why`` = ``stopped``)."""

    workload_id: WorkloadId
    why: str = "cancel"
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """Stop a job with a checkpoint and keep it paused."""

    workload_id: WorkloadId


@dataclass(frozen=True, kw_only=True, slots=True)
class Resume:
    """Put a paused job back in line."""

    workload_id: WorkloadId


@dataclass(frozen=True, kw_only=True, slots=True)
class Keep:
    """*Keep 30 min*: an idle notebook's user is still there."""

    workload_id: WorkloadId
    for_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportIdle:
    """The culler's view of a lease: idle since, to be returned at; both None = active again."""

    workload_id: WorkloadId
    idle_since_ms: Millis | None
    returns_ms: Millis | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """A notebook's server runs; its lease is active."""

    workload_id: WorkloadId


@dataclass(frozen=True, kw_only=True, slots=True)
class Restarted:
    """The server of a lease that gave its GPU back runs again, without one."""

    workload_id: WorkloadId


@dataclass(frozen=True, kw_only=True, slots=True)
class SetQuotas:
    """New quotas, all or none; refused where they cannot be laid out."""

    quotas: Mapping[tuple[TeamName, PoolName], Quota]


@dataclass(frozen=True, kw_only=True, slots=True)
class PutTeams:
    """Create or change teams (quotas included), all or none."""

    teams: tuple[Team, ...]
    #: Teams to remove; refused while they have workloads.
    removed: tuple[TeamName, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PutPools:
    """Create or change pools and the nodes in them, all or none."""

    pools: tuple[Pool, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PutPolicy:
    """The hub-wide policy."""

    policy: Policy


@dataclass(frozen=True, kw_only=True, slots=True)
class SetNodeState:
    """Cordon, uncordon or fence a node."""

    node_id: NodeId
    state: NodeState
    text: str = ""


Action = (
    Submit
    | Cancel
    | Pause
    | Resume
    | Keep
    | ReportIdle
    | Started
    | Restarted
    | SetQuotas
    | PutTeams
    | PutPools
    | PutPolicy
    | SetNodeState
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """Something asked for, committed before anything is done about it."""

    intent_id: IntentId
    action: Action
    #: Who asked; already authorized.
    by: UserName
    at_ms: Millis
    #: Same principal and key: same answer, done once.
    idempotency_key: str | None = None
    #: Hash of the request, so that one key cannot stand for two different requests.
    fingerprint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the cycle made of an intent."""

    intent_id: IntentId
    #: None = done; else the code of an error class of :mod:`gpucommons.scheduler.errors`.
    error: str | None = None
    text: str = ""
    workload_id: WorkloadId | None = None


# --- observations: what executors and nodes report -------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptStarted:
    """All workers of the attempt run."""

    attempt_id: AttemptId


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


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressReported:
    """A training process told how far it is."""

    attempt_id: AttemptId
    progress: Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointReported:
    """A complete checkpoint lies in the attempt's folder."""

    attempt_id: AttemptId
    checkpoint: Checkpoint


@dataclass(frozen=True, kw_only=True, slots=True)
class NodesObserved:
    """The nodes of one executor, as they are now; missing ones are lost."""

    executor: str
    nodes: tuple[Node, ...]


Observation = (
    AttemptStarted
    | AttemptSignalled
    | AttemptEnded
    | ProgressReported
    | CheckpointReported
    | NodesObserved
)


# --- what a cycle gives ----------------------------------------------------------------------


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
class StartAttempt:
    """Act: start this attempt's workers. Idempotent by attempt id."""

    attempt_id: AttemptId


@dataclass(frozen=True, kw_only=True, slots=True)
class AnnounceStop:
    """Act: tell the attempt when it will be stopped (notice), before any signal."""

    attempt_id: AttemptId


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalAttempt:
    """Act: SIGTERM now, SIGKILL at ``stop.kill_ms``. Idempotent."""

    attempt_id: AttemptId


@dataclass(frozen=True, kw_only=True, slots=True)
class SpareAttempt:
    """Act: take the notice back; nothing was signalled."""

    attempt_id: AttemptId


@dataclass(frozen=True, kw_only=True, slots=True)
class StartServer:
    """Act: start the notebook server of a granted ticket through the hub."""

    workload_id: WorkloadId


@dataclass(frozen=True, kw_only=True, slots=True)
class StopServer:
    """Act: stop a notebook server through the hub (a reclaim by an admin, a lost device)."""

    workload_id: WorkloadId


@dataclass(frozen=True, kw_only=True, slots=True)
class RestartServer:
    """Act: start the server of a lease that gave its GPU back again, without one."""

    workload_id: WorkloadId


Act = (
    StartAttempt
    | AnnounceStop
    | SignalAttempt
    | SpareAttempt
    | StartServer
    | StopServer
    | RestartServer
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What one cycle writes, in one transaction."""

    now_ms: Millis
    workloads: tuple[Workload, ...] = ()
    teams: tuple[Team, ...] = ()
    removed_teams: tuple[TeamName, ...] = ()
    pools: tuple[Pool, ...] = ()
    nodes: tuple[Node, ...] = ()
    #: None = unchanged.
    blocks: tuple[Block, ...] | None = None
    policy: Policy | None = None
    usage: Mapping[tuple[TeamName, PoolName], int] | None = None
    #: Pools to which work came.
    demand: Mapping[PoolName, LearnedDemand] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def empty(self) -> bool:
        """Nothing to write."""
        return not (
            self.workloads
            or self.teams
            or self.removed_teams
            or self.pools
            or self.nodes
            or self.blocks is not None
            or self.policy is not None
            or self.usage is not None
            or self.demand
            or self.verdicts
            or self.events
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One step of the scheduler: the next value, what to write, and what to do after the write.

    ``acts`` are levelled, not edges: each cycle repeats every act that is still due (an attempt
    that is ``starting`` is started, one whose ``term_ms`` has come is signalled), and executors
    are idempotent by attempt id, so a crash between write and act loses nothing.
    """

    cluster: Cluster
    changes: Changes
    acts: tuple[Act, ...] = ()
    #: When the next cycle is due though nothing happens (a notice ends, a back-off ends).
    wake_ms: Millis | None = None
