"""Plans in a few lines, for terminals and notebooks: the same words as the card."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpucommons.scheduler.models.plans.answered import AdviceView, PlanView, RangeView

_MIB_PER_GIB = 1024
_HOUR_S, _MINUTE_S, _TWO_DAYS_H = 3600, 60, 48
_THOUSAND = 1000
GRADES = {
    "A": "runs like it",
    "B": "measured parts or few runs",
    "C": "formulas alone: nothing like it was measured here",
}
_LIKE = (
    "Then plan it like that job, or like one of your last jobs now: gpucommons advise --like JOB,"
    ' or advise(like="JOB") in a cell.'
)
#: A moment to come and now, in UTC milliseconds, as people say it.
By = Callable[[int, int], str]


def advice_text(view: AdviceView, by: By) -> str:
    """All of it."""
    return "\n".join(_lines(view, by))


def _lines(view: AdviceView, by: By) -> Iterator[str]:
    for number, plan in enumerate(view.plans, 1):
        yield from plan_lines(plan, view, by, title=f"{number}. {gpus_of(plan)}")
        yield ""
    if view.declined:
        yield view.declined
    if view.try_like:
        yield _LIKE
    if view.plain is not None:
        yield plain_line(view.plain)
    for one in view.why_not:
        yield f"Why not {one.gpus}: {one.text}"
    if view.considered:
        pruned = ", ".join(f"{one.count:,} {_pruned(one.reason)}" for one in view.pruned)
        yield f"{view.considered:,} layouts were looked at{f' ({pruned})' if pruned else ''}."
    grades = sorted({plan.grade for plan in view.plans})
    if grades:
        yield (
            "Grades: " + "; ".join(f"{one}, {GRADES.get(one, 'not known')}" for one in grades) + "."
        )
    yield from view.notes


def plan_lines(plan: PlanView, view: AdviceView, by: By, *, title: str) -> Iterator[str]:
    """One plan in four lines."""
    hold = {"guaranteed": ", guaranteed", "over-quota": ", borrowed"}.get(plan.hold_class, "")
    yield f"{title}{hold}: {plan.layout} (grade {plan.grade})"
    cost = "" if plan.cost is None else f", {plan.cost:,.2f} {view.currency}"
    note = f" ({plan.wait_note})" if plan.wait_note else ""
    yield (
        f"   wait {plan.wait_text}{note}, done {done_of(plan, view.now_ms, by)},"
        f" {_amount(plan.gpu_hours)} GPU-hours{cost}"
    )
    yield f"   {memory_of(plan)}; {speed_of(plan)}"
    yield f"   {plan.why}"
    if plan.arguments:
        yield f"   Its script is started with: {' '.join(plan.arguments)} (launcher: {plan.launcher})"
    else:
        yield f"   In the script: {'; '.join(plan.script)}. Launcher: {plan.launcher}."
    if plan.id:
        yield f"   To have it compared afterwards: submit with --plan {plan.id}"


def plain_line(plan: PlanView) -> str:
    """The plain way beside the plans: what does not fit has no speed."""
    speed = "" if plan.verdict == "no" else f"; {speed_of(plan)}"
    return f"Plain, {gpus_of(plan)} ({plan.layout}): {memory_of(plan)}{speed}."


def gpus_of(plan: PlanView) -> str:
    """``4 GPUs of train``."""
    return f"{plan.gpus} GPU{'' if plan.gpus == 1 else 's'} of {plan.pool}"


def memory_of(plan: PlanView) -> str:
    """``fits: 31.0 of 38.8 GiB (weights 12.1, activations 9.0 …)``."""
    if not plan.largest:
        return "whether it fits is not known"
    parts = ", ".join(f"{one.name} {one.mib / _MIB_PER_GIB:.1f}" for one in plan.largest)
    verdict = {"no": "does not fit"}.get(plan.verdict, plan.verdict)
    needed, there = plan.memory_mib / _MIB_PER_GIB, plan.available_mib / _MIB_PER_GIB
    return f"{verdict}: {needed:.1f} of {there:.1f} GiB ({parts})"


def speed_of(plan: PlanView) -> str:
    """``9.1–10.4 k tokens/s``."""
    if plan.tokens_per_s is not None:
        return f"{_numbers(plan.tokens_per_s)} tokens/s"
    return f"{_numbers(plan.samples_per_s)} samples/s"


def done_of(plan: PlanView, now_ms: int, by: By) -> str:
    """From when to when; how long it runs where the wait is not known."""
    finish = plan.finish_s
    if finish is None:
        return f"{length_of(plan.run_s)} after its start"
    low, high = (by(now_ms + round(one * 1000), now_ms) for one in (finish.low, finish.high))
    return low if low == high else f"{low} to {high}"


def length_of(span: RangeView) -> str:
    """``50–70 min``."""
    if span.high < 2 * _HOUR_S:
        low, high = max(1, round(span.low / _MINUTE_S)), max(1, round(span.high / _MINUTE_S))
        return f"{high} min" if low == high else f"{low}–{high} min"
    low_h, high_h = span.low / _HOUR_S, span.high / _HOUR_S
    if high_h < _TWO_DAYS_H:
        return f"{low_h:.1f}–{high_h:.1f} h"
    return f"{low_h / 24:.1f}–{high_h / 24:.1f} days"


def _amount(number: float) -> str:
    return f"{number:,.1f}" if number >= 1 else f"{number:.2g}"


def _numbers(span: RangeView) -> str:
    if span.high >= 10 * _THOUSAND:
        return f"{span.low / _THOUSAND:,.1f}–{span.high / _THOUSAND:,.1f} k"
    if span.high >= _THOUSAND:
        return f"{span.low:,.0f}–{span.high:,.0f}"
    return f"{span.low:.3g}–{span.high:.3g}"


def _pruned(reason: str) -> str:
    return {"does not divide": "do not divide", "does not fit": "do not fit"}.get(reason, reason)
