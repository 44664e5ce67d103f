"""What happened: events, and usage over a span."""

from __future__ import annotations

from gpucommons.scheduler.models.fields import View
from gpucommons.scheduler.models.reports import FinishedWeek, ReportDay, SampleView


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
    #: The value of the label `project` of jobs; "" without.
    project: str = ""
    held_milli_gpu_h: int
    used_milli_gpu_h: int | None = None
    idle_milli_gpu_h: int
    borrowed_milli_gpu_h: int
    lost_milli_gpu_h: int
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


#: Left by a restore of a backup for the next start, and what that start found.
RESTORED, RECONCILED = "restored", "reconciled"
#: Event kinds of what admins change: the audit rows.
CHANGE_KINDS = (
    "quota-changed",
    "team-created",
    "team-changed",
    "team-removed",
    "pool-created",
    "pool-changed",
    "policy-changed",
    RESTORED,
    RECONCILED,
)
#: Columns of a report, as the page and the spreadsheets of page and command name them.
LENT = "Lent"
REPORT_COLUMNS = (
    "Team", "User", "Project", "Held", "Really used", "Held idle", "Borrowed", LENT, "Lost at most",
)  # fmt: skip


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
    #: All GPUs that were there; None where it is not known of the whole time in which any was held.
    capacity_milli_gpu_h: int | None = None
    #: Whether all teams are here, and not the caller's alone.
    all_teams: bool = False
    #: The same by day, UTC; the first and the last may be parts of one.
    days: list[ReportDay] = []
    #: Whole weeks that the span touches.
    weeks: list[FinishedWeek] = []
