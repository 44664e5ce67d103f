"""What became of plans: one job beside its own, and how often ranges were right."""

from __future__ import annotations

from gpucommons.scheduler.models.fields import View
from gpucommons.scheduler.models.reports import SampleView


class JudgedLine(View):
    """One number of a plan, beside what came."""

    what: str
    #: "9.1–10.4 samples/s".
    predicted: str
    #: "9.8 samples/s", "not known: it told too few steps".
    actual: str
    #: Moments, for the reader's own clock, in UTC milliseconds: first and last, and what came.
    predicted_ms: tuple[int, int] | None = None
    actual_ms: int | None = None
    #: None where that cannot be said, or not yet.
    right: bool | None = None


class PlanAnewView(View):
    """The plan of a job that runs, or ran last, with another number of GPUs than its plan had."""

    #: It went on from there; None = it began so.
    step: int | None = None
    #: What it counts so: "step", "epoch".
    unit: str = "step"
    gpus: int
    #: "DDP × 2, accumulation × 2".
    layout: str
    #: Samples of an optimizer step, as before.
    batch: int
    #: It is what a script does that takes the micro-steps and the batch that it is told.
    as_told: bool
    verdict: str
    #: "9.1–10.4 samples/s".
    speed: str
    #: All of it in words.
    text: str


class PlanRecord(View):
    """A job's plan, as it was said, beside what came."""

    #: "FSDP × 4 on 4 × A100-40 of train, grade B".
    text: str
    grade: str = ""
    made_ms: int | None = None
    #: What has to be known to compare them: it ran on other GPUs, GPUs are simulated.
    notes: list[str] = []
    lines: list[JudgedLine] = []
    #: None where it has as many GPUs as planned, or nothing can be said of as many as it has.
    anew: PlanAnewView | None = None
    is_over: bool = False
    #: Where it stands how right plans were; "" where there are no pages.
    record_url: str = ""


class ShareView(View):
    """How many of how many, and where the true share is likely to lie."""

    right: int
    of: int
    #: In per cent; None where there are too few to say.
    percent: int | None = None
    low_percent: int | None = None
    high_percent: int | None = None
    #: "172 of 214 (80 %)", "7 of 9: too few to say".
    text: str


class ClockRow(View):
    """Windows of one kind of wait."""

    what: str
    #: Of one pool, below the row of all.
    pool: str = ""
    share: ShareView
    later: int
    earlier: int
    #: Waits of which nothing was said, or only a wider range.
    withheld: int


class GradeRow(View):
    """Plans of one grade that were run as they were planned."""

    grade: str
    meaning: str
    runs: int
    speed: ShareView
    wait: ShareView
    #: By how much the middle of the range is off, half of the times; None where there are too few.
    speed_off_percent: int | None = None
    money_off_percent: int | None = None
    #: Plans that said "fits" or "tight": how many had room, and how many ran out of GPU memory.
    fitted: int
    ran_out: int


class WaitDrawn(View):
    """One window that was said, and what came."""

    from_ms: int
    to_ms: int
    took_ms: int
    started: bool
    right: bool


class SpeedDrawn(View):
    """One plan's speed and what was measured, in samples per second."""

    grade: str
    low: float
    middle: float
    high: float
    measured: float
    right: bool


class CalibrationView(SampleView):
    """How often ranges were right."""

    from_ms: int
    now_ms: int
    clocks: list[ClockRow]
    grades: list[GradeRow]
    #: The newest last.
    waits: list[WaitDrawn]
    speeds: list[SpeedDrawn]
    #: What is not among the numbers, and why.
    notes: list[str]
