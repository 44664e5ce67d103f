"""A plan as its script is told it: arguments for as many GPUs as it has now, by what is kept of the plan.

Data sheets alone speak here, so that whoever starts an attempt needs nothing but the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpucommons.scheduler.advisor.choice.planned_anew import planned_anew
from gpucommons.scheduler.advisor.choice.question import Question
from gpucommons.scheduler.advisor.choice.script_arguments import OWN_ARGUMENTS, ways_of_script
from gpucommons.scheduler.advisor.kinds import Pool, kind_called, shipped
from gpucommons.scheduler.advisor.layout import Layout
from gpucommons.scheduler.advisor.learning.training import Training, read
from gpucommons.scheduler.plans import ChosenPlan

#: Plans at one size each: a job is submitted, started and shown with the same ones.
_KNOWN = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Argued:
    """What its script is told."""

    framework: str
    layout: Layout
    arguments: Sequence[str]


def framework_of(plan: ChosenPlan | None) -> str:
    """Whose arguments a plan is written in; "" for nobody's."""
    training = None if plan is None else read(plan.training)
    named = "" if training is None else training.framework
    return named if named in OWN_ARGUMENTS else ""


@lru_cache(_KNOWN)
def argued(plan: ChosenPlan, workers: int, gpus_each: int) -> Argued | None:
    """The plan on so many GPUs, its global batch unchanged; None where no layout of them holds it."""
    training = read(plan.training)
    if training is None or training.framework not in OWN_ARGUMENTS:
        return None
    layout = layout_on(plan, training, workers, gpus_each)
    if layout is None:
        return None
    own = OWN_ARGUMENTS[training.framework]
    return Argued(
        framework=training.framework,
        layout=layout,
        arguments=tuple(own.write(layout, training.recipe.batch)),
    )


def layout_on(plan: ChosenPlan, training: Training, workers: int, gpus_each: int) -> Layout | None:
    """As planned on as many GPUs as planned; else anew."""
    gpus = workers * gpus_each
    if gpus == training.layout.gpus:
        return training.layout
    kind = kind_called(plan.gpu_kind, shipped())
    if kind is None or gpus < 1:
        return None
    pool = Pool(
        kind=kind, gpus_per_node=gpus_each, nodes=workers, inside=kind.link, between=kind.link
    )
    question = Question(
        network=training.network,
        recipe=training.recipe,
        pool=pool,
        steps=plan.steps,
        ways=ways_of_script(training.framework),
    )
    found = planned_anew(question, training.layout, gpus)
    return None if found is None else found.plan.layout
