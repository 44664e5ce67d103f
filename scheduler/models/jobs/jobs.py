"""Jobs: as people write them, and as everyone sees them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.models.fields import (
    Argument,
    CpuMilli,
    EnvName,
    GpuKind,
    GpuMemoryMib,
    Id,
    LauncherName,
    MemoryMib,
    MilliGpu,
    Model,
    Name,
    PricePerHour,
    Ref,
    RelativePath,
    RunSeconds,
    Sha256,
    Text,
    UserName,
    View,
    Workers,
)
from gpucommons.scheduler.models.jobs.attempts import (
    AttemptView,
    CheckpointView,
    DrillView,
    ProgressView,
    WayToGoOnView,
)
from gpucommons.scheduler.models.jobs.reasons import ForecastView, ReasonView

#: On one job.
MOST_LABELS = 32
#: Others that one waits for to succeed.
MOST_AFTER = 64


class RoleRequest(Model):
    """Like workers of a job."""

    name: Name = "worker"
    count: Workers = 1
    milli_gpu: MilliGpu = 0
    #: The smallest slice of any allowed pool that has so much GPU memory; with ``milli_gpu``, the least
    #: that a slice of that size must have.
    gpu_memory_mib: GpuMemoryMib | None = None
    gpu_kind: GpuKind | None = None
    #: Left out: 1000, or what goes with its part of a GPU where that is less.
    cpu_milli: CpuMilli = 1000
    memory_mib: MemoryMib = 1024
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
    #: Whose job it is; only a service that may submit for everyone names another.
    user: UserName | None = None
    #: Needed only by members of several teams.
    team: Name | None = None
    #: In order of preference; default: the pools in which the team has training quota.
    pools: list[Name] = Field(default_factory=list, max_length=16)
    roles: list[RoleRequest] = Field(min_length=1, max_length=8)
    min_workers: Workers | None = None
    max_workers: Workers | None = None
    priority: Literal["low", "normal", "high"] = "normal"
    over_quota: bool = True
    max_run_s: RunSeconds | None = None
    #: Per GPU and hour, in the pools' currency: it waits while each of its pools costs more.
    max_price: PricePerHour | None = None
    start_timeout_s: int = Field(default=300, strict=True, ge=1, le=86_400)
    after: list[Ref] = Field(default_factory=list, max_length=MOST_AFTER)
    #: Once these are over, however; and once these have ended without success.
    after_any: list[Ref] = Field(default_factory=list, max_length=64)
    after_failed: list[Ref] = Field(default_factory=list, max_length=64)
    #: Rather on the nodes, or at least in the racks, where these run and this data lies.
    near: list[Ref] = Field(default_factory=list, max_length=16)
    data: list[Name] = Field(default_factory=list, max_length=16)
    not_before_ms: int = Field(default=0, strict=True, ge=0, le=4_102_444_800_000)
    parent: Id | None = None
    #: Go on from what this job of the same owner and team saved last. If it still waits, the new
    #: one takes its place: it is cancelled in the same step.
    resume_from: Ref | None = None
    #: How several workers find each other, by the name of a launcher; ``auto``: as the script or
    #: command proposes.
    launcher: LauncherName = "auto"
    snapshot: Sha256 | None = None
    working_dir: RelativePath = "."
    #: Python that it runs with: name or path of a kernel, venv or conda environment, or an image;
    #: stored as the folder that it led to. "" = the default.
    environment: Annotated[str, StringConstraints(pattern=r"^[ -~]{0,256}$")] = ""
    #: Files and folders that the snapshot left out, linked from the same place below ``links_from``.
    links: list[RelativePath] = Field(default_factory=list, max_length=64)
    #: The folder below the owner's home that the snapshot was made of.
    links_from: RelativePath | None = None
    env: dict[EnvName, Argument] = Field(default_factory=dict, max_length=128)
    secrets: dict[EnvName, Name] = Field(default_factory=dict, max_length=32)
    checkpoints_kept: int = Field(default=3, strict=True, ge=1, le=100)
    max_restarts: int = Field(default=0, strict=True, ge=0, le=100)
    results_to: RelativePath | None = None
    #: What an exit with status 0 after a signal means. A script that saves and leaves is to go on.
    exit_after_signal: Literal["preempted", "success"] = "preempted"
    #: Sent when a stop is announced, SIGTERM follows as ever; left out: as the pool says.
    notice_signal: Literal["SIGUSR1", "none"] | None = None
    #: False: its processes are never saved to disk, whatever its pool allows.
    hibernation: bool = True
    labels: dict[Name, Text] = Field(default_factory=dict, max_length=MOST_LABELS)
    #: The plan that it follows, of an answer to ``POST /v1/advise``.
    plan: Id | None = None

    @model_validator(mode="after")
    def _bounds_agree(self) -> JobRequest:
        low, high = self.min_workers, self.max_workers
        if low is not None and high is not None and low > high:
            message = f"min_workers {low} is more than max_workers {high}."
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _links_lead_somewhere(self) -> JobRequest:
        if self.links and self.links_from is None:
            message = "links need links_from, the folder below your home that they lead to."
            raise ValueError(message)
        return self


class JobSize(Model):
    """Another size for a job that waits; what is left out stays."""

    #: Per worker of the first role.
    milli_gpu: int | None = Field(default=None, strict=True, ge=0, le=1_024_000)
    workers: Workers | None = None


class PauseView(View):
    """A pause that is over."""

    from_ms: int
    to_ms: int


class ResultFileView(View):
    """A file that a job wrote."""

    path: str
    size_bytes: int


class NotBroughtView(View):
    """A file that stayed with the job, and why."""

    path: str
    reason: str


class ResultsView(View):
    """What a job wrote, and where it is: only what is known."""

    #: ``later``: it is not over; ``copying``; ``here``: in ``folder``; ``none``: it wrote nothing;
    #: ``never_ran``; ``lost``: nothing is left of what it wrote, or will be; ``unknown``: what became of
    #: it is not on record; ``left_out``: it wrote only what is not copied; ``stayed``: it is still with
    #: the job; ``away``: it is to be fetched.
    state: Literal[
        "later", "copying", "here", "none", "never_ran", "lost", "unknown", "left_out", "stayed", "away"
    ]  # fmt: skip
    text: str
    #: Below the owner's home folder; with ``later`` and ``copying`` the one that is meant.
    folder: str | None = None
    #: With ``here``: the same on the machine where it ran.
    path: str | None = None
    count: int = 0
    size_bytes: int = 0
    #: The first of them.
    files: list[ResultFileView] = []
    not_brought: list[NotBroughtView] = []
    not_brought_count: int = 0


#: On a job: what submitted it, for pages: ``sbatch``, ``schedule nightly``.
ORIGIN_LABEL = "origin"
#: What did keeps a key among the job's files.
DASK_ORIGIN, RAY_ORIGIN = "dask", "ray"
KEY_ORIGINS = frozenset({DASK_ORIGIN, RAY_ORIGIN})
#: Before the name of the schedule that did.
SCHEDULE_ORIGIN = "schedule "
#: Before the name of the schedule for which a job looks at data.
LOOK_ORIGIN = "look of schedule "
#: On a job of a schedule that watches data: their version, as they were looked at last.
DATA_VERSION_LABEL = "data-version"
#: Before the name of the pipeline that it is a step of.
PIPELINE_ORIGIN = "pipeline "
#: On a job: which object of a cluster it was made of. Only who submits for others may say so: the
#: job ends with its object.
OBJECT_LABEL = "kubernetes-object"


class PartOfView(View):
    """The sweep, map, schedule or pipeline that a job is part of."""

    id: str
    #: ``sweep``, ``map``, ``schedule`` or ``pipeline``.
    kind: str
    name: str
    #: Which of its jobs this is.
    number: int = 0


class JobView(View):
    """A job as everyone sees it. ``owner`` is empty where policy hides it."""

    id: str
    name: str
    kind: str
    team: str
    owner: str
    submitted_by: str
    state: str
    #: What every screen calls it: "waiting".
    state_text: str = ""
    hold_class: str | None = None
    pools: list[str]
    pool: str | None = None
    milli_gpu: int
    workers: int
    #: The size that was submitted, where it was changed since.
    submitted_size: JobSize | None = None
    priority: str
    over_quota: bool
    submitted_ms: int
    since_ms: int
    ended_ms: int | None = None
    ended_text: str | None = None
    reason: ReasonView | None = None
    position: int | None = None
    #: While it waits.
    forecast: ForecastView | None = None
    progress: ProgressView | None = None
    checkpoint: CheckpointView | None = None
    #: None where nothing of it ran yet, and once it is over.
    way_to_go_on: WayToGoOnView | None = None
    #: None where no stop of it has shown, or is to show, anything.
    drill: DrillView | None = None
    #: Code like its own, in such an environment, was stopped and went on.
    safe_to_borrow: bool = False
    attempts: list[AttemptView] = []
    #: The newest pauses that are over; one that lasts is its state.
    pauses: list[PauseView] = []
    held_milli_gpu_s: int = 0
    lost_milli_gpu_s: int = 0
    simulated: bool = False
    source: str | None = None
    #: Shown to members of the team.
    part_of: PartOfView | None = None
    #: It succeeded away from its notebook: what it made is to be had with ``jobs/{ref}/results``.
    results_away: bool = False
    #: What it wrote; shown to whoever may fetch it, and not in lists.
    results: ResultsView | None = None
    #: What was asked, exactly as stored; shown to members of the team.
    request: JobRequest | None = None
    #: Why the caller may not run it again; None where they may, or see too little of it to ask.
    again_hindrance: str | None = None
    #: What it reports is refused, and why; shown to members of the team.
    reports_refused: str | None = None
    #: Of a submit: what likely goes wrong with it, and what to do. Of a job that runs: which of its GPUs
    #: are unhealthy.
    warnings: list[str] = []
    #: Of a submit that names no launcher: the one of its workers, and why.
    launcher_text: str = ""
    #: Fields of it that are empty here (``roles.command``: "…"), because this is a list and they are
    #: long: ask for the job before its request is used again.
    request_lacks: list[str] = []


class JobList(View):
    """A page of jobs, newest first."""

    jobs: list[JobView]
    cursor: str | None = None


class Quote(View):
    """What would happen to a job if it were submitted now: the panel's quota line."""

    hold_class: str
    #: "Borrowed. vision has 0 of 4 guaranteed GPUs free, so this job borrows 2: other teams…"; it
    #: ends with why the job would wait, or that it would start.
    text: str
    #: The same of a job that does not start now, as a schedule's: whose GPUs it takes, and what they cost.
    quota_text: str = ""
    #: What becomes of its work if it is stopped, as far as that is known before it began.
    stop_text: str = ""
    #: That it is known to go on when it is stopped, or will be tested for that; "" = neither.
    drill_text: str = ""
    starts_now: bool
    reason: ReasonView | None = None
    guaranteed_milli_gpu: int
    guaranteed_used_milli_gpu: int
    free_milli_gpu: int
    #: No real GPUs stand behind those that it may get.
    simulated: bool = False
    #: What likely goes wrong with it, and what to do.
    warnings: list[str] = []


class EnvironmentView(View):
    """What a job may run with."""

    #: For the field ``environment`` of a job.
    environment: str
    name: str
    #: ``3.12``; "" where it is not known.
    python: str = ""


class EnvironmentList(View):
    """All that the caller may choose from; "" is the default."""

    #: Folders of this machine, or images of a cluster.
    kind: Literal["folder", "image"]
    environments: list[EnvironmentView]
    #: The image of the notebook that asks, which its jobs run in by default; "" = as the admin says.
    default: str = ""
    #: What may start a job's workers here, by name, with what other packages bring.
    launchers: list[str] = []


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
    #: What steps count (``epoch``, ``round``, …), where the source says so. Parts of epochs are
    #: counted in thousandths; the metric ``epoch`` has them as they are.
    unit: str = ""


class Curve(View):
    """A job's metric curve as one source tells it, oldest first; a step that was repeated stands once."""

    points: list[CurvePoint]
    #: ``report`` (the script itself), ``trainer`` (posted by a trainer), ``tensorboard`` or ``log``.
    source: str = "report"
    #: All that have points.
    sources: list[str] = []


class SnapshotView(View):
    """An uploaded snapshot."""

    sha256: str
    size_bytes: int
