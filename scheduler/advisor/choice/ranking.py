"""The order of plans for an objective, and one sentence for each place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpucommons.scheduler.advisor.choice.question import Objective, Plan, Question

#: So much sooner is not worth more GPUs.
_SAME = 1.02
#: From here on a decimal says nothing.
_WHOLE_FROM = 9.95


def ranked(question: Question, plans: Sequence[Plan]) -> list[Plan]:
    """Best first, each with its sentence."""
    keys = {
        Objective.FASTEST: _by_time,
        Objective.CHEAPEST: _by_money,
        Objective.CHEAPEST_BY_DEADLINE: _by_deadline,
    }
    # Money and GPU-hours cannot be compared: one plan without a price, and hours count for all.
    priced = all(plan.cost is not None for plan in plans)
    ordered = keys[question.objective](question, plans, priced)
    return [
        replace(plan, why=_why(question, plan, ordered[0] if place else None, priced))
        for place, plan in enumerate(ordered)
    ]


def soon_s(plan: Plan) -> tuple[bool, float]:
    """Whether the wait is not known, and the seconds until it is done, or else those that it runs."""
    finish = plan.finish_s
    return finish is None, plan.run_s.middle if finish is None else finish.middle


def beside(plan: Plan, best: Plan, *, priced: bool) -> str:
    """A plan in comparison with another: when it is done, and what it costs."""
    dearer = _cost(plan, priced) / max(_cost(best, priced), 1e-9) - 1
    same = "the same money" if priced else "as many GPU-hours"
    money = f"{_share(dearer, 'more', 'less')} {_unit(priced)}" if _differs(dearer) else same
    if plan.finish_s is None or best.finish_s is None:
        longer = plan.run_s.middle / max(best.run_s.middle, 1e-9) - 1
        vague = "; its wait is not known" if plan.finish_s is None else ""
        if not _differs(longer):
            return f"Runs as long as the first, {money}{vague}"
        return f"Runs {_share(longer, 'longer', 'shorter')} than the first, {money}{vague}"
    later = plan.finish_s.middle / max(best.finish_s.middle, 1e-9) - 1
    # Of two ranges that overlap either may be the sooner one.
    is_sure = plan.finish_s.low > best.finish_s.high or plan.finish_s.high < best.finish_s.low
    likely = "Is" if is_sure else "Is likely"
    if not _differs(later):
        return f"Likely done at the same time as the first, {money}"
    if later > 1:
        return f"{likely} done after {_times(1 + later)} times as long as the first, {money}"
    return f"{likely} done {_share(later, 'later', 'sooner')} than the first, {money}"


def _cost(plan: Plan, priced: bool) -> float:
    return plan.cost if priced and plan.cost is not None else plan.gpu_hours


def _unit(priced: bool) -> str:
    return "money" if priced else "GPU-hours"


def _by_time(_question: Question, plans: Sequence[Plan], _priced: bool) -> list[Plan]:
    """Soonest first; of those that are done at nearly the same time, the smallest."""
    unknown, soonest = min((soon_s(plan) for plan in plans), default=(False, 0.0))

    def key(plan: Plan) -> tuple[bool, bool, float]:
        vague, seconds = soon_s(plan)
        late = vague != unknown or seconds > soonest * _SAME
        return vague, late, seconds if late else plan.layout.gpus

    return sorted(plans, key=key)


def _by_money(_question: Question, plans: Sequence[Plan], priced: bool) -> list[Plan]:
    return sorted(plans, key=lambda plan: (_cost(plan, priced), soon_s(plan)))


def _by_deadline(question: Question, plans: Sequence[Plan], priced: bool) -> list[Plan]:
    def key(plan: Plan) -> tuple[bool, tuple[bool, float]]:
        late = _late(question, plan)
        return late, soon_s(plan) if late else (False, _cost(plan, priced))

    return sorted(plans, key=key)


def _late(question: Question, plan: Plan) -> bool:
    """One whose wait is not known is not likely done in time."""
    return plan.finish_s is None or plan.finish_s.high > question.deadline_s


def _why(question: Question, plan: Plan, best: Plan | None, priced: bool) -> str:
    said = _first(question, plan, priced) if best is None else beside(plan, best, priced=priced)
    return f"{said}; limited by {plan.bottleneck}."


def _first(question: Question, plan: Plan, priced: bool) -> str:
    match question.objective:
        case Objective.FASTEST if plan.finish_s is None:
            return "Runs shortest of all layouts that fit; its wait is not known"
        case Objective.FASTEST:
            return "Likely done soonest of all layouts that fit"
        case Objective.CHEAPEST:
            return f"Takes the least {_unit(priced)} of all layouts that fit"
        case Objective.CHEAPEST_BY_DEADLINE:
            if _late(question, plan):
                return "None is likely done in time, this one soonest"
            return "The cheapest that is likely done in time"


def _differs(share: float) -> bool:
    """Whether a share is not 0 as it is written."""
    return abs(share) * 100 >= 0.5  # noqa: PLR2004 - it is rounded to whole percent


def _times(ratio: float) -> str:
    """As near as anybody reads it: 2.4, 24, 360."""
    return f"{ratio:.1f}" if ratio < _WHOLE_FROM else f"{float(f'{ratio:.2g}'):.0f}"


def _share(share: float, above: str, below: str) -> str:
    return f"{abs(share) * 100:.0f} % {above if share >= 0 else below}"
