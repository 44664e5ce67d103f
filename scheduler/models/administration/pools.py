"""Pools: as an admin writes them, and with their live numbers."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from gpucommons.scheduler import pool_defaults
from gpucommons.scheduler.models.fields import MilliGpu, Model, Name, Switch, View
from gpucommons.scheduler.on_idle import ON_IDLE, UNLESS_SAID, OnIdle

_MPS_WITH_SERVERS = 3
#: The end of the century: what lies behind it is a mistake.
_LATEST_MS = 4_102_444_800_000
#: Longest time that may be said for saved kernels.
MAX_KEPT_DAYS = 365


class MpsModel(Model):
    """The MPS daemon that an admin runs on every node of a pool."""

    pipe: str = Field(pattern=r"^/[^\x00-\x1f\x7f]{0,1023}$")
    version: Literal[2, 3] = 2
    #: Name of the server; version 3 needs one.
    server: str = Field(default="", pattern=r"^[A-Za-z0-9_-]{0,64}$")

    @model_validator(mode="after")
    def _names_its_server(self) -> Self:
        if self.version == _MPS_WITH_SERVERS and not self.server:
            message = "mps version 3 has named servers: say which one (server)."
            raise ValueError(message)
        return self


class PriceModel(Model):
    """What one GPU costs per hour, from a day on."""

    per_gpu_h: float = Field(ge=0, le=1_000_000, allow_inf_nan=False)
    #: First day, UTC; left out: always, until another begins.
    since: date | None = None


class MeasuredModel(Model):
    """What a probe measured (`gpucommons probe`); 0 where it did not look."""

    #: When; numbers older than 30 days are not reckoned with.
    at_ms: int = Field(strict=True, ge=0, le=_LATEST_MS)
    #: Of which GPUs: numbers of another kind say nothing.
    gpu_kind: str = Field(min_length=1, max_length=64)
    #: Products of large matrices in 16 bits.
    gemm_tflops: float = Field(default=0, ge=0, le=100_000, allow_inf_nan=False)
    #: Bus bandwidth of an all-reduce among all GPUs of a node, and what one hop takes.
    inside_gb_s: float = Field(default=0, ge=0, le=100_000, allow_inf_nan=False)
    inside_us: float = Field(default=0, ge=0, le=1_000_000, allow_inf_nan=False)
    #: The same among all GPUs of several nodes: plans cross nodes only where it is known.
    between_gb_s: float = Field(default=0, ge=0, le=100_000, allow_inf_nan=False)
    between_us: float = Field(default=0, ge=0, le=1_000_000, allow_inf_nan=False)
    #: When, where a later probe of one node left that as it was; 0: with the rest.
    between_at_ms: int = Field(default=0, strict=True, ge=0, le=_LATEST_MS)
    #: Versions of the GPUs' driver then: numbers with another driver are not reckoned with.
    drivers: list[Annotated[str, StringConstraints(pattern=r"^[ -~]{0,64}$")]] = Field(
        default=[], max_length=64
    )


class GrowthModel(Model):
    """An autoscaler brings a pool's nodes where work waits, and takes idle ones away."""

    #: So many at most, those that are there among them.
    max_nodes: int = Field(strict=True, ge=1, le=10_000)
    #: What one of its nodes has for work, beside what the cluster's own pods take.
    gpus: int = Field(strict=True, ge=0, le=64)
    cpu_milli: int = Field(strict=True, ge=1, le=4_096_000)
    memory_mib: int = Field(strict=True, ge=1, le=1 << 28)
    #: From the moment at which a node is asked for until it takes work.
    boot_s: int = Field(default=pool_defaults.BOOT_S, strict=True, ge=1, le=86_400)


