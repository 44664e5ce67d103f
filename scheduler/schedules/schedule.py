"""What is stored of a schedule: what its owner wrote, and what became of its times."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName, WorkloadId
from gpucommons.scheduler.errors import PolicyRefused
from gpucommons.scheduler.schedules.triggers import Posted, Sensed, Trigger

#: A lowercase UUIDv7.
ScheduleId = NewType("ScheduleId", str)


class Concurrency(StrEnum):
    """What happens when a run is due and an earlier one still goes on; as in Kubernetes' CronJob."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


@dataclass(frozen=True, kw_only=True, slots=True)
class Promote:
    """By what a new model is compared with the promoted one."""

    metric: str
    maximize: bool
    #: Nothing is promoted but by hand.
    by_hand: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Promoted:
    """The model that holds: the results of this job."""

    job: WorkloadId
    job_name: str
    value: float
    at_ms: Millis
    #: In words.
    why: str
    #: Who chose it; None = the rule did.
    by: UserName | None = None
    #: Which metric the value is of; "" = that of today, as an earlier release wrote it.
    metric: str = ""


class Verdict(StrEnum):
    """What became of a run's model."""

    PROMOTED = "promoted"
    KEPT = "kept"
    #: Somebody is to decide.
    WAITS = "waits"
    #: There is nothing to compare.
    NONE = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """What its owner wrote."""

    schedule_id: ScheduleId
    #: Unique among its owner's.
    name: str
    owner: UserName
    team: TeamName
    #: Five fields, as cron has them; "" = triggers alone.
    cron: str
    #: A name of the IANA time zone database.
    time_zone: str
    concurrency: Concurrency
    #: A run that could not start within so long after its time is missed; None = never too late.
    starting_deadline_s: int | None = None
    suspended: bool = False
    #: Suspended by a lead or an admin: its owner cannot lift that.
    held: bool = False
    #: When a run was asked for by hand last; never a whole minute, which times of cron are.
    asked_ms: Millis = Millis(0)
    #: Times up to here are not its own: it was made, changed or resumed then.
    since_ms: Millis
    #: When it was resumed last: what triggers heard up to here starts nothing.
    resumed_ms: Millis = Millis(0)
    #: The job as a request of the API, with its files and environment as they were when this was made.
    request: str
    #: Content hash of the files in ``request``, which are kept for as long as this is.
    snapshot: str | None = None
    #: Written from the account that runs the scheduler, which is in no team and may submit for each.
    by_operator: bool = False
    #: The notebook server that it was written from, whose image its runs may have; None = elsewhere.
    server: str | None = None
    #: What starts a run beside the calendar.
    triggers: tuple[Trigger, ...] = ()
    #: What was posted of the metrics that triggers watch.
    posted: tuple[Posted, ...] = ()
    #: None = models are not compared.
    promote: Promote | None = None
    #: What somebody promoted last.
    chosen: Promoted | None = None


class Outcome(StrEnum):
    """What became of a time at which a run was due."""

    STARTED = "started"
    #: Nobody looked in time, or the start was not possible in time.
    MISSED = "missed"
    #: An earlier run still went on.
    SKIPPED = "skipped"
    #: The job was refused.
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One time, or several in a row that were missed together."""

    outcome: Outcome
    due_ms: Millis
    #: When that was decided.
    at_ms: Millis
    #: Why, for people; empty for a start.
    text: str = ""
    job: WorkloadId | None = None
    #: The job's readable name.
    job_name: str = ""
    count: int = 1
    #: The last of several.
    until_ms: Millis | None = None
    #: Its owner asked for it: no time of the schedule.
    by_hand: bool = False
    #: The trigger whose time it was, in words; "" = the calendar's, or by hand.
    trigger: str = ""
    #: What happened, of the last of several.
    cause: str = ""
    #: Of the data that it was started with.
    version: str = ""
    #: What became of its model, and why; None = nothing yet.
    verdict: Verdict | None = None
    why: str = ""
    #: What it told of the metric last.
    value: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What became of its times so far."""

    #: All times up to here are in ``runs``, or were and are forgotten.
    seen_ms: Millis = Millis(0)
    #: The run that was asked for by hand up to here is in ``runs``, or was.
    asked_ms: Millis = Millis(0)
    #: Oldest first; times in a row that came to the same are one.
    runs: tuple[Run, ...] = ()
    #: Jobs that were started and not over when that was looked at last.
    live: tuple[WorkloadId, ...] = ()
    #: Why the run that is due now could not be started yet.
    hindrance: str = ""
    #: When that was first in its way.
    hindered_ms: Millis | None = None
    #: The time whose job was about to be submitted: whether it was is looked up before anything else.
    starting_ms: Millis | None = None
    #: The trigger whose time that is, by its key; "" = the calendar's, or by hand.
    starting_of: str = ""
    #: Of each trigger, what is known of it.
    sensed: tuple[Sensed, ...] = ()
    #: What the rule promoted last.
    promoted: Promoted | None = None
    #: When runs were looked at last for what became of them.
    judged_ms: Millis = Millis(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduled:
    """A schedule and where it stands."""

    schedule: Schedule
    standing: Standing = Standing()


def too_many(owner: UserName, count: int) -> PolicyRefused:
    """The refusal of one more."""
    message = f"{owner} has {count} schedules, as many as one may: remove one first."
    return PolicyRefused(message)
