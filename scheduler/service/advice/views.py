"""Plans as people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.choice.advise import CANNOT_SAY
from gpucommons.scheduler.advisor.choice.question import Advice, Plan, Range
from gpucommons.scheduler.advisor.choice.ranking import beside
from gpucommons.scheduler.advisor.choice.script_arguments import OWN_ARGUMENTS
from gpucommons.scheduler.advisor.layout import (
    RECOMPUTE_WORDS,
    SHARE_GRADIENTS,
    SHARE_MOMENTS,
    SHARE_WEIGHTS,
    Layout,
    words,
)
from gpucommons.scheduler.advisor.search import CANNOT_SAY_IT
from gpucommons.scheduler.models.text.plan_words import memory_of, plain_line, speed_of
from gpucommons.scheduler.service.advice.advisor_question import Asking
from gpucommons.scheduler.service.advice.lessons import of_another_driver, of_the_future
from gpucommons.scheduler.service.advice.places import Place, driver_words, workers_of
from gpucommons.scheduler.service.advice.waits import NOT_KNOWN, Size, Wait

_MIB = 2**20
_SHARING = {
    SHARE_MOMENTS: "ZeRO-1: the optimizer's state shared out (ZeroRedundancyOptimizer)",
    SHARE_GRADIENTS: "FSDP with SHARD_GRAD_OP",
    SHARE_WEIGHTS: "FSDP with FULL_SHARD",
}
_SIMULATED = "The GPUs of pool {} are simulated: speeds and memory are those of real {} cards, which are not here."
_ONE_NODE = (
    "Plans stay on one node of {}: how fast links between its nodes are was not measured. An admin can:"
    " gpucommons probe {}."
)
_DOUBTED = (
    "What was measured of {} is not reckoned with: {}. Plans stay on one node. An admin can measure"
    " anew: gpucommons probe {}."
)
_OTHER_DRIVER = (
    "{} on such GPUs not counted for {}: with another driver than its {}, or with one not recorded."
)
_AHEAD = (
    "{} on such GPUs not counted for {}: by the clock of now they are not over yet, so how old they are is"
    " not known."
)
_MEASURED = "GPUs and links of {} as measured on {}{}."
_FAR, _NEAR = "; {:.3g} GB/s between nodes", "; plans stay on one node"


def advice_view(
    asking: Asking, found: Advice, view: Callable[[Plan], models.PlanView]
) -> models.AdviceView:
    """The whole answer, with each plan as ``view`` says it."""
    simulated = [
        _SIMULATED.format(one.name, one.pool.kind.name) for one in asking.places if one.simulated
    ]
    plain = None if found.plain is None else view(found.plain)
    return models.AdviceView(
        plans=[view(plan) for plan in found.plans],
        plain=plain,
        plain_text="" if plain is None else plain_line(plain),
        declined=found.declined,
        try_like=CANNOT_SAY in found.declined,
        why_not=_why_not(asking, found),
        considered=found.considered,
        pruned=[models.PrunedView(reason=why, count=n) for why, n in found.pruned.items() if n],
        notes=[*asking.notes, *simulated, *_of_places(asking), *_of_arguments(asking, found)],
        currency=asking.currency,
        now_ms=asking.now_ms,
    )


def _of_arguments(asking: Asking, found: Advice) -> Iterator[str]:
    """What was not offered since the script could not be told it."""
    own, count = OWN_ARGUMENTS.get(asking.request.framework), found.pruned.get(CANNOT_SAY_IT, 0)
    if own is not None and count:
        yield f"{count:,} layouts are not offered, as {own.name} has no arguments for them: {own.limits}."


def _of_places(asking: Asking) -> Iterator[str]:
    """What is reckoned with of each pool, and what not."""
    for place in asking.places:
        if links := _of_links(place):
            yield links
        if count := of_another_driver(asking.like, place):
            runs = "1 earlier run" if count == 1 else f"{count} earlier runs"
            yield _OTHER_DRIVER.format(runs, place.name, driver_words(place.drivers))
        if count := of_the_future(asking.like, place, asking.now_ms):
            runs = "1 earlier run" if count == 1 else f"{count} earlier runs"
            yield _AHEAD.format(runs, place.name)


def _of_links(place: Place) -> str:
    """What its plans reckon with; "" where a data sheet is all, and there is one node."""
    if place.doubt:
        return _DOUBTED.format(place.name, place.doubt, place.name)
    if place.measured_ms is None:
        if place.alike == 1:
            return ""
        return _ONE_NODE.format(place.name, place.name)
    day = f"{datetime.fromtimestamp(place.measured_ms / 1000, UTC):%Y-%m-%d}"
    far = _FAR.format(place.pool.between.bytes_per_s / 1e9) if place.pool.nodes > 1 else _NEAR
    return _MEASURED.format(place.name, day, far)


def plan_view(asking: Asking, plan: Plan, known: Mapping[Size, Wait]) -> models.PlanView:
    """One plan, without the number that it is offered under."""
    request, place, gpus = asking.request, asking.place(plan.pool), plan.layout.gpus
    wait = known.get((plan.pool, gpus), NOT_KNOWN)
    workers = workers_of(place.pool, gpus)
    tokens = plan.samples_per_s.times(request.sequence) if request.sequence > 1 else None
    own = OWN_ARGUMENTS.get(request.framework)
    made = models.PlanView(
        pool=plan.pool,
        gpu_kind=place.pool.kind.name,
        gpus=gpus,
        workers=workers,
        milli_gpu=gpus // workers * WHOLE_MILLI_GPU,
        launcher=_launcher(request.framework, gpus),
        layout=words(plan.layout),
        script=script_words(plan.layout, request.framework),
        arguments=[] if own is None else list(own.write(plan.layout, request.batch)),
        verdict=plan.verdict,
        memory_mib=_mib(plan.memory_bytes),
        available_mib=_mib(place.pool.memory_bytes),
        largest=[
            models.MemoryTermView(name=name, mib=_mib(size)) for name, size in plan.largest if size
        ],
        samples_per_s=_range(plan.samples_per_s),
        tokens_per_s=None if tokens is None else _range(tokens),
        wait_s=None if wait.range_s is None else _range(wait.range_s),
        wait_text=wait.text,
        wait_note=wait.note,
        run_s=_range(plan.run_s),
        finish_s=None if plan.finish_s is None else _range(plan.finish_s),
        gpu_hours=round(plan.gpu_hours, 3),
        cost=plan.cost,
        bottleneck=plan.bottleneck,
        why=plan.why,
        grade=plan.grade,
        hold_class=wait.hold_class,
    )
    said = {"memory_text": memory_of(made), "speed_text": speed_of(made)}
    return made.model_copy(update=said)


def _launcher(framework: str, gpus: int) -> str:
    """Who takes arguments of such trainers wants torchrun's variables on one GPU, too."""
    if framework in OWN_ARGUMENTS:
        return "torchrun"
    return "torchrun" if gpus > 1 and framework == "torch" else "plain"


