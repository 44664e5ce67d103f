"""Plans as everyone sees them: ranges, grades, one sentence each; or one sentence why there are none."""

from __future__ import annotations

from gpucommons.scheduler.models.fields import View


class RangeView(View):
    """In eight of ten cases between the first and the last, as far as the grade goes."""

    low: float
    middle: float
    high: float


class MemoryTermView(View):
    """One part of what a GPU must hold."""

    name: str
    mib: int


class PlanView(View):
    """One way to run the training."""

    #: For the field ``plan`` of a job: its page shows this beside what came.
    id: str = ""
    pool: str
    gpu_kind: str
    gpus: int
    #: What *Use this plan* fills in: workers of so many GPUs, joined by this launcher.
    workers: int
    milli_gpu: int
    launcher: str
    #: "FSDP × 4, accumulation × 2".
    layout: str
    #: What the script has to do for it: the launcher only starts processes.
    script: list[str]
    #: In its place: the script's own arguments, which a job that takes the plan is started with.
    arguments: list[str] = []
    #: ``fits``, ``tight``, ``no`` or ``not known``.
    verdict: str
    #: Of the fullest GPU; 0 where it is not known.
    memory_mib: int
    #: What one GPU has for a job.
    available_mib: int
    #: The largest four parts, largest first.
    largest: list[MemoryTermView]
    samples_per_s: RangeView
    #: None where a sample has no tokens.
    tokens_per_s: RangeView | None = None
    #: From the forecast of the real queue; None where it says nothing.
    wait_s: RangeView | None = None
    #: "none", "10–25 min", "not known".
    wait_text: str
    #: How far that is to be trusted; empty where it is not said.
    wait_note: str = ""
    run_s: RangeView
    #: Seconds from now; None where the wait is not known.
    finish_s: RangeView | None = None
    gpu_hours: float
    #: None where the pool has no price.
    cost: float | None = None
    #: "fits: 31.0 of 38.8 GiB (optimizer 12.1, …)".
    memory_text: str = ""
    #: "9.1–10.4 k tokens/s".
    speed_text: str = ""
    bottleneck: str
    why: str
    #: ``A``: runs like it; ``B``: measured parts or few runs; ``C``: formulas alone.
    grade: str
    #: ``guaranteed`` or ``over-quota``: whether other teams could stop it; "" where that was not tried.
    hold_class: str = ""


class PrunedView(View):
    """So many layouts were not considered further."""

    reason: str
    count: int


class WhyNotView(View):
    """Why a number of GPUs is not the first plan."""

    gpus: int
    text: str


class AdviceView(View):
    """Plans, best first, with the plain one beside them; or why there are none."""

    plans: list[PlanView] = []
    #: What most people would run: whole copies on the GPUs of one node.
    plain: PlanView | None = None
    #: The same in one sentence.
    plain_text: str = ""
    #: Why there is no plan; "" where there is one.
    declined: str = ""
    #: A job that trained it for a while would tell: the question can name one (``like``).
    try_like: bool = False
    why_not: list[WhyNotView] = []
    #: Layouts that were looked at, and why others were not.
    considered: int = 0
    pruned: list[PrunedView] = []
    #: What has to be known to judge the numbers: simulated GPUs, what no pool says.
    notes: list[str] = []
    #: Of the costs; "" where no pool has a price.
    currency: str = ""
    #: Where it stands how right plans were; "" where there are no pages.
    record_url: str = ""
    now_ms: int
