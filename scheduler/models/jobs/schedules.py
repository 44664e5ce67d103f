"""Schedules: as people write them, and as everyone sees them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from gpucommons.scheduler.models.fields import Argument, Model, Ref, View
from gpucommons.scheduler.models.jobs.jobs import JobRequest

#: As in Kubernetes' CronJob.
ConcurrencyPolicy = Literal["Allow", "Forbid", "Replace"]
Cron = Annotated[str, StringConstraints(pattern=r"^[ -~]{1,120}$")]
TimeZone = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+_/-]{1,64}$")]
Metric = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./@ -]{1,100}$")]


class DataTrigger(Model):
    """Data that are looked at again and again, each time by a small job of the owner without a GPU."""

    #: A file or folder: absolute, or below the owner's home (``~/data``). Its content counts.
    path: Annotated[str, StringConstraints(pattern=r"^(/|~/)[^\x00-\x1f]{0,1000}$")] | None = None
    #: An address that answers HEAD, as an object of S3 does: its version, else its ETag, counts.
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]{1,1000}$")] | None = None
    #: A command in the job's folder and environment: the last line that it prints counts.
    command: list[Argument] = Field(default_factory=list, max_length=64)
    #: Seconds between two looks.
    every_s: int = Field(default=300, strict=True, ge=60, le=86_400)

    @model_validator(mode="after")
    def _one_source(self) -> DataTrigger:
        if sum(map(bool, (self.path, self.url, self.command))) != 1:
            message = "Give one of path, url and command: what is looked at."
            raise ValueError(message)
        return self


class AfterTrigger(Model):
    """The end of another job of the same owner."""

    #: Its name (all jobs of that name count: ``clean-1``, ``clean-2``, …), or its id.
    job: Ref
    on: Literal["ok", "any", "failed"] = "ok"


class MetricTrigger(Model):
    """A value that is posted to the schedule falls below another."""

    name: Metric
    below: float = Field(allow_inf_nan=False)


class TriggerRequest(Model):
    """What starts a run beside the calendar: one of these."""

    data: DataTrigger | None = None
    after: AfterTrigger | None = None
    metric: MetricTrigger | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> TriggerRequest:
        if sum(one is not None for one in (self.data, self.after, self.metric)) != 1:
            message = "A trigger is one of data, after and metric."
            raise ValueError(message)
        return self


class PromoteRequest(Model):
    """By what a new model is compared with the promoted one."""

    #: A metric that its runs report, print or write for TensorBoard: what is told last counts.
    metric: Metric
    direction: Literal["maximize", "minimize"] = "maximize"
    #: ``better``: a better one is promoted at once; ``by hand``: nothing is until somebody does.
    rule: Literal["better", "by hand"] = "better"


class PromotionRequest(Model):
    """Which run's model is to be the promoted one."""

    job: Ref


class MetricPost(Model):
    """A value of a metric that triggers of a schedule watch."""

    name: Metric
    value: float = Field(allow_inf_nan=False)


class ScheduleRequest(Model):
    """When a job starts again and again; fields are named as in Kubernetes' CronJob."""

    #: Minute, hour, day of month, month, day of week; or ``@daily`` and the like. Left out: triggers alone.
    schedule: Cron | None = None
    #: What starts a run besides.
    triggers: list[TriggerRequest] = Field(default_factory=list, max_length=8)
    #: Left out: models are not compared.
    promote: PromoteRequest | None = None
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

    @model_validator(mode="after")
    def _starts_at_all(self) -> ScheduleRequest:
        if self.schedule is None and not self.triggers:
            message = "Say when: give schedule, or at least one of triggers."
            raise ValueError(message)
        return self


#: In the place of the state of a run's job that is no longer kept.
FORGOTTEN = "forgotten"


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
    #: Of its job, as its own page shows it, or ``forgotten``: it ended so long ago that it is no longer kept.
    #: None = none was started, or a scheduler of an earlier release answers, which does not say.
    job_state: str | None = None
    #: Its owner asked for it.
    by_hand: bool = False
    #: The trigger whose time it was, in words; empty: the calendar's, or by hand.
    trigger: str = ""
    #: What happened, of the last of several.
    cause: str = ""
    #: Of the data that it started with, as they were looked at last.
    version: str = ""
    #: Of its model: ``promoted``, ``kept`` (the old one was), ``waits`` (for somebody) or ``none``.
    verdict: str = ""
    #: Why, and what it told of the metric last.
    why: str = ""
    value: float | None = None


class PromotedView(View):
    """The model that holds: the results of this job, which stay for as long."""

    job_id: str
    job_name: str
    metric: str
    value: float
    since_ms: int
    why: str
    #: Who chose it; None: the rule did.
    by: str | None = None


class TriggerView(View):
    """What starts a run beside the calendar, and what is known of it."""

    #: ``path``, ``url``, ``command``, ``after`` or ``metric``.
    kind: str
    #: What happens, in a few words.
    words: str
    #: What is looked at or waited for: a path, an address, a command, a job or a metric.
    what: str = ""
    #: Of a job: ``ok``, ``any`` or ``failed``. Of a metric: below what it has to fall.
    on: str | None = None
    below: float | None = None
    #: Of data: seconds between two looks, the version of the last, and when that was; None = none yet.
    every_s: int | None = None
    version: str = ""
    checked_ms: int | None = None
    changed_ms: int | None = None
    #: Why the last look told nothing.
    problem: str = ""
    #: Of a metric: what was posted last, and when.
    value: float | None = None
    posted_ms: int | None = None


class ScheduleView(View):
    """A schedule, when it comes next, and what became of its times."""

    name: str
    #: Empty where the viewer may not know.
    owner: str
    team: str
    #: Empty: triggers alone start it.
    schedule: str
    triggers: list[TriggerView] = []
    #: What models are compared by; empty: they are not. And how: ``better`` or ``by hand``.
    compared_by: str = ""
    direction: str = ""
    rule: str = ""
    promoted: PromotedView | None = None
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
    #: No real GPUs stand behind those that its runs may get.
    simulated: bool = False
    #: The same, exactly as stored; for its owner, and not in lists.
    job: JobRequest | None = None
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
