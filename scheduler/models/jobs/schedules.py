"""Schedules: as people write them, and as everyone sees them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from gpucommons.scheduler.models.fields import Model, Ref, View
from gpucommons.scheduler.models.jobs.jobs import JobRequest

#: As in Kubernetes' CronJob.
ConcurrencyPolicy = Literal["Allow", "Forbid", "Replace"]
Cron = Annotated[str, StringConstraints(pattern=r"^[ -~]{1,120}$")]
TimeZone = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+_/-]{1,64}$")]


class ScheduleRequest(Model):
    """When a job starts again and again; fields are named as in Kubernetes' CronJob."""

    #: Minute, hour, day of month, month, day of week; or ``@daily`` and the like.
    schedule: Cron
    time_zone: TimeZone = "UTC"
    concurrency_policy: ConcurrencyPolicy = "Forbid"
    #: A run that could not start within so long after its time is missed; left out: never too late.
    starting_deadline_s: int | None = Field(default=None, strict=True, ge=1, le=31_536_000)
    suspend: bool = False
    #: What runs: a job as it would be submitted …
    job: JobRequest | None = None
    #: … or one that was: the same request with the same files.
    repeat: Ref | None = None
    #: ``retrain``: on borrowed GPUs only, unless the team's policy gives its guarantee to retraining.
    kind: Literal["retrain", "training"] = "retrain"
    #: Left out: as the job says, else ``low``.
    priority: Literal["low", "normal", "high"] | None = None

    @model_validator(mode="after")
    def _one_job(self) -> ScheduleRequest:
        if (self.job is None) == (self.repeat is None):
            message = "Give either job, what is to run, or repeat, a job that ran."
            raise ValueError(message)
        return self


class ScheduleRunView(View):
    """One time of a schedule, or several that were missed together."""

    #: ``started``, ``missed``, ``skipped`` (an earlier run went on) or ``refused``.
    outcome: str
    due_ms: int
    #: The last of several, and how many; 1000 = at least so many.
    until_ms: int | None = None
    count: int = 1
    #: Why it did not start; empty for a start.
    text: str = ""
    job_id: str | None = None
    job_name: str = ""
    #: Its owner asked for it.
    by_hand: bool = False


class ScheduleView(View):
    """A schedule, when it comes next, and what became of its times."""

    name: str
    #: Empty where the viewer may not know.
    owner: str
    team: str
    schedule: str
    time_zone: str
    concurrency_policy: str
    starting_deadline_s: int | None = None
    suspend: bool = False
    #: Suspended by a lead or an admin: only they lift that.
    held: bool = False
    #: A run was asked for, and starts as soon as the scheduler looks.
    asked: bool = False
    #: What runs, in a few words.
    what: str
    kind: str
    #: The next times; none while it is suspended.
    next_ms: list[int] = []
    #: Why the run that is due now could not be started yet.
    hindrance: str = ""
    #: Newest first.
    runs: list[ScheduleRunView] = []
    #: Whether it is the viewer's own, who alone writes it anew and starts a run of it.
    mine: bool = False
    #: Whether the viewer may suspend, resume or remove it.
    steerable: bool = False


class ScheduleList(View):
    """Schedules by owner and name; ``cursor`` asks for the next page, None = there is none."""

    schedules: list[ScheduleView]
    cursor: str | None = None


class ScheduleTimes(View):
    """The next five times of a cron expression."""

    next_ms: list[int]
