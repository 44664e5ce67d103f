"""The plan of a training that goes on with another number of GPUs: its global batch stays."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpucommons.scheduler.advisor.choice.advise import advise, limited, one_of
from gpucommons.scheduler.advisor.choice.pricing import correction_of, plan_of
from gpucommons.scheduler.advisor.choice.question import Plan, Question, Verdict
from gpucommons.scheduler.advisor.layout import Layout, layouts_of
from gpucommons.scheduler.advisor.network import Unknown


@dataclass(frozen=True, slots=True)
class PlannedAnew:
    """How it goes on."""

    plan: Plan
    #: It is what a script does that takes the micro-steps and the batch that it is told.
    as_told: bool
    #: The script's own, which it was started with; none where it takes none of a plan.
    arguments: tuple[str, ...] = ()


def planned_anew(question: Question, before: Layout, gpus: int) -> PlannedAnew | None:
    """The way it had, on so many GPUs; where that does not fit the best one; None where nothing does."""
    pool = limited(question.pool, gpus)
    if pool.gpus != gpus or isinstance(question.network, Unknown):
        return None
    same = as_told(before, gpus)
    if same is not None and _takes(question, same):
        computed = one_of(question, question.network, pool, layouts_of(same), 0)
        plan = plan_of(question, computed, correction_of(question, gpus))
        if plan.verdict is not Verdict.NO:
            return PlannedAnew(plan, as_told=True)
    found = advise(replace(question, most_gpus=gpus, sizes=(gpus,)))
    return PlannedAnew(found.plans[0], as_told=False) if found.plans else None


def _takes(question: Question, layout: Layout) -> bool:
    takes = question.ways.takes
    return takes is None or bool(takes(layouts_of(layout))[0])


def as_told(before: Layout, gpus: int) -> Layout | None:
    """What becomes of a layout by what scripts are told: fewer data ranks take several micro-steps for a
    step, more take a part of it each (:mod:`gpucommons.scheduler.executors.global_batch`). None where
    that gives no whole samples.
    """
    rest = before.gpus // before.data
    data, left = divmod(gpus, rest)
    if left or not data:
        return None
    micro_steps = -(-before.data // data)
    micro, parts = divmod(before.micro * before.data, data * micro_steps)
    if parts or not micro or before.expert > data:
        return None
    return replace(before, data=data, micro=micro, accumulation=before.accumulation * micro_steps)
