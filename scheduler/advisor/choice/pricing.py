"""From one layout's seconds and bytes to a plan: ranges, verdict, GPU-hours, money."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp

from gpucommons.scheduler.advisor.choice.interruption_cost import useful_share
from gpucommons.scheduler.advisor.choice.question import Plan, Question, Range, Verdict
from gpucommons.scheduler.advisor.history import Asked, Correction, Grade, correction
from gpucommons.scheduler.advisor.layout import Layout

#: Share of memory kept for what formulas do not see, by grade.
MARGIN = {Grade.HISTORY: 0.05, Grade.PROBE: 0.10, Grade.FORMULA: 0.20}
#: Standard deviations between the middle and the 10th or 90th of a hundred.
_TENTH = 1.2816
_HOUR_S = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Computed:
    """What formulas say of one layout."""

    layout: Layout
    seconds: float
    bottleneck: str
    #: Bytes of the fullest GPU, and the largest terms; none where memory is not known.
    memory_bytes: float = 0.0
    largest: tuple[tuple[str, float], ...] = ()


def correction_of(question: Question, gpus: int) -> Correction:
    """What kept runs say of a size."""
    kind = question.pool.kind.name
    asked = question.asked or Asked(job="", project="", family="", kind=kind, gpus=gpus)
    return correction(replace(asked, gpus=gpus), question.runs)


def plan_of(question: Question, computed: Computed, learned: Correction) -> Plan:
    """A plan, without its sentence."""
    middle = computed.seconds * learned.factor
    wide = exp(_TENTH * learned.spread)
    step_s = Range(middle / wide, middle, middle * wide)
    run_s = step_s.times(question.steps / max(useful_share(question.terms), 1e-9))
    gpu_hours = run_s.middle / _HOUR_S * computed.layout.gpus * question.pool.fraction
    batch, price = question.recipe.batch, question.terms.price
    return Plan(
        layout=computed.layout,
        verdict=_verdict(question, computed, learned.grade),
        memory_bytes=computed.memory_bytes,
        largest=computed.largest,
        step_s=step_s,
        samples_per_s=Range(batch / step_s.high, batch / step_s.middle, batch / step_s.low),
        wait_s=question.wait_s(computed.layout.gpus),
        run_s=run_s,
        gpu_hours=gpu_hours,
        cost=None if price is None else price * gpu_hours,
        bottleneck=computed.bottleneck,
        grade=learned.grade,
        formula_s=computed.seconds,
        pool=question.pool.name,
    )


def verdict(needed: float, there: float, margin: float) -> Verdict:
    """Whether so many bytes are there, with a margin for what formulas do not see."""
    if needed > there:
        return Verdict.NO
    return Verdict.FITS if needed <= there * (1 - margin) else Verdict.TIGHT


def _verdict(question: Question, computed: Computed, grade: Grade) -> Verdict:
    if not computed.largest:
        return Verdict.NOT_KNOWN
    return verdict(computed.memory_bytes, question.pool.memory_bytes, MARGIN[grade])
