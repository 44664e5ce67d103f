"""The wire format of ``/v1``: what panel, widget, CLI, YAML and REST all speak.

Limits that concern a single field are written here, once, so that every door refuses the same way.
Rules that need the state of the cluster live in the intake and the core. Times are integer UTC
milliseconds, sizes carry their unit.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from gpucommons.gpu.devices import WHOLE_MILLI_GPU

#: Readable names: DNS labels, so they fit file names, URLs and Kubernetes objects.
Name = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$", max_length=50)
]
UserName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}$", max_length=128)
]
Id = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"),
]
#: An id or a readable name (``digits-7``, or ``vision/digits-7`` where two teams share it).
Ref = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9/-]{0,101}$", max_length=102)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
#: No control characters, bounded: safe to print and to log.
Text = Annotated[
    str, StringConstraints(pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$", max_length=500)
]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


def _stays_below(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/"):
        message = f"{path!r} must be a path below its folder, without '..'."
        raise ValueError(message)
    return path


RelativePath = Annotated[
    str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,512}$"), AfterValidator(_stays_below)
]
MilliGpu = Annotated[int, Field(strict=True, ge=0, le=1_024_000)]
Argument = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=8192)]


class Model(BaseModel):
    """Base of all bodies: unknown fields are mistakes, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class View(BaseModel):
    """Base of all answers: a newer server may add fields."""

    model_config = ConfigDict(extra="ignore", frozen=True)


# --- jobs ------------------------------------------------------------------------------------


class RoleRequest(Model):
    """Like workers of a job."""

    name: Name = "worker"
    count: int = Field(default=1, strict=True, ge=1, le=1024)
    milli_gpu: MilliGpu = 0
    gpu_kind: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 ._-]{1,64}$")] | None = None
    cpu_milli: int = Field(default=1000, strict=True, ge=1, le=1_024_000)
    memory_mib: int = Field(default=1024, strict=True, ge=16, le=16_777_216)
    command: list[Argument] = Field(min_length=1, max_length=256)

    @model_validator(mode="after")
    def _shares_are_of_one_device(self) -> RoleRequest:
        if self.milli_gpu > WHOLE_MILLI_GPU and self.milli_gpu % WHOLE_MILLI_GPU:
            message = (
                f"A worker takes a share of one GPU or whole GPUs: {self.milli_gpu / 1000:g} is"
                f" neither. Ask for {self.milli_gpu // 1000} or {self.milli_gpu // 1000 + 1}."
            )
            raise ValueError(message)
        return self


class JobRequest(Model):
    """A job as people write it; what is left out gets the defaults of team and pool."""

    #: Base of the readable name; the scheduler makes it unique (``digits`` → ``digits-7``).
    name: Name = "job"
    kind: Literal["training", "retrain"] = "training"
    #: Needed only by members of several teams.
    team: Name | None = None
    #: In order of preference; default: the pools in which the team has training quota.
    pools: list[Name] = Field(default_factory=list, max_length=16)
    roles: list[RoleRequest] = Field(min_length=1, max_length=8)
    min_workers: int | None = Field(default=None, strict=True, ge=1, le=1024)
    max_workers: int | None = Field(default=None, strict=True, ge=1, le=1024)
    priority: Literal["low", "normal", "high"] = "normal"
    over_quota: bool = True
    max_run_s: int | None = Field(default=None, strict=True, ge=1, le=31_536_000)
    start_timeout_s: int = Field(default=300, strict=True, ge=1, le=86_400)
    after: list[Ref] = Field(default_factory=list, max_length=64)
    not_before_ms: int = Field(default=0, strict=True, ge=0, le=4_102_444_800_000)
    parent: Id | None = None
    launcher: Literal["plain", "torchrun"] = "plain"
    snapshot: Sha256 | None = None
    working_dir: RelativePath = "."
    environment: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 ._:/@-]{0,256}$")] = ""
    env: dict[EnvName, Argument] = Field(default_factory=dict, max_length=128)
    secrets: dict[EnvName, Name] = Field(default_factory=dict, max_length=32)
    checkpoints_kept: int = Field(default=3, strict=True, ge=1, le=100)
    max_restarts: int = Field(default=0, strict=True, ge=0, le=100)
    results_to: RelativePath | None = None
    labels: dict[Name, Text] = Field(default_factory=dict, max_length=32)

    @model_validator(mode="after")
    def _bounds_agree(self) -> JobRequest:
        low, high = self.min_workers, self.max_workers
        if low is not None and high is not None and low > high:
            message = f"min_workers {low} is more than max_workers {high}."
            raise ValueError(message)
        return self


