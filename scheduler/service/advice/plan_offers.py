"""Plans as they are offered: each gets a number by which a submit takes it."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.choice.question import Plan, Range
from gpucommons.scheduler.advisor.choice.script_arguments import OWN_ARGUMENTS
from gpucommons.scheduler.advisor.learning.training import written, written_points
from gpucommons.scheduler.advisor.network import Unknown
from gpucommons.scheduler.plans import ChosenPlan, Said
from gpucommons.scheduler.service.advice import describing
from gpucommons.scheduler.service.advice.advisor_question import Asking, Like
from gpucommons.scheduler.service.advice.places import Place

_HOUR_S = 3600


def offer(asking: Asking, view: models.PlanView, plan: Plan, like: Like) -> ChosenPlan:
    """What is kept of a plan: what was said, and what the formula alone said."""
    place = asking.place(plan.pool)
    gpu_hours = _said(plan.run_s, plan.layout.gpus * place.pool.fraction / _HOUR_S)
    return ChosenPlan(
        plan_id=view.id,
        made_ms=asking.now_ms,
        pool=view.pool,
        gpu_kind=view.gpu_kind,
        simulated=place.simulated,
        gpus=view.gpus,
        layout=view.layout,
        grade=view.grade,
        verdict=view.verdict,
        batch=asking.request.batch,
        steps=asking.request.steps,
        memory_mib=view.memory_mib,
        samples_per_s=_said(plan.samples_per_s),
        wait_s=None if plan.wait_s is None else _said(plan.wait_s),
        run_s=_said(plan.run_s),
        gpu_hours=gpu_hours,
        cost=_cost(gpu_hours, place),
        currency=asking.currency,
        formula_s=plan.formula_s,
        signature=like.signature,
        family=like.family,
        training=_training(asking, plan),
    )


def _training(asking: Asking, plan: Plan) -> str:
    request = asking.request
    network, recipe = describing.network_of(request.network), describing.recipe_of(request)
    if isinstance(network, Unknown):
        return written_points(asking.seen.get(plan.pool, ()))
    own = request.framework if request.framework in OWN_ARGUMENTS else ""
    return written(network, recipe, plan.layout, own)


def _cost(gpu_hours: Said, place: Place) -> Said | None:
    price = place.price
    if price is None:
        return None
    return Said(gpu_hours.low * price, gpu_hours.middle * price, gpu_hours.high * price)


def _said(found: Range, factor: float = 1.0) -> Said:
    return Said(found.low * factor, found.middle * factor, found.high * factor)