class PoolModel(Model):
    """A pool as an admin writes it."""

    #: What jobs and quotas call it.
    name: Name
    #: Who runs its work: what the installation has, which need not be said.
    executor: str | None = Field(default=None, max_length=64)
    #: Of its GPUs; left out: as its nodes say.
    gpu_kind: str | None = Field(default=None, max_length=64)
    #: From the announcement of a stop to SIGTERM; it ends early when all who have to go are done.
    notice_s: int = Field(default=pool_defaults.NOTICE_S, strict=True, ge=0, le=86_400)
    #: From SIGTERM to SIGKILL.
    grace_s: int = Field(default=pool_defaults.GRACE_S, strict=True, ge=1, le=86_400)
    #: Sent to a job when its stop is announced. It ends what does not catch it.
    notice_signal: Literal["SIGUSR1", "none"] = "none"
    #: Processes of stopped jobs are saved to disk, where its nodes can do that.
    hibernation: Switch = "on"
    #: Jobs that borrow are stopped once on purpose after their first save, to see that they go on.
    drills: Switch = "off"
    #: What users may choose for their idle notebooks; the first is for who chose nothing.
    on_idle: list[OnIdle] = Field(default=list(UNLESS_SAID), min_length=1, max_length=len(ON_IDLE))
    #: Kernels of its notebooks that were saved are removed after so many days; users may choose fewer.
    kernels_kept_days: int | None = Field(default=None, strict=True, ge=1, le=MAX_KEPT_DAYS)
    #: Most that saved kernels of one user may take together.
    kernels_kept_gib: int | None = Field(default=None, strict=True, ge=1, le=1 << 20)
    #: A notebook that has kept its GPU busy for so long is offered to become a job; 0 = never.
    job_offer_after_s: int = Field(
        default=pool_defaults.JOB_OFFER_AFTER_S, strict=True, ge=0, le=86_400
    )
    #: Unused GPUs of fixed quota that are never lent, so that the next notebook starts at once.
    headroom_milli_gpu: MilliGpu = 0
    #: Of a thousand running jobs, how many may be moved within an hour to make room for one that waits
    #: only for lack of a place; at least one, unless it is 0.
    moved_permille: int = Field(default=pool_defaults.MOVED_PERMILLE, strict=True, ge=0, le=1000)
    #: Of a thousand GPUs, how many are kept from borrowers while guarantees are unused.
    unlent_permille: int = Field(default=pool_defaults.UNLENT_PERMILLE, strict=True, ge=0, le=1000)
    #: GPUs that a team's guaranteed work gives up are lent to others only after so long.
    lend_after_s: int = Field(default=pool_defaults.LEND_AFTER_S, strict=True, ge=0, le=86_400)
    #: A job runs at least so long before it is stopped for fair share or priority.
    min_run_s: int = Field(default=pool_defaults.MIN_RUN_S, strict=True, ge=0, le=86_400)
    #: What was borrowed so long ago counts half when the surplus is divided.
    half_life_s: int = Field(default=pool_defaults.HALF_LIFE_S, strict=True, ge=60, le=31_536_000)
    #: Sizes of notebooks that are offered, in milli-GPU: 125, 250, 500, 1000, 2000, 4000 …
    notebook_sizes: list[Annotated[int, Field(strict=True, ge=125, le=64_000)]] = list(
        pool_defaults.NOTEBOOK_SIZES
    )
    #: The MPS daemon that parts of its GPUs go through; left out: none.
    mps: MpsModel | None = None
    #: What a GPU costs, kept from day to day: the cost of the past follows from those of then.
    prices: list[PriceModel] = Field(default=[], max_length=200)
    #: Of the prices, as ISO 4217 names it; one for all pools.
    currency: Annotated[str, StringConstraints(pattern=r"^([A-Z]{3})?$")] = ""
    #: What plans reckon with in place of data sheets, written by a probe; left out: as it is.
    measured: MeasuredModel | None = None
    #: Its nodes come by demand. Left out: the nodes that are there are all.
    growth: GrowthModel | None = None

    @model_validator(mode="after")
    def _knows_what_comes(self) -> Self:
        if self.growth is not None and self.growth.gpus and self.gpu_kind is None:
            message = (
                f"Pool {self.name} grows by nodes with GPUs, and before the first is there nobody can say"
                " which: say gpu_kind."
            )
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _prices_agree(self) -> Self:
        if self.prices and not self.currency:
            message = f"Pool {self.name} has prices in no currency: say currency: EUR, USD …"
            raise ValueError(message)
        days = [price.since for price in self.prices]
        if len(set(days)) < len(days):
            message = f"Pool {self.name} has two prices from the same day: keep one."
            raise ValueError(message)
        return self


class PoolView(View):
    """A pool with its live numbers."""

    name: str
    gpu_kind: str | None = None
    isolation: str = "none"
    simulated: bool = False
    notice_s: int
    grace_s: int
    notice_signal: str = "none"
    hibernation: str = "on"
    #: What becomes of the processes of a job that is stopped there; empty = nobody has looked.
    hibernation_text: str = ""
    drills: str = "off"
    on_idle: list[str] = []
    headroom_milli_gpu: int = 0
    notebook_sizes: list[int] = []
    total_milli_gpu: int
    free_milli_gpu: int
    #: Of its GPUs beside the total: on nodes that take nothing new.
    out_milli_gpu: int = 0
    next_free_ms: int | None = None
    #: What a GPU costs per hour now, in millionths; None where the pool has no price.
    price_micro_per_gpu_h: int | None = None
    currency: str = ""


class AskedNodeView(View):
    """A node that an autoscaler was asked for and that takes no work yet."""

    since_ms: int
    #: It was missing when the scheduler that leads now looked first, and may have been asked for before.
    or_earlier: bool = False
    #: When it is likely to take work; past that it is late.
    due_ms: int


class GrowthView(View):
    """What becomes of the nodes that a pool may get by demand."""

    pool: str
    max_nodes: int
    #: Those that are there and take work, or would.
    nodes: int
    #: Those that are there and take nothing new; they count among the most that there may be.
    cordoned: int = 0
    #: Names of those that are there and offer no GPUs yet.
    booting: list[str] = []
    #: That waiting work needs, the oldest first; None = nobody has looked since the scheduler started.
    asked: list[AskedNodeView] | None = None
    #: What the autoscaler says of them; empty where it says nothing.
    said: str = ""
    #: Why none can be asked for; empty where they can.
    refused: str = ""


class GrowthList(View):
    """All pools that get nodes by demand."""

    pools: list[GrowthView]
    now_ms: int


class PoolList(View):
    """All pools."""

    pools: list[PoolView]
    now_ms: int
