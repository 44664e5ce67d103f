"""The words of the core as types: what is asked, and who holds what.

What exists and who pays: :mod:`.resources`. All is frozen, so a cycle can be replayed and thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.core.model.evolving import quick
from gpucommons.scheduler.core.model.going_on import (
    Drill,
    Hibernation,
    KeptKernels,
    Pace,
    ProcessImage,
    Resized,
)
from gpucommons.scheduler.core.model.reason import Reason as Reason  # noqa: PLC0414 - for others
from gpucommons.scheduler.core.model.reason import ReasonClass as ReasonClass  # noqa: PLC0414 - for others
from gpucommons.scheduler.data_loading import LoaderChoice, Loading
from gpucommons.scheduler.on_idle import KEEPS
from gpucommons.scheduler.parents import Parent
from gpucommons.scheduler.plans import ChosenPlan

WorkloadId = NewType("WorkloadId", str)  # lowercase UUIDv7, as the next two
AttemptId = NewType("AttemptId", str)
IntentId = NewType("IntentId", str)
NodeId = NewType("NodeId", str)
PoolName = NewType("PoolName", str)
TeamName = NewType("TeamName", str)
UserName = NewType("UserName", str)
#: UTC milliseconds; one value per cycle, never decreasing.
Millis = NewType("Millis", int)

REPORTED = "report"  #: The source of what a script tells of itself, beside whatever is read of it.


class Kind(StrEnum):
    """What kind of workload."""

    #: Interactive; holds a lease; uses fixed quota; never preempted inside it.
    NOTEBOOK = "notebook"
    #: A job; uses guaranteed quota and borrows.
    TRAINING = "training"
    #: A job started by a schedule or trigger; over-quota only unless its team says otherwise.
    RETRAIN = "retrain"


class State(StrEnum):
    """States of jobs and of leases; :mod:`.lifecycle` holds the tables of moves between them."""

    QUEUED = "queued"
    NOMINATED = "nominated"
    ADMITTED = "admitted"
    STARTING = "starting"
    RUNNING = "running"
    PREEMPTING = "preempting"
    PAUSING = "pausing"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    # leases
    WAITING = "waiting"
    GRANTED = "granted"
    ACTIVE = "active"
    WARNED = "warned"
    PARKING = "parking"
    PARKED = "parked"
    HIBERNATING = "hibernating"
    HIBERNATED = "hibernated"
    RELEASED = "released"
    ENDED = "ended"


class AttemptState(StrEnum):
    """States of one attempt. Devices are held from RESERVED until ENDED."""

    RESERVED = "reserved"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


#: A member of an enumeration costs ten times a name before Python 3.12, and this one is asked for a lot.
_ENDED = AttemptState.ENDED


class HoldClass(StrEnum):
    """Under which quota an attempt or a lease holds its devices."""

    #: A notebook inside its team's fixed quota.
    FIXED = "fixed"
    #: A job whose devices all lie outside fixed blocks and inside its team's guarantee.
    GUARANTEED = "guaranteed"
    #: Borrowed: preemptible.
    OVER_QUOTA = "over-quota"
    #: Asks for no GPU.
    CPU = "cpu"


# --- what is asked ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Role:
    """Like workers of a job."""

    name: str = "worker"
    count: int = 1
    #: Per worker: 0, a share (1…999), or whole GPUs on one node (multiples of 1000).
    milli_gpu: int = 0
    gpu_kind: str | None = None
    cpu_milli: int = 1000
    memory_mib: int = 1024
    command: tuple[str, ...] = ()
    #: It was asked for by GPU memory: ``milli_gpu`` is the smallest slice that has so much; 0 = not.
    gpu_memory_mib: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """What was asked: canonical, versioned, immutable; the same from panel, CLI, YAML and REST."""

    kind: Kind
    name: str  #: Readable and unique in its team (``digits-7``); for a lease the server's name.
    team: TeamName
    owner: UserName
    submitted_by: UserName
    #: Pools in order of preference; a gang lies in one of them.
    pools: tuple[PoolName, ...]
    roles: tuple[Role, ...]
    version: int = 1
    #: Elastic bounds on the first role's count; None = rigid.
    min_workers: int | None = None
    max_workers: int | None = None
    priority: str = "normal"  #: ``low`` < ``normal`` < ``high``.
    over_quota: bool = True  #: False: runs inside the guarantee or not at all.
    max_run_ms: int | None = None
    #: It starts, and grows, on GPUs that cost at most so much per hour then, in millionths.
    max_price_micro: int | None = None
    start_timeout_ms: int = 300_000
    after: tuple[WorkloadId, ...] = ()  #: Runs only after these have succeeded…
    after_any: tuple[WorkloadId, ...] = ()  #: …but these of them need only be over…
    after_failed: tuple[WorkloadId, ...] = ()  #: …and these must not have succeeded.
    #: Rather where these run, and where this data lies; never a reason to wait.
    near: tuple[WorkloadId, ...] = ()
    data: tuple[str, ...] = ()
    #: Not before this time.
    not_before_ms: Millis = Millis(0)
    #: The job that it was made from.
    parent: WorkloadId | None = None
    part_of: Parent | None = None
    #: The job whose place and saved progress this one took over when it was submitted.
    resume_from: WorkloadId | None = None
    launcher: str = "plain"
    #: Content hash of the uploaded files; None = nothing to unpack.
    snapshot: str | None = None
    #: Folder inside the snapshot where commands start.
    working_dir: str = "."
    #: Folder of its Python environment (links followed), or an image; "" = that of where it runs.
    environment: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    #: Variable name → name of the owner's secret, never a value.
    secrets: Mapping[str, str] = field(default_factory=dict)
    checkpoints_kept: int = 3
    #: Automatic new attempts after a loss or a non-zero exit.
    max_restarts: int = 0
    #: Folder below the owner's home for results and executed notebooks; None = stay with the job.
    results_to: str | None = None
    #: What an exit with 0 after a signal means: ``preempted``, or ``success``.
    exit_after_signal: str = "preempted"
    #: Sent when a stop of it is announced: ``SIGUSR1`` or ``none``; None = as its pool says.
    notice_signal: str | None = None
    #: False: its processes are never saved to disk, whatever its pool allows.
    hibernation: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    #: What the snapshot left out, linked from the same place below ``links_from`` in the home.
    links: tuple[str, ...] = ()
    links_from: str | None = None
    #: What was said of it before it was submitted; nothing is decided by it.
    plan: ChosenPlan | None = None
    #: Leases: the hub's server name; what its user chose of ``on_idle.ON_IDLE``, or as its pool says.
    server_name: str = ""
    on_idle: str = ""
    kernels_kept_days: int = 0  #: Leases: saved kernels stay no longer; 0 = its user chose nothing.
    #: Tickets: what others than we handle of the options that were chosen with it, as a form sent them.
    other_options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


# --- who holds what --------------------------------------------------------------------------


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerPlacement:
    """Where one worker lies. Shares of the same device belong to one worker each."""

    role: str
    index: int  #: Within its role.
    node_id: NodeId
    device_ids: tuple[DeviceId, ...] = ()  #: Empty for a worker without GPU.
    milli_gpu: int = 0  #: Per device: 1000 for whole devices, else the share.
    offset: int = 0  #: Aligned start of a share on its device, in milli-GPU.
    cpu_milli: int = 0
    memory_mib: int = 0
    slice_id: SliceId | None = None
    #: A worker of an elastic job beyond its guarantee: borrowed, though its attempt is not.
    surplus: bool = False
    #: Memory limit of its slice where an admin changed it; None = its share's.
    limit_mib: int | None = None
    #: What it holds of its device for memory beyond its share.
    extra_offset: int = 0
    extra_milli: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """An announced end of an attempt or lease."""

    #: A ``StopCause``; of a notebook also a cause of its own (``events.leases``).
    why: str
    #: For people: "for nlp (its guarantee)".
    text: str
    announced_ms: Millis
    #: SIGTERM at the latest, and SIGKILL.
    term_ms: Millis
    kill_ms: Millis
    beneficiary: WorkloadId | None = None
    #: By which right, for the receipt: "guarantee of nlp", "fair share".
    rule: str = ""
    #: True once SIGTERM may have been sent: from then on the stop cannot be taken back.
    signalled: bool = False
    #: A notebook that gave its GPU back: its server is to start again without one.
    restart_on_cpu: bool = False
    #: Sent with the announcement: ``SIGUSR1``, or nothing.
    notice_signal: str = ""
    hibernates: bool = False  #: Processes are saved in place of SIGTERM, if there is time.
    promised: bool = True  #: Its page said at SIGTERM that they would be, without an if.


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A complete checkpoint whose receipt was accepted while its attempt was current."""

    attempt_id: AttemptId
    step: int
    path: str  #: Below the attempt's folder.
    size_bytes: int
    sha256: str
    at_ms: Millis
    unit: str = ""  #: What ``step`` counts, where another job saved it.


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a running attempt is, as it was told last."""

    step: int = 0
    total_steps: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    at_ms: Millis = Millis(0)
    #: Where it was read; ``report`` = the script itself told it.
    source: str = REPORTED
    unit: str = ""  #: What steps count, where the source says so.


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One run of a job between start and end; devices belong to it. A lease has one as well."""

    attempt_id: AttemptId
    workload_id: WorkloadId
    number: int  #: 1, 2, …
    state: AttemptState
    hold_class: HoldClass
    placements: tuple[WorkerPlacement, ...]
    reserved_ms: Millis
    started_ms: Millis | None = None  #: When the whole gang ran.
    ended_ms: Millis | None = None
    stop: Stop | None = None
    #: Set when ended: 0…255, or -signal; None where it was never seen. Why it ended, for people.
    exit_code: int | None = None
    ended_text: str | None = None
    resumed_from: Checkpoint | None = None
    spared_ms: Millis | None = None  #: When a stop was taken back; told until the attempt ends.
    #: How many files it changed in its working folder that the next attempt finds; None = not known.
    files_kept: int | None = None
    finished_ms: Millis | None = None  #: When it told that its work is done.
    hibernation: Hibernation | None = None
    image: ProcessImage | None = None  #: Its processes as they were saved when it was stopped.
    not_saved: str = ""  #: Why they could not be; empty = that was not tried, or they were.
    parked: bool = False  #: It ended, and its notebook lives on without its devices.
    drivers: tuple[str, ...] = ()  #: Of its nodes' GPUs; "" = not told; none = an older release's.
    pace: Pace | None = None  #: By its progress reports; None = too few.
    loading: Loading | None = None  #: How it waits for its data, where it told that.


