"""What a job's curve so far says of its goal, and of whether going on is worth it."""

from __future__ import annotations

from gpucommons.scheduler.models.fields import View


class OpenRangeView(View):
    """In eight of ten cases between the first and the last; None = further than was looked."""

    low: float | None = None
    middle: float | None = None
    high: float | None = None


class OutlookSize(View):
    """The same goal with another number of GPUs: so much longer it would run, without waits for GPUs."""

    gpus: int
    seconds: OpenRangeView
    #: ``measured`` (it runs so), ``runs`` (fitted to its own attempts) or ``formula`` (of its plan).
    basis: str


class PartedView(View):
    """A validation loss that rises while training's falls."""

    metric: str
    trained: str
    #: Where it was lowest.
    since: float


class CurveOutlook(View):
    """When a metric likely reaches a goal. Nothing is stopped by it."""

    metric: str
    goal: float
    #: What ``at`` and ``steps`` count: ``step``, ``epoch`` …
    unit: str
    #: Where the curve is now, and its value there without its noise; None where too little is known.
    at: float | None = None
    value: float | None = None
    #: Where it was reached already.
    reached_at: float | None = None
    #: Where it likely is; None where it was, or where nothing is said.
    steps: OpenRangeView | None = None
    #: From the newest point on, at the pace of the newest attempt; None where that is not known.
    seconds: OpenRangeView | None = None
    #: With other numbers of GPUs, and its own among them; empty where nothing is known of others.
    sizes: list[OutlookSize] = []
    #: No hardware stands behind its GPUs: what is said of other numbers is an example.
    simulated: bool = False
    #: In so many cases of a hundred within ten times the steps so far.
    share_percent: int | None = None
    #: As long again likely changes next to nothing.
    is_flat: bool = False
    parted: list[PartedView] = []
    #: All of it in a sentence.
    text: str
    #: It is flat; its validation loss rises.
    hints: list[str] = []