class ReasonView(View):
    """Why something waits."""

    code: str
    text: str
    unblock: str | None = None
    startable_milli_gpu: int | None = None


class CheckpointView(View):
    """The newest complete checkpoint."""

    step: int
    size_bytes: int
    at_ms: int


class ProgressView(View):
    """The newest progress report."""

    step: int
    total_steps: int | None = None
    metrics: dict[str, float] = {}
    at_ms: int


class StopView(View):
    """An announced stop."""

    why: str
    text: str
    announced_ms: int
    term_ms: int
    kill_ms: int


class AttemptView(View):
    """One run of a job."""

    id: str
    number: int
    state: str
    hold_class: str
    node: str | None = None
    nodes: list[str] = []
    milli_gpu: int = 0
    reserved_ms: int
    started_ms: int | None = None
    ended_ms: int | None = None
    exit_code: int | None = None
    ended_text: str | None = None
    resumed_from_step: int | None = None
    stop: StopView | None = None


class JobView(View):
    """A job as everyone sees it. ``owner`` is empty where policy hides it."""

    id: str
    name: str
    kind: str
    team: str
    owner: str
    submitted_by: str
    state: str
    hold_class: str | None = None
    pools: list[str]
    pool: str | None = None
    milli_gpu: int
    workers: int
    priority: str
    over_quota: bool
    submitted_ms: int
    since_ms: int
    ended_ms: int | None = None
    ended_text: str | None = None
    reason: ReasonView | None = None
    position: int | None = None
    progress: ProgressView | None = None
    checkpoint: CheckpointView | None = None
    attempts: list[AttemptView] = []
    held_milli_gpu_s: int = 0
    lost_milli_gpu_s: int = 0
    simulated: bool = False
    source: str | None = None
    #: What was asked, exactly as stored; shown to members of the team.
    request: JobRequest | None = None


class JobList(View):
    """A page of jobs, newest first."""

    jobs: list[JobView]
    cursor: str | None = None


class Quote(View):
    """What would happen to a job if it were submitted now: the panel's quota line."""

    hold_class: str
    #: "Over-quota. All of vision's 4 guaranteed GPUs are in use, so both can be stopped…"
    text: str
    starts_now: bool
    reason: ReasonView | None = None
    guaranteed_milli_gpu: int
    guaranteed_used_milli_gpu: int
    free_milli_gpu: int


class LogView(View):
    """Whole lines of one worker's log."""

    lines: list[str]
    attempt: int
    next_offset: int
    end: bool


class CurvePoint(View):
    """One point of the metric curve."""

    attempt: int
    step: int
    at_ms: int
    metrics: dict[str, float]


class Curve(View):
    """A job's metric curve, oldest first."""

    points: list[CurvePoint]


class SnapshotView(View):
    """An uploaded snapshot."""

    sha256: str
    size_bytes: int


# --- what a running attempt reports ----------------------------------------------------------


class ProgressReport(Model):
    """A training process tells how far it is."""

    step: int = Field(strict=True, ge=0, le=2**53)
    total_steps: int | None = Field(default=None, strict=True, ge=0, le=2**53)
    #: Finite numbers only: JSON has no others.
    metrics: dict[
        Annotated[str, StringConstraints(pattern=r"^[\w .:/-]{1,64}$")],
        Annotated[float, Field(allow_inf_nan=False)],
    ] = Field(default_factory=dict, max_length=64)


