"""One person's waiting jobs, looked at together."""

from __future__ import annotations

from gpucommons.scheduler.models.fields import View


class TogetherJob(View):
    """One of them: with how many GPUs it is best for all, and as it was submitted."""

    id: str
    name: str
    gpus: int
    gpus_asked: int
    run_s: float
    run_as_asked_s: float
    #: What would be best for it alone, whatever becomes of the others.
    gpus_alone: int = 0


class TogetherPool(View):
    """Those of one pool, in their order."""

    pool: str
    #: GPUs that were dealt out.
    gpus: int
    #: Until a job is done, on average.
    mean_s: float
    mean_as_asked_s: float
    #: The same where each has what is best for it alone.
    mean_alone_s: float = 0.0
    #: No other numbers are better by 2 %; else these are the best that were found.
    is_best: bool = True
    jobs: list[TogetherJob]


class TogetherView(View):
    """Sizes with which they are done soonest, of those that were tried. Nothing is changed by it."""

    pools: list[TogetherPool] = []
    #: Names of those of which no formula is known: they took no plan.
    unknown: list[str] = []
    #: Names of those that ran already: how much of them is left is not reckoned.
    ran: list[str] = []
    #: Names of those that took a plan and were submitted after as many as are looked at.
    later: list[str] = []
    text: str
