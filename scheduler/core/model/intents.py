"""Intents: what people and parts of the product ask of the scheduler, and what it answered.

They are committed before anything is done about them; :mod:`.intents` applies them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.going_on import KeptKernels, Size
from gpucommons.scheduler.core.model.price_and_budget import Budget
from gpucommons.scheduler.core.model.resources import (
    NodeState,
    Policy,
    Pool,
    Quota,
    SlowNode,
    SlowPair,
    Team,
)
from gpucommons.scheduler.core.model.types import (
    Checkpoint,
    IntentId,
    Millis,
    NodeId,
    PoolName,
    Spec,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.data_loading import LoaderChoice


@dataclass(frozen=True, kw_only=True, slots=True)
class Submit:
    """A new job or a new ticket (``spec.kind`` says which); an ``acquire`` is a Submit of a
    notebook with ``redeem=True``.
    """

    workload_id: WorkloadId
    spec: Spec
    #: Take a free slice in this very cycle (or this user's grant), else refuse: the spawner's call.
    redeem: bool = False
    #: What ``spec.resume_from`` had saved when this was asked: a job long over is known no more.
    checkpoint: Checkpoint | None = None
    #: Of the job that it is another run of, as somebody chose it there.
    loader: LoaderChoice | None = None
    #: The request that asked for it, as W3C's Trace Context writes it; nothing is decided by it.
    traceparent: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancel:
    """End it: a job, a ticket, or a lease whose server stopped (``why`` = ``stopped``)."""

    workload_id: WorkloadId
    why: str = StopCause.CANCEL
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """Stop a job with a checkpoint and keep it paused."""

    workload_id: WorkloadId
    #: Asked by what it is part of, not by a person.
    of_parent: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Resume:
    """Put a paused job back in line."""

    workload_id: WorkloadId
    #: Asked by what it is part of, which resumes only what it has paused itself.
    of_parent: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ResizeJob:
    """Another size for a job that waits or is paused: it stays the same job."""

    workload_id: WorkloadId
    size: Size


@dataclass(frozen=True, kw_only=True, slots=True)
class ChooseLoader:
    """How a job loads its data from its next attempt on; None = as its script says."""

    workload_id: WorkloadId
    workers: int | None
    prefetch: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Keep:
    """*Keep 30 min*: an idle notebook's user is still there."""

    workload_id: WorkloadId
    for_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ResizeSlice:
    """Another memory limit for a notebook's slice, while it is in use."""

    workload_id: WorkloadId
    memory_mib: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteAgent:
    """Put on record what a node agent did to somebody's processes, or refused."""

    #: Empty where the scheduler itself has something to say about a node.
    node: str
    at_ms: Millis
    #: ``memory-warn``, ``memory-terminate``, ``limit-refused``, …
    kind: str
    text: str
    slice_id: SliceId | None = None
    #: Whom it is about, where that is no slice's holder.
    workload_id: WorkloadId | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteSchedule:
    """Put on record what somebody did with a schedule or a pipeline."""

    #: ``schedule-written``, ``schedule-suspended``, …, ``pipeline-run``, ``pipeline-retried``, ….
    kind: str
    text: str
    team: TeamName
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportIdle:
    """The culler's view of a lease: idle since, to be returned at; both None = active again."""

    workload_id: WorkloadId
    idle_since_ms: Millis | None
    returns_ms: Millis | None
    #: An admin asks for its GPU.
    reclaimed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ChooseOnIdle:
    """What is to become of a notebook that was idle for too long; empty = as its pool says."""

    workload_id: WorkloadId
    on_idle: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteKept:
    """Put on record what a notebook's server keeps of its kernels."""

    workload_id: WorkloadId
    kept: KeptKernels | None
    #: The lease, where it is over: one that ended long ago is known no more.
    ended: Workload | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Park:
    """Have a notebook's server move its GPU memory to the host."""

    workload_id: WorkloadId
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteParked:
    """What came of it: its memory is on the host, or why it is not."""

    workload_id: WorkloadId
    #: Empty = it is on the host.
    because: str = ""
    #: What its server took of the machine's own memory for it.
    host_mib: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Unpark:
    """A notebook whose GPU memory is on the host wants its GPU back, or does not wait any longer."""

    workload_id: WorkloadId
    waits: bool = True


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
    #: What some of them were for whoever changes them; refused where that is so no longer.
    seen: Mapping[tuple[TeamName, PoolName], Quota] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PutTeams:
    """Create or change teams (quotas included), all or none."""

    teams: tuple[Team, ...]
    #: Teams to remove; refused while they have workloads.
    removed: tuple[TeamName, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PutPools:
    """Create or change pools, all or none; what nodes say of a pool that is there stays."""

    pools: tuple[Pool, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolFacts:
    """What a pool's nodes and the cluster's autoscaler say of it, and nobody else."""

    isolation: str
    simulated: bool
    #: None: who says this knows nothing of it.
    scale_up_text: str | None = None
    #: None, too: only who asks for nodes knows.
    scale_up_since_ms: tuple[Millis, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteFacts:
    """What nodes say of pools. Settings are not in it: an admin may be changing them just now."""

    pools: Mapping[PoolName, PoolFacts]


@dataclass(frozen=True, kw_only=True, slots=True)
class SetBudget:
    """What a team may use in a month; None takes it away."""

    team: TeamName
    budget: Budget | None
    #: A sentence where it is used up already, by who reads the ledger: it holds from its first cycle on.
    spent: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteBudgets:
    """Whose budget is used up, each with a sentence; all others have some left."""

    spent: Mapping[TeamName, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class PutPolicy:
    """The hub-wide policy."""

    policy: Policy


@dataclass(frozen=True, kw_only=True, slots=True)
class PutConfig:
    """Pools, teams and policy in one step, all or none; what it leaves out stays."""

    pools: tuple[Pool, ...] = ()
    teams: tuple[Team, ...] = ()
    policy: Policy | None = None
    removed_teams: tuple[TeamName, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SetNodeState:
    """Cordon, uncordon or fence a node."""

    node_id: NodeId
    state: NodeState
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeNode:
    """A node's cloud takes it back at a time; an admin who lets it take work again knows better."""

    node_id: NodeId
    leaves_ms: Millis


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteSlowNodes:
    """Which nodes, and pairs of nodes, are slow, by the step times of what ran; all others are not."""

    slow: Mapping[NodeId, SlowNode]
    slow_pairs: Mapping[NodeId, tuple[SlowPair, ...]] = field(default_factory=dict)


Action = (
    Submit
    | Cancel
    | Pause
    | Resume
    | ResizeJob
    | ChooseLoader
    | Keep
    | ReportIdle
    | ChooseOnIdle
    | ResizeSlice
    | Started
    | Restarted
    | NoteAgent
    | NoteSchedule
    | NoteKept
    | Park
    | NoteParked
    | Unpark
    | SetQuotas
    | PutTeams
    | PutPools
    | NoteFacts
    | SetBudget
    | NoteBudgets
    | PutPolicy
    | PutConfig
    | SetNodeState
    | NoticeNode
    | NoteSlowNodes
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