class CheckpointReport(Model):
    """A complete checkpoint lies in the attempt's folder, under its final name."""

    step: int = Field(strict=True, ge=0, le=2**53)
    path: RelativePath
    size_bytes: int = Field(strict=True, ge=0, le=2**53)
    sha256: Sha256


class AttemptOrders(View):
    """What the scheduler wants of the attempt: an announced stop, if any."""

    stop: StopView | None = None


# --- notebooks -------------------------------------------------------------------------------


class LeaseRequest(Model):
    """A slice for a notebook server: the spawner's acquire (with ``user``) or a user's ticket."""

    server_name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{0,64}$")] = ""
    #: Only the hub may ask for others.
    user: UserName | None = None
    team: Name | None = None
    pool: Name | None = None
    milli_gpu: Annotated[int, Field(strict=True, ge=1, le=1_024_000)]
    gpu_kind: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 ._-]{1,64}$")] | None = None
    environment: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 ._:/@-]{0,256}$")] = ""


class SliceView(View):
    """The slice a notebook holds, all that a sharing provider needs to attach it."""

    slice_id: str
    node: str
    device_ids: list[str]
    device_indices: list[int]
    gpu_kind: str
    milli_gpu: int
    memory_mib: int
    isolation: str
    simulated: bool


class IdleView(View):
    """The idle timer of a notebook."""

    idle_since_ms: int | None = None
    warned_ms: int | None = None
    returns_ms: int | None = None
    keeps_left: int = 0
    kept_until_ms: int | None = None
    #: Limits in force, in minutes, for the sentence "returned after 60 idle min".
    idle_after_min: int = 60
    warn_after_min: int = 50


class LeaseView(View):
    """A notebook's hold on its slice, or its place in line."""

    id: str
    user: str
    server_name: str
    team: str
    pool: str
    state: str
    milli_gpu: int
    gpu_kind: str | None = None
    environment: str = ""
    requested_ms: int
    since_ms: int
    position: int | None = None
    reason: ReasonView | None = None
    redeem_by_ms: int | None = None
    slice: SliceView | None = None
    idle: IdleView | None = None
    ended_text: str | None = None


class LeaseList(View):
    """Leases, newest first."""

    leases: list[LeaseView]
    cursor: str | None = None


class StartedReport(Model):
    """The spawner says: the server runs, and this process is the root of its tree."""

    pid: int | None = Field(default=None, strict=True, ge=2, le=2**31 - 1)


class EndReport(Model):
    """Why a lease ends."""

    why: Literal["stopped", "culled", "released", "reclaimed", "failed", "left"] = "stopped"
    text: Text = ""


class KernelActivity(Model):
    """One kernel or terminal or child process, as the server extension sees it."""

    kind: Literal["kernel", "terminal", "process"]
    name: Text = ""
    busy: bool
    #: Last user input or output, UTC; None = never or unknown.
    last_active_ms: int | None = Field(default=None, strict=True, ge=0, le=4_102_444_800_000)


class ActivityReport(Model):
    """What a notebook server does, sent every 15 s by the extension."""

    kernels: list[KernelActivity] = Field(default_factory=list, max_length=512)


class ActivityView(View):
    """All that the culler decides on, for one lease."""

    lease: LeaseView
    #: The newest report; None = never one: not idle, but unverified.
    reported_ms: int | None = None
    kernels: list[KernelActivity] = []
    #: When the slice last computed or grew its memory; None = never seen.
    gpu_active_ms: int | None = None
    #: When usage was last read; None = no telemetry.
    usage_ms: int | None = None
    compute_percent_p95: int | None = None


