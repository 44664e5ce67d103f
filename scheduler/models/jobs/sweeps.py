"""Sweeps and maps: as people write them, and as everyone sees them."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag, model_validator

from gpucommons.scheduler.models.fields import Id, Model, Name, View
from gpucommons.scheduler.models.jobs.jobs import MOST_AFTER, JobRequest
from gpucommons.scheduler.sweeps.sweep import FACTOR

#: As a script calls an option: ``lr``, ``batch-size``.
ParameterName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
Metric = Annotated[str, StringConstraints(pattern=r"^[ -~]{1,120}$")]
_Word = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{0,500}$")]


#: Sums and differences of two such numbers are numbers, too.
_LARGEST = 1e300
#: Of one range: beyond it neighbours are the same number.
_MOST_STEPS = 2**53
#: A step that is so small beside its range's ends is lost in them.
_RESOLUTION = 1e-13
#: Of one parameter, and of a condition.
_MOST_VALUES, _MOST_CONDITIONS = 1000, 100
#: Of all jobs of a map.
_MOST_GIVEN = 20_000


def _finite(value: float) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        message = "must be a number, not NaN or without end."
        raise ValueError(message)
    if isinstance(value, int) and not -(2**53) <= value <= 2**53:
        message = "is larger than whole numbers may be here, which is 2 to the power of 53."
        raise ValueError(message)
    if abs(value) > _LARGEST:
        message = f"is larger than numbers may be here, which is {_LARGEST:g}."
        raise ValueError(message)
    return value


Number = Annotated[int | float, AfterValidator(_finite)]
#: Numbers first: of one that is none, that is what is said.
Value = Number | bool | _Word
_Values = Annotated[list[Value], Field(max_length=_MOST_VALUES)]
_Conditions = Annotated[list[Value], Field(max_length=_MOST_CONDITIONS)]


class RangeRequest(Model):
    """A range, or choices that hold only under a condition."""

    low: Number | None = None
    high: Number | None = None
    #: Steps of a range; whole numbers without one are tried one by one.
    step: Annotated[Number, Field(gt=0)] | None = None
    log: bool = False
    #: ``int``: whole numbers; ``float``: any. Left out: whole ones where low, high and step are written so.
    type: Literal["int", "float"] | None = None
    choices: _Values | None = Field(default=None, min_length=1)
    #: Only where these others, which come before it, have one of these values.
    when: dict[ParameterName, Value | _Conditions] = Field(default_factory=dict, max_length=8)

    @model_validator(mode="after")
    def _one_of_both(self) -> RangeRequest:
        low, high = self.low, self.high
        if self.choices is not None:
            if any(one is not None for one in (low, high, self.step, self.type)) or self.log:
                message = "Give either choices, or low and high."
                raise ValueError(message)
            return self
        if low is None or high is None:
            message = "A range needs low and high; several values are a list."
            raise ValueError(message)
        if low >= high:
            message = f"low {low} must be less than high {high}."
            raise ValueError(message)
        if self.log and (low <= 0 or self.step is not None):
            message = "A range with log needs a low above 0, and has no step."
            raise ValueError(message)
        ends = (low, high) if self.step is None else (low, high, self.step)
        if self.type == "int" and any(not isinstance(one, int) for one in ends):
            message = "type int needs whole numbers as low, high and step: write 1, not 1.0."
            raise ValueError(message)
        is_whole = all(isinstance(one, int) for one in ends)
        least = 0 if is_whole else max(abs(low), abs(high)) * _RESOLUTION
        if self.step is not None and self.step < least:
            message = (
                f"step {self.step} is too small: beside low {low} and high {high} numbers do not tell"
                " such steps apart. Make it larger, or leave it out."
            )
            raise ValueError(message)
        if self.step is not None and (high - low) / self.step >= _MOST_STEPS:
            message = (
                f"step {self.step} is too small: from low {low} to high {high} these are more steps than"
                " numbers can tell apart. Make it larger, or leave it out."
            )
            raise ValueError(message)
        return self


#: Which of both was meant is no field of the request: brackets keep it out of what is said of one.
_CHOICES, _RANGE = "choices[]", "range[]"


def _dimension(value: object) -> str:
    return _CHOICES if isinstance(value, list | tuple) else _RANGE


#: What is wrong with it is said of what was meant, not of the other.
_Dimension = Annotated[
    Annotated[_Values, Tag(_CHOICES)] | Annotated[RangeRequest, Tag(_RANGE)],
    Discriminator(_dimension),
]


class ObjectiveRequest(Model):
    """What is compared: a metric that jobs report, print or write for TensorBoard."""

    metric: Metric
    direction: Literal["maximize", "minimize"] = "minimize"


class BudgetRequest(Model):
    """When it is over."""

    trials: int = Field(strict=True, ge=1, le=10_000)
    gpu_hours: float | None = Field(default=None, gt=0, le=10_000_000, allow_inf_nan=False)
    until_ms: int | None = Field(default=None, strict=True, ge=1, le=4_102_444_800_000)


class MoreBudgetRequest(Model):
    """What is added to it; ``until_ms`` takes the place of the one before."""

    trials: int = Field(default=0, strict=True, ge=0, le=10_000)
    gpu_hours: float = Field(default=0, ge=0, le=10_000_000, allow_inf_nan=False)
    until_ms: int | None = Field(default=None, strict=True, ge=1, le=4_102_444_800_000)

    @model_validator(mode="after")
    def _something(self) -> MoreBudgetRequest:
        if not (self.trials or self.gpu_hours or self.until_ms):
            message = "Say how much is added: trials, gpu_hours or until_ms."
            raise ValueError(message)
        return self


class LeaveOutRequest(Model):
    """Jobs of a list that are not to run, by their numbers: those that have begun are cancelled."""

    numbers: list[Annotated[int, Field(strict=True, ge=0)]] = Field(min_length=1, max_length=1000)


class EarlyStoppingRequest(Model):
    """At each rung the best part of the trials goes on; the others pause and give their GPU up."""

    #: The first rung, in what the script counts.
    first_step: int = Field(strict=True, ge=1, le=10**9)
    #: Where a trial is done.
    last_step: int = Field(strict=True, ge=2, le=10**9)
    #: One in so many goes on, and the next rung is so many times as far.
    factor: int = Field(default=FACTOR, strict=True, ge=2, le=16)

    @model_validator(mode="after")
    def _in_order(self) -> EarlyStoppingRequest:
        if self.first_step >= self.last_step:
            message = (
                f"first_step {self.first_step} must come before last_step {self.last_step}: there would"
                " be no rung."
            )
            raise ValueError(message)
        return self


class SweepRequest(Model):
    """Many jobs of one kind: over a search space, or over a list of values (a map)."""

    #: What runs; each trial is this job with its values.
    job: JobRequest
    space: dict[ParameterName, _Dimension] = Field(default_factory=dict, max_length=64)
    #: In place of a space: the values of each job.
    given: list[dict[ParameterName, Value]] = Field(default_factory=list, max_length=1000)
    #: Of a list, for each of its jobs one that must have succeeded before (``after``), by its id.
    after_each: list[Id] = Field(default_factory=list, max_length=1000)
    objective: ObjectiveRequest | None = None
    budget: BudgetRequest | None = None
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    early_stopping: EarlyStoppingRequest | None = None
    #: Trials that run at once, as far as GPUs are idle. Of a map: where it is given, no more of its jobs
    #: are begun before others are over; else all come into line.
    max_parallel: int = Field(default=8, strict=True, ge=1, le=256)
    #: ``arguments``: ``--lr 0.1``, or in place of ``{lr}`` in the command; ``environment``: ``LR=0.1``.
    values_as: Literal["arguments", "environment"] = "arguments"
    #: True: also inside the team's guarantee; else on borrowed GPUs alone.
    in_guarantee: bool = False

    @model_validator(mode="after")
    def _a_space_or_a_list(self) -> SweepRequest:
        if self.after_each and len(self.after_each) != len(self.given):
            message = f"after_each names {len(self.after_each)} jobs and given has {len(self.given)}: one for each."
            raise ValueError(message)
        if self.after_each and len(self.job.after) >= MOST_AFTER:
            message = (
                f"after names {len(self.job.after)} jobs and after_each one more for each: a job waits for"
                f" {MOST_AFTER} at most. Name fewer in after."
            )
            raise ValueError(message)
        if self.given:
            if sum(map(len, self.given)) > _MOST_GIVEN:
                message = f"given has more than {_MOST_GIVEN:,} values in all: send it in parts."
                raise ValueError(message)
            if self.space or self.objective or self.budget or self.early_stopping:
                message = "given is a list of jobs that all run: leave space, objective, budget and early_stopping out."
                raise ValueError(message)
            return self
        if not self.space:
            message = (
                "The search space has nothing in it: name at least one parameter, as in"
                " space: {lr: {low: 0.0001, high: 0.1, log: true}}."
            )
            raise ValueError(message)
        if any(isinstance(one, list) and not one for one in self.space.values()):
            message = "A parameter without any value: list at least one."
            raise ValueError(message)
        if self.objective is None or self.budget is None:
            message = (
                "A sweep needs an objective (metric, direction) and a budget (trials at least)."
            )
            raise ValueError(message)
        return self


class RungView(View):
    """How many came to a rung, and how many went on."""

    step: int
    came: int
    went_on: int


class TrialView(View):
    """One job of a sweep."""

    number: int
    values: dict[str, bool | int | float | str]
    #: ``drawn``, ``waiting``, ``live``, ``held`` (at a rung), ``paused`` (by a person), ``done``,
    #: ``failed`` or ``ended``.
    state: str
    job_id: str | None = None
    job_name: str = ""
    best: float | None = None
    best_step: int = 0
    best_ms: int = 0
    step: int = 0
    #: Rungs that it has come to.
    rungs: int = 0
    milli_gpu_s: int = 0
    text: str = ""


class ImprovementView(View):
    """A value that was the best of its sweep when it was told."""

    at_ms: int
    trial: int
    value: float


class SweepView(View):
    """A sweep and where it stands. ``owner`` is empty where policy hides it."""

    id: str
    #: ``sweep`` or ``map``.
    kind: str
    name: Name
    owner: str
    team: str
    made_ms: int
    ended_ms: int | None = None
    #: Why it is over, or why its next job could not be submitted yet.
    text: str = ""
    metric: str = ""
    direction: str = ""
    sampler: str = ""
    #: What each parameter is drawn from, in words: ``dropout: whole numbers 0 to 1``. Not in lists.
    drawn: list[str] = []
    max_parallel: int = 0
    trials_of: int
    begun: int
    running: int
    waiting: int
    paused: int
    done: int
    failed: int
    milli_gpu_s: int
    budget_milli_gpu_s: int | None = None
    until_ms: int | None = None
    best: TrialView | None = None
    #: The best so far over time, oldest first; not in lists.
    improvements: list[ImprovementView] = []
    #: There were more than are kept: those that change the line least are left out.
    improvements_thinned: bool = False
    #: An earlier release began it: of what was told until then only each trial's best is known.
    improvements_begun_late: bool = False
    rungs: list[RungView] = []
    #: Best first; not in lists.
    trials: list[TrialView] = []
    #: What each of them runs; in lists only of those that go on, without commands, variables and all
    #: else that may be long. None also where another release of the scheduler has written it.
    request: JobRequest | None = None
    #: No real GPUs stand behind those that its jobs may get.
    simulated: bool = False
    #: Of a list of jobs that goes on, numbers of those that have not begun.
    unbegun: list[int] = []
    #: Of a list of jobs, numbers of those that were ended before they began; not in lists of sweeps.
    never_begun: list[int] = []
    #: Whether the viewer may stop it and add to its budget.
    steerable: bool = False


class GpusInUse(View):
    """What a sweep's jobs held from then on, on average until the next one of these."""

    at_ms: int
    milli_gpu: int


class SweepFigures(View):
    """What is worked out of a sweep when somebody looks: GPUs over time, and which parameters matter."""

    gpus: list[GpusInUse] = []
    #: By parameter, shares of 1; empty where they are not known.
    importance: dict[str, float] = {}
    #: Why they are not known.
    importance_text: str = ""


class SweepList(View):
    """Sweeps and maps, newest first."""

    sweeps: list[SweepView]
    #: For the next page; None after the last one.
    cursor: str | None = None
