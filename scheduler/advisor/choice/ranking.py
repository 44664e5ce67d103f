"""The order of plans for an objective, and one sentence for each place."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.advisor.choice.question import Objective, Plan, Question

#: So much sooner is not worth more GPUs.
_SAME = 1.02


def ranked(question: Question, plans: list[Plan]) -> list[Plan]:
    """Best first, each with its sentence."""
    keys = {
        Objective.FASTEST: _by_time,
        Objective.CHEAPEST: _by_money,
        Objective.CHEAPEST_BY_DEADLINE: _by_deadline,
    }
    ordered = keys[question.objective](question, plans)
    return [
        replace(plan, why=_why(question, plan, ordered[0] if place else None))
        for place, plan in enumerate(ordered)
    ]


def cost(plan: Plan) -> float:
    """Money, or GPU-hours where no price is known."""
    return plan.cost if plan.cost is not None else plan.gpu_hours


def _by_time(_: Question, plans: list[Plan]) -> list[Plan]:
    """Soonest first; of those that are done at nearly the same time, the smallest."""
    soonest = min(plan.finish_s.middle for plan in plans)

    def key(plan: Plan) -> tuple[bool, float]:
        late = plan.finish_s.middle > soonest * _SAME
        return late, plan.finish_s.middle if late else plan.layout.gpus

    return sorted(plans, key=key)


def _by_money(_: Question, plans: list[Plan]) -> list[Plan]:
    return sorted(plans, key=lambda plan: (cost(plan), plan.finish_s.middle))


def _by_deadline(question: Question, plans: list[Plan]) -> list[Plan]:
    def key(plan: Plan) -> tuple[bool, float]:
        late = _late(question, plan)
        return late, plan.finish_s.middle if late else cost(plan)

    return sorted(plans, key=key)


def _late(question: Question, plan: Plan) -> bool:
    return plan.finish_s.high > question.deadline_s


def _why(question: Question, plan: Plan, best: Plan | None) -> str:
    limited = f"limited by {plan.bottleneck}"
    if best is None:
        return f"{_first(question, plan)}; {limited}."
    later = plan.finish_s.middle / max(best.finish_s.middle, 1e-9) - 1
    dearer = cost(plan) / max(cost(best), 1e-9) - 1
    unit = "money" if plan.cost is not None else "GPU-hours"
    return (
        f"{_share(later, 'later', 'sooner')} than the first, "
        f"{_share(dearer, 'more', 'less')} {unit}; {limited}."
    )


def _first(question: Question, plan: Plan) -> str:
    match question.objective:
        case Objective.FASTEST:
            return "Done soonest of all layouts that fit"
        case Objective.CHEAPEST:
            unit = "money" if plan.cost is not None else "GPU-hours"
            return f"Takes the least {unit} of all layouts that fit"
        case Objective.CHEAPEST_BY_DEADLINE:
            if _late(question, plan):
                return "None is likely done in time, this one soonest"
            return "The cheapest that is likely done in time"


def _share(share: float, above: str, below: str) -> str:
    return f"{abs(share) * 100:.0f} % {above if share >= 0 else below}"