class ActivityList(View):
    """Every lease that holds a device, with its activity; ``now_ms`` is the server's clock."""

    now_ms: int
    activities: list[ActivityView]


class IdleReport(Model):
    """The culler's view: idle since, and when it will be returned. Both None = active."""

    idle_since_ms: int | None = Field(default=None, strict=True, ge=0, le=4_102_444_800_000)
    returns_ms: int | None = Field(default=None, strict=True, ge=0, le=4_102_444_800_000)


class KeepRequest(Model):
    """*Keep 30 min*."""

    minutes: int = Field(default=30, strict=True, ge=1, le=240)


class ReclaimRequest(Model):
    """An admin wants a notebook's GPU back."""

    force: bool = False
    reason: Text = ""


# --- quotas, pools, nodes --------------------------------------------------------------------


class QuotaModel(Model):
    """What a team may hold in one pool."""

    fixed_milli_gpu: MilliGpu = 0
    guaranteed_milli_gpu: MilliGpu = 0
    limit_milli_gpu: MilliGpu | None = None
    over_quota_weight: int = Field(default=1, strict=True, ge=0, le=1000)


class PolicyModel(Model):
    """Rules of a team; a refusal names the field."""

    environments: list[Annotated[str, StringConstraints(max_length=256)]] = []
    max_run_s: int | None = Field(default=None, strict=True, ge=1, le=31_536_000)
    priorities: list[Literal["low", "normal", "high"]] = ["low", "normal", "high"]
    max_milli_gpu_per_job: MilliGpu | None = None
    max_workers: int | None = Field(default=None, strict=True, ge=1, le=1024)
    max_pending_per_user: int = Field(default=100, strict=True, ge=1, le=100_000)
    retrain_in_guarantee: bool = False
    show_names: bool = False


class TeamModel(Model):
    """A team as an admin writes it (YAML, REST)."""

    name: Name
    parent: Name | None = None
    groups: list[Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f]{1,128}$")]] = []
    members: list[UserName] = []
    leads: list[UserName] = []
    quotas: dict[Name, QuotaModel] = {}
    policy: PolicyModel = PolicyModel()


class PoolModel(Model):
    """A pool as an admin writes it."""

    name: Name
    executor: Literal["local", "fake"] = "local"
    gpu_kind: str | None = Field(default=None, max_length=64)
    notice_s: int = Field(default=30, strict=True, ge=0, le=86_400)
    grace_s: int = Field(default=30, strict=True, ge=1, le=86_400)
    headroom_milli_gpu: MilliGpu = 0
    min_run_s: int = Field(default=60, strict=True, ge=0, le=86_400)
    notebook_sizes: list[Annotated[int, Field(strict=True, ge=125, le=64_000)]] = [250, 500, 1000]


class ConfigModel(Model):
    """One YAML file: pools, teams and the hub-wide policy; what is left out stays as it is."""

    pools: list[PoolModel] = []
    teams: list[TeamModel] = []
    policy: PolicyModel | None = None


class QuotaChange(Model):
    """One row of the quota table."""

    team: Name
    pool: Name
    quota: QuotaModel


class QuotaChanges(Model):
    """Several quotas, saved together or not at all. ``dry_run`` only checks the layout."""

    changes: list[QuotaChange] = Field(min_length=1, max_length=1000)
    dry_run: bool = False


class LayoutView(View):
    """What the check says: "8 fixed + 22 guaranteed = 30 of 32 GPUs: can be laid out"."""

    ok: bool
    text: str
    fixed_milli_gpu: int
    guaranteed_milli_gpu: int
    total_milli_gpu: int


class TeamUseView(View):
    """A team's numbers in one pool."""

    pool: str
    quota: QuotaModel
    fixed_used_milli_gpu: int = 0
    guaranteed_used_milli_gpu: int = 0
    borrowed_milli_gpu: int = 0
    waiting: int = 0


