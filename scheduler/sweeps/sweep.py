"""What is stored of a sweep: what its owner wrote, each of its trials, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpucommons.scheduler.core.model.types import IntentId, Millis, TeamName, UserName, WorkloadId
from gpucommons.scheduler.errors import PolicyRefused
from gpucommons.scheduler.parents import TASK_INDEX, ParentId, ParentKind

#: What a parameter may be.
Value = str | int | float | bool
Values = Mapping[str, Value]
#: Values whatever their order: two trials that have the same one would say the same.
Setting = frozenset[tuple[str, Value]]


def setting(values: Values) -> Setting:
    """What tells these values from those of another trial."""
    return frozenset(values.items())


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One dimension of a search space: choices, or a range."""

    name: str
    choices: tuple[Value, ...] = ()
    low: float = 0.0
    high: float = 0.0
    #: Ranges of whole numbers.
    integer: bool = False
    log: bool = False
    step: float | None = None
    #: Only where these others, which come before it, have one of these values.
    when: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    def applies(self, values: Values) -> bool:
        """Whether it is asked for beside these values."""
        return all(values.get(name) in wanted for name, wanted in self.when.items())


#: Where nothing else is said, one trial in so many goes on at a rung.
FACTOR = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Halving:
    """Asynchronous successive halving: at each rung the best part goes on, the others pause."""

    #: Where the first rung is, in what the script counts.
    first_step: int
    #: Where a trial is done: no rung lies there or behind.
    last_step: int
    #: One in so many goes on; and the next rung is so many times as far.
    factor: int = FACTOR

    @property
    def rungs(self) -> tuple[int, ...]:
        """Steps at which trials are compared."""
        found, step = [], self.first_step
        while step < self.last_step:
            found.append(step)
            step *= self.factor
        return tuple(found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """When a sweep is over."""

    trials: int
    milli_gpu_s: int | None = None
    until_ms: Millis | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """What its owner wrote."""

    sweep_id: ParentId
    kind: ParentKind
    #: Readable and unique in its team.
    name: str
    owner: UserName
    team: TeamName
    made_ms: Millis
    budget: Budget
    #: The job as a request of the API, with its files and environment as they were.
    request: str
    #: Content hash of the files in ``request``, which are kept for as long as it goes on.
    snapshot: str | None = None
    space: tuple[Parameter, ...] = ()
    #: In place of a space: the values of each job.
    given: tuple[Values, ...] = ()
    #: The metric that is compared; "" = nothing is.
    metric: str = ""
    maximize: bool = False
    sampler: str = "tpe"
    halving: Halving | None = None
    #: Trials that run at once.
    max_parallel: int = 8
    #: Jobs of a list that are begun and not over; 0 = as many as there are.
    at_once: int = 0
    #: Of a list, numbers of jobs that are not to run: one that has begun is cancelled.
    left_out: tuple[int, ...] = ()
    #: Of a list, for each of its jobs one that must have succeeded before; empty = they wait for none.
    after_each: tuple[WorkloadId, ...] = ()
    #: ``arguments`` (``--lr 0.1``) or ``environment`` (``LR=0.1``).
    values_as: str = "arguments"
    stopped: bool = False
    #: The newest orders to add to its budget: each counts once, however often it is repeated.
    added: tuple[IntentId, ...] = ()
    by_operator: bool = False
    #: The server from which it was submitted, whose image its jobs may have.
    server: str | None = None

    @property
    def count(self) -> int:
        """How many jobs it may have."""
        return len(self.given) if self.given else self.budget.trials


class TrialState(StrEnum):
    """Where a trial stands, as its sweep sees it."""

    #: Its values are drawn; its job is submitted next, or is already: that is looked up.
    DRAWN = "drawn"
    LIVE = "live"
    #: It ended well.
    DONE = "done"
    #: It ended without a value, or with an error.
    FAILED = "failed"
    #: Ended by its sweep: the budget is used up, or the sweep is over and it stayed behind.
    ENDED = "ended"


#: As long as a readable name has room for.
_LARGEST_INDEX = 999_999_999
#: Nothing more comes of these.
OVER = frozenset({TrialState.DONE, TrialState.FAILED, TrialState.ENDED})


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One job of a sweep."""

    #: From 1.
    number: int
    values: Values
    state: TrialState = TrialState.DRAWN
    job: WorkloadId | None = None
    job_name: str = ""
    #: What it had at the rungs that it has come to, in order; not finite = it has diverged.
    at_rungs: tuple[float, ...] = ()
    #: How many rungs it may pass.
    promoted: int = 0
    #: The best value of the metric so far, at which step, and when.
    best: float | None = None
    best_step: int = 0
    best_ms: Millis = Millis(0)
    #: How far it is.
    step: int = 0
    #: Held so far.
    milli_gpu_s: int = 0
    #: Why it ended, for people.
    text: str = ""
    ended_ms: Millis | None = None

    @property
    def shown_number(self) -> int:
        """By which people know it: of an array's task its index."""
        return shown_number(self.number, self.values)


def shown_number(number: int, values: Values) -> int:
    """By which people know a trial with these values: of an array's task its index."""
    index = values.get(TASK_INDEX)
    if isinstance(index, bool) or not isinstance(index, int):
        return number
    return index if 0 <= index <= _LARGEST_INDEX else number


@dataclass(frozen=True, kw_only=True, slots=True)
class Improvement:
    """A value that was the best of its sweep when it was told."""

    at_ms: Millis
    #: By its number.
    trial: int
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Improvements:
    """The best so far over time, oldest first."""

    points: tuple[Improvement, ...] = ()
    #: There were more than are kept.
    thinned: bool = False
    #: An earlier release began it: of what was told until then only each trial's best is known.
    begun_late: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Where a sweep stands beside its trials."""

    #: When it was over; None = it goes on.
    ended_ms: Millis | None = None
    #: Why it is over, for people.
    ended_text: str = ""
    #: Why its next job could not be submitted yet.
    hindrance: str = ""
    #: Since when JupyterHub does not know its owner; None = it does, as far as was asked.
    owner_unknown_ms: Millis | None = None
    improvements: Improvements = Improvements()


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A sweep and where it stands."""

    sweep: Sweep
    standing: Standing = Standing()


def too_many(owner: UserName, count: int) -> PolicyRefused:
    """The refusal of one more that goes on."""
    message = f"{owner} has {count} sweeps and maps that go on, as many as one may: stop one first."
    return PolicyRefused(message)
