"""What was said of a way to run a training, kept with the job: beside what became of it, it teaches.

Nothing is decided by it: who schedules does not look at it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Said:
    """A range: in eight of ten cases between the first and the last, as far as the grade goes."""

    low: float
    middle: float
    high: float

    def holds(self, measured: float) -> bool:
        """Whether what came lies in it."""
        return self.low <= measured <= self.high


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenPlan:
    """One plan of one answer."""

    plan_id: str
    made_ms: int
    pool: str
    gpu_kind: str
    #: No hardware stands behind them, so its speed says nothing of the card that it names.
    simulated: bool
    gpus: int
    layout: str
    grade: str
    verdict: str
    #: Samples of an optimizer step, and such steps in all.
    batch: int
    steps: int
    #: Of the fullest GPU; 0 where it is not known.
    memory_mib: int
    samples_per_s: Said
    #: None where it was not known.
    wait_s: Said | None
    run_s: Said
    gpu_hours: Said
    #: None where the pool had no price.
    cost: Said | None
    currency: str
    #: Seconds of a step by the formula, before the correction by earlier runs.
    formula_s: float
    #: Which training it is, and which trainings are like it.
    signature: str
    family: str
    #: Numbers from which the formula follows again, or the points that were known of a training
    #: without one, as the advisor writes them; "" where an older release said it.
    training: str = ""