def script_words(layout: Layout, framework: str) -> list[str]:
    """What the script itself has to do: a launcher starts processes and no more."""
    said = []
    if layout.zero in _SHARING:
        said.append(_SHARING[layout.zero])
    elif layout.data > 1:
        said.append("MirroredStrategy" if framework == "keras" else "DistributedDataParallel")
    samples = "1 sample" if layout.micro == 1 else f"{layout.micro} samples"
    said.append(f"{samples} at once on each GPU")
    if layout.accumulation > 1:
        said.append(f"{layout.accumulation} of these for each optimizer step")
    if layout.recompute:
        said.append(f"activation checkpointing: {RECOMPUTE_WORDS[layout.recompute]}")
    return said


def _why_not(asking: Asking, found: Advice) -> list[models.WhyNotView]:
    """Of the number that was asked about, else of the next larger one that is no plan."""
    if not found.plans:
        return []
    gpus = asking.request.why_not or _next_larger(found.plans)
    text = _reason(gpus, found, asking.place(found.plans[0].pool))
    return [models.WhyNotView(gpus=gpus, text=text)]


def _next_larger(plans: Sequence[Plan]) -> int:
    """Twice the first plan's, or twice that: who is offered a number does not ask why not."""
    offered = {plan.layout.gpus for plan in plans}
    gpus = 2 * plans[0].layout.gpus
    while gpus in offered:
        gpus *= 2
    return gpus


def _reason(gpus: int, found: Advice, place: Place) -> str:
    first, every = found.plans[0], (*found.plans, *found.others)
    priced = all(plan.cost is not None for plan in every)
    like = [plan for plan in every if plan.layout.gpus == gpus]
    if like and like[0] is first:
        return "This is the first plan."
    if like:
        faster = first.run_s.middle / like[0].run_s.middle
        pace = f"It would run {faster:.{1 if faster >= 1 else 2}f} × as fast as the first plan"
        said = beside(like[0], first, priced=priced)
        offered = (
            f"This is plan {found.plans.index(like[0]) + 1}. " if like[0] in found.plans else ""
        )
        return f"{offered}{pace}. {said}; limited by {like[0].bottleneck}."
    if gpus in place.refused:
        return place.refused[gpus]
    if gpus in place.specs:
        return "No layout of so many divides the batch and fits."
    return _no_such_size(gpus, place)


def _no_such_size(gpus: int, place: Place) -> str:
    most = place.pool.gpus_per_node
    if gpus > most and place.pool.nodes == 1:
        return (
            f"The largest node of {place.name} has {most} GPU{'' if most == 1 else 's'}, and how fast"
            " links between nodes are was not measured here."
        )
    if gpus > place.pool.gpus:
        return f"{place.name} has {place.pool.nodes} nodes with {most} GPUs each."
    return (
        "Plans are made for 1, 2, 4, 8 … GPUs, for all of a node, and for 2, 4, 8 … and all nodes."
    )


def _range(found: Range) -> models.RangeView:
    return models.RangeView(low=found.low, middle=found.middle, high=found.high)


def _mib(size_bytes: float) -> int:
    return round(size_bytes / _MIB)
