"""The usage report and what is drawn beside it: days, weeks, and GPUs allocated and used over time."""

from __future__ import annotations

from typing import Literal

from gpucommons.scheduler.models.fields import View

#: Columns of a report, as the page and the spreadsheets of page and command name them.
LENT = "Lent"
REPORT_COLUMNS = (
    "Team", "User", "Project", "Held", "Really used", "Held idle", "Borrowed", LENT, "Lost at most",
    "Parked",
)  # fmt: skip


class ReportRow(View):
    """A line of the usage report, in GPU hours × 1000 (milli-GPU·hours)."""

    team: str
    owner: str
    #: The value of the label `project` of jobs; "" without.
    project: str = ""
    held_milli_gpu_h: int
    used_milli_gpu_h: int | None = None
    idle_milli_gpu_h: int
    borrowed_milli_gpu_h: int
    lost_milli_gpu_h: int
    #: No part of what was held: what parked notebooks would have held.
    parked_milli_gpu_h: int = 0
    #: In millionths of the currency, for what had a price.
    cost_micro: int | None = None
    #: Held where there was no price.
    unpriced_milli_gpu_h: int = 0


class LentRow(View):
    """What borrowers held of a team's unused quota, in milli-GPU·hours."""

    team: str
    lent_milli_gpu_h: int
    #: Fixed and guaranteed quota, in the minutes that are counted.
    quota_milli_gpu_h: int


class ReportDay(View):
    """One day of a report, UTC, in milli-GPU·hours."""

    from_ms: int
    held_milli_gpu_h: int
    used_milli_gpu_h: int | None = None
    idle_milli_gpu_h: int
    borrowed_milli_gpu_h: int
    lost_milli_gpu_h: int
    #: All GPUs that were there; None where it is not known, or not all teams are seen.
    there_milli_gpu_h: int | None = None


class FinishedWeek(View):
    """A week from Monday on, UTC; the last one may not be over."""

    from_ms: int
    to_ms: int
    #: Jobs that succeeded, each trial of a sweep, too.
    finished: int
    #: What all held in it, notebooks too, in milli-GPU·hours.
    held_milli_gpu_h: int


class UsePoint(View):
    """Means of a step, in milli-GPU; None = not known, which is not zero."""

    from_ms: int
    #: What they are means of: the first and the last step may be known in part. Means of several
    #: steps weigh by it.
    known_ms: int = 1
    #: Reserved, used or not.
    allocated_milli_gpu: int | None = None
    #: Allocated, times how much it computed; None where nothing was measured.
    used_milli_gpu: int | None = None
    #: GPUs of the pools, or quota of the teams.
    there_milli_gpu: int | None = None


class UseLine(View):
    """Points of all that was asked for, of one team or of one pool."""

    of: Literal["all", "team", "pool"]
    name: str = ""
    points: list[UsePoint]
    #: What the points' `there_milli_gpu` is in force as now; None = not known, as of sample data.
    there_now_milli_gpu: int | None = None


class SampleView(View):
    """Whether numbers are the demo's sample data, and whether it has some."""

    is_sample: bool = False
    has_sample: bool = False


class Report(SampleView):
    """Usage by team, user and project in a span."""

    #: What is counted: days that are long over in whole quarters of an hour, so it may be more than asked.
    from_ms: int
    to_ms: int
    rows: list[ReportRow]
    #: Of the costs; "" where no pool has a price.
    currency: str = ""
    #: Of teams with a quota; a team that is not here lent nothing.
    lent: list[LentRow] = []
    #: The first minute of the span of which it is known who lent; None where of none.
    lent_from_ms: int | None = None
    #: Borrowed before that minute: who lent it is not known.
    lent_unknown_milli_gpu_h: int = 0
    #: Borrowed of GPUs in no team's quota, where all teams are here: rounded once, as no sum of rows is.
    lent_by_none_milli_gpu_h: int = 0
    #: All GPUs that were there; None where it is not known of the whole time in which any was held.
    capacity_milli_gpu_h: int | None = None
    #: Whether all teams are here, and not the caller's alone.
    all_teams: bool = False
    #: Pools in which any of it was held whose GPUs are simulated: their use was not measured on a GPU.
    simulated_pools: list[str] = []
    #: The same by day, UTC; the first and the last may be parts of one.
    days: list[ReportDay] = []
    #: Whole weeks that the span touches.
    weeks: list[FinishedWeek] = []


class UseMark(View):
    """Something that was changed meanwhile."""

    at_ms: int
    text: str


class Utilisation(SampleView):
    """Allocated beside used over time."""

    from_ms: int
    to_ms: int
    #: How long a point lasts: longer, the longer the span.
    step_ms: int
    #: The ledger keeps minutes for so many days; None = for ever.
    kept_days: int | None
    #: Whether `there` counts quotas of teams, and not all GPUs of pools.
    of_quotas: bool
    #: Of the pools that are drawn, those whose GPUs are simulated.
    simulated_pools: list[str] = []
    #: What can be chosen.
    pools: list[str]
    teams: list[str]
    #: The first is of all that was asked for.
    lines: list[UseLine]
    marks: list[UseMark]
    weeks: list[FinishedWeek]