@dataclass(frozen=True, kw_only=True, slots=True)
class Nomination:
    """Devices promised to a workload; victims on them are draining."""

    placements: tuple[WorkerPlacement, ...]
    hold_class: HoldClass
    victims: tuple[AttemptId, ...]
    decided_ms: Millis


@dataclass(frozen=True, kw_only=True, slots=True)
class Idleness:
    """What the culler said of a lease."""

    #: Since when nothing was active; None = active or unknown.
    idle_since_ms: Millis | None = None
    warned_ms: Millis | None = None
    #: When it will be returned unless something happens.
    returns_ms: Millis | None = None
    keeps_left: int = KEEPS
    #: No culling before this, by the user's *Keep 30 min*.
    kept_until_ms: Millis = Millis(0)
    #: The return is an admin's wish: it ends what was kept before; work and a later *Keep* end it.
    reclaimed: bool = False
    not_parked: str = ""  #: Why it could not be when that was tried; the next weaker way is taken.


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class PausedSpan:
    """A stretch of time in which its people kept a job out of the line."""

    from_ms: Millis
    to_ms: Millis


@dataclass(frozen=True, kw_only=True, slots=True)
class Parked:
    """What a notebook keeps while its GPU memory is on the host."""

    place: WorkerPlacement  #: Where its slice was; its memory goes back to these devices.
    rest: Attempt  #: What its server holds of the node meanwhile: no device.
    since_ms: Millis  #: By its server's word.


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """A job or a lease: what was asked, where it stands, what it holds."""

    workload_id: WorkloadId
    spec: Spec
    state: State
    submitted_ms: Millis
    #: Since when it is in this state.
    since_ms: Millis
    #: All attempts, oldest first; at most the last one is not ended.
    attempts: tuple[Attempt, ...] = ()
    nomination: Nomination | None = None
    reason: Reason | None = None
    not_before_ms: Millis = Millis(0)  #: Not considered before this (back-off).
    checkpoint: Checkpoint | None = None
    progress: Progress | None = None
    idleness: Idleness | None = None
    #: Automatic new attempts so far, after failures and losses.
    restarts: int = 0
    ended_ms: Millis | None = None
    ended_text: str | None = None
    redeem_by_ms: Millis | None = None  # a granted lease that is not redeemed by then waits again
    #: Paused by what it is part of (at a rung), not by a person; and its newest pauses that are over.
    paused_by_parent: bool = False
    pauses: tuple[PausedSpan, ...] = ()
    #: When it left the line, or was paused, after others had been stopped for it; newest last.
    withdrawn_ms: tuple[Millis, ...] = ()
    resized: Resized | None = None  #: None, or ``spec`` has the size that is asked for now.
    #: Not empty while only some of the pools that it was submitted for, all these, can wake what is saved.
    submitted_pools: tuple[PoolName, ...] = ()
    kept: KeptKernels | None = None  #: Of a lease: what its server said that it still keeps.
    drill: Drill | None = None  #: What its last stop has shown, or is to show.
    parked: Parked | None = None  #: Of a lease, also while it waits to have its GPU back.
    loader: LoaderChoice | None = None  #: From its next attempt on; None = as its script says.
    loader_told_ms: Millis = Millis(0)  #: Up to here its history has its share of such choices.

    @property
    def current(self) -> Attempt | None:
        """The attempt that holds devices, if any."""
        last = self.attempts[-1] if self.attempts else None
        return last if last is not None and last.state is not _ENDED else None

    @property
    def on_node(self) -> Attempt | None:
        """What it takes of nodes: its attempt, or what the server of a parked notebook keeps."""
        return self.current or (None if self.parked is None else self.parked.rest)