class TeamView(View):
    """A team; ``mine`` is true for the caller's own."""

    name: str
    parent: str | None = None
    mine: bool = False
    groups: list[str] = []
    members: list[str] = []
    leads: list[str] = []
    use: list[TeamUseView] = []
    policy: PolicyModel | None = None


class TeamList(View):
    """All teams that the caller may see."""

    teams: list[TeamView]


class HoldView(View):
    """One slice drawn on one device of the capacity map."""

    workload_id: str | None = None
    name: str | None = None
    team: str
    owner: str = ""
    #: ``notebook``, ``notebook-idle``, ``guaranteed``, ``borrowed``.
    shown_as: str
    offset: int
    milli_gpu: int


class DeviceView(View):
    """One GPU of the capacity map."""

    id: str
    index: int
    kind: str
    memory_mib: int
    simulated: bool
    holds: list[HoldView] = []


class NodeView(View):
    """One node of the capacity map."""

    id: str
    pool: str
    state: str
    cpu_milli: int
    memory_mib: int
    devices: list[DeviceView] = []


class NodeList(View):
    """All nodes."""

    nodes: list[NodeView]
    now_ms: int


#: ``free``: starts at once; ``wait``: a ticket would wait (also behind a reclaim); ``never``.
Availability = Literal["free", "wait", "never"]


class SizeView(View):
    """One notebook size of the options form."""

    milli_gpu: int
    memory_mib: int
    availability: Availability
    text: str


class PoolView(View):
    """A pool with its live numbers."""

    name: str
    gpu_kind: str | None = None
    isolation: str = "none"
    simulated: bool = False
    notice_s: int
    grace_s: int
    headroom_milli_gpu: int = 0
    notebook_sizes: list[int] = []
    total_milli_gpu: int
    free_milli_gpu: int
    next_free_ms: int | None = None


class PoolList(View):
    """All pools."""

    pools: list[PoolView]
    now_ms: int


class OfferView(View):
    """What a user may open as a notebook in one team and pool right now: the options form."""

    team: str
    pool: str
    gpu_kind: str | None = None
    fixed_milli_gpu: int
    fixed_used_milli_gpu: int
    sizes: list[SizeView]
    isolation: str
    simulated: bool
    idle_after_min: int = 60


class OfferList(View):
    """All offers for one user; ``now_ms`` gives the age of the data."""

    user: str
    offers: list[OfferView]
    now_ms: int
    ticket: LeaseView | None = None
    #: The last end of this server, for "Stopped at 14:02: idle 60 min."
    last_end: str | None = None


class NodeStateRequest(Model):
    """Cordon, uncordon or fence."""

    state: Literal["ready", "cordoned", "fenced"]
    reason: Text = ""


# --- history ---------------------------------------------------------------------------------


class EventView(View):
    """One thing that happened."""

    number: int
    at_ms: int
    kind: str
    by: str
    text: str
    workload_id: str | None = None
    attempt_id: str | None = None
    team: str | None = None
    data: dict[str, object] = {}


class EventList(View):
    """Events after a cursor, oldest first; ``last`` is the next cursor."""

    events: list[EventView]
    last: int


class ReportRow(View):
    """A line of the usage report, in GPU hours × 1000 (milli-GPU·hours)."""

    team: str
    owner: str
    held_milli_gpu_h: int
    used_milli_gpu_h: int | None = None
    idle_milli_gpu_h: int
    borrowed_milli_gpu_h: int
    lost_milli_gpu_h: int


class Report(View):
    """Usage by team and user in a span."""

    from_ms: int
    to_ms: int
    rows: list[ReportRow]


class WhoAmI(View):
    """The caller, as the scheduler sees it."""

    name: str
    teams: list[str]
    admin: bool
    leads: list[str] = []
    shared_account: bool = False


class ErrorView(View):
    """Every refusal: a stable code and a sentence."""

    error: str
    message: str
    details: list[dict[str, object]] = []
