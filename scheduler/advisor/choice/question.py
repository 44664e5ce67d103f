"""What is asked, and what is answered: plans with ranges, grades and one sentence each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from gpucommons.scheduler.advisor.choice.interruption_cost import Terms
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.history import Asked, Grade, Run
from gpucommons.scheduler.advisor.kinds import Pool
from gpucommons.scheduler.advisor.layout import Layout
from gpucommons.scheduler.advisor.network import Network
from gpucommons.scheduler.advisor.recipe import Recipe
from gpucommons.scheduler.advisor.scaling import Believed, Seen
from gpucommons.scheduler.advisor.search import Ways


class Objective(StrEnum):
    """What the best plan is best at."""

    FASTEST = "fastest"
    CHEAPEST = "cheapest"
    CHEAPEST_BY_DEADLINE = "cheapest_by_deadline"


class Verdict(StrEnum):
    """Whether a plan's memory is there."""

    FITS = "fits"
    #: It is there by the formula, but less is left than formulas are wrong by.
    TIGHT = "tight"
    NO = "no"
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Range:
    """In eight of ten cases between the first and the last."""

    low: float
    middle: float
    high: float

    def times(self, factor: float) -> Range:
        """Each of them as often."""
        return Range(self.low * factor, self.middle * factor, self.high * factor)

    def plus(self, other: Range) -> Range:
        """One after the other; both ends at once, so rather too wide."""
        return Range(self.low + other.low, self.middle + other.middle, self.high + other.high)


def no_wait(_: int) -> Range | None:
    """So many GPUs are free now."""
    return Range(0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is trained and how long, where, and what counts."""

    network: Network
    recipe: Recipe
    pool: Pool
    steps: int
    objective: Objective = Objective.FASTEST
    #: From now, for the cheapest by a deadline.
    deadline_s: float = inf
    terms: Terms = field(default_factory=Terms)
    ways: Ways = field(default_factory=Ways)
    #: Most GPUs that this job may have; 0: all of the pool.
    most_gpus: int = 0
    #: Numbers of GPUs that are worth showing; none: all.
    sizes: tuple[int, ...] = ()
    known: Constants = field(default_factory=Constants)
    #: Seconds until so many GPUs are likely free, from the forecast; None where that is not known.
    wait_s: Callable[[int], Range | None] = no_wait
    #: Kept runs of anything on these GPUs, and where this job belongs among them.
    runs: Sequence[Run] = ()
    asked: Asked | None = None
    #: Points measured of this very training, where nothing else is known of it.
    seen: Sequence[Seen] = ()
    #: What other trainings showed of how such ones scale on these GPUs.
    believed: Believed | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One way to run the job."""

    layout: Layout
    verdict: Verdict
    memory_bytes: float
    #: The largest four terms, largest first.
    largest: tuple[tuple[str, float], ...]
    step_s: Range
    samples_per_s: Range
    #: None where it is not known.
    wait_s: Range | None
    run_s: Range
    gpu_hours: float
    #: None where there is no price.
    cost: float | None
    bottleneck: str
    grade: Grade
    #: Seconds of a step before what runs taught.
    formula_s: float
    #: Name of the pool.
    pool: str = ""
    why: str = ""

    @property
    def finish_s(self) -> Range | None:
        """Seconds from now until it is done; None where the wait is not known."""
        return None if self.wait_s is None else self.wait_s.plus(self.run_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """The answer: plans, best first, and what most people would run; or why there is none."""

    plans: tuple[Plan, ...] = ()
    #: The other sizes that fit, in the same order.
    others: tuple[Plan, ...] = ()
    plain: Plan | None = None
    declined: str = ""
    considered: int = 0
    pruned: Mapping[str, int] = field(default_factory=dict)
