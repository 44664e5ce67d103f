"""Plans for a job that is not submitted yet; or one sentence why there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpucommons.scheduler.advisor import network, recipe
from gpucommons.scheduler.advisor.choice import interruption_cost
from gpucommons.scheduler.advisor.choice.pricing import MARGIN, Computed, correction_of, plan_of
from gpucommons.scheduler.advisor.choice.question import Advice, Plan, Question
from gpucommons.scheduler.advisor.choice.ranking import ranked
from gpucommons.scheduler.advisor.history import ENOUGH, Correction, Grade
from gpucommons.scheduler.advisor.kinds import Pool
from gpucommons.scheduler.advisor.layout import Layout, Layouts, Numbers, layouts_of
from gpucommons.scheduler.advisor.memory import memory
from gpucommons.scheduler.advisor.network import Unknown
from gpucommons.scheduler.advisor.scaling import scaling_of
from gpucommons.scheduler.advisor.search import Found, search, sizes
from gpucommons.scheduler.advisor.step import step

_PLANS = 3
#: A plan that may not run is no better than one that is so much slower.
_TIGHT_COUNTS = 1.25
#: So much less time is not worth sharing out weights or making activations again.
_AS_FAST = 1.02
#: Error of a scaling fitted to at least so many points (log units): four of five points of Sia's
#: trainings that were held out lie inside (`benchmarks.advisor.sia`).
_SPREADS = ((10, 0.09), (ENOUGH, 0.12), (0, 0.16))
CANNOT_SAY = "Can't say yet. Try 2 minutes on one GPU?"
#: No plan of longer runs: the numbers that were asked with are not meant so.
_LONGEST_S = 10 * 365 * 86_400
NOT_TOLD = "Can't say yet. No job that was named tells how long its steps take."


def advise(question: Question) -> Advice:
    """The best layout of each size, best first."""
    refused = refusal(question)
    if refused:
        return Advice(declined=refused)
    pool = limited(question.pool, question.most_gpus)
    if isinstance(question.network, Unknown):
        return _in_order(question, Advice(considered=0, plans=tuple(_from_runs(question, pool))))
    found = search(question.network, question.recipe, pool, question.known, question.ways)
    plain = _plain(question, question.network, pool)
    if not len(found.layouts):
        sentence = f"No layout of {pool.gpus} × {pool.kind.name} holds this training."
        return Advice(
            declined=sentence, plain=plain, considered=found.considered, pruned=found.pruned
        )
    return _in_order(
        question,
        Advice(
            plans=tuple(_best_of_each_size(question, found)),
            plain=plain,
            considered=found.considered,
            pruned=found.pruned,
        ),
    )


def among(questions: Sequence[Question]) -> Advice:
    """The same of several pools: one order over all of them."""
    answers = [advise(question) for question in questions]
    plans = tuple(plan for answer in answers for plan in (*answer.plans, *answer.others))
    pruned: Counter[str] = Counter()
    for answer in answers:
        pruned.update(answer.pruned)
    joined = Advice(
        plans=plans,
        plain=next((answer.plain for answer in answers if answer.plain), None),
        declined="" if plans else next((one.declined for one in answers if one.declined), ""),
        considered=sum(answer.considered for answer in answers),
        pruned=pruned,
    )
    return _in_order(questions[0], joined) if plans else joined


def _in_order(question: Question, found: Advice) -> Advice:
    """The first few of all plans, and the others."""
    shortest_s = min((plan.run_s.middle for plan in found.plans), default=0.0)
    if shortest_s > _LONGEST_S:
        declined = (
            f"The shortest of these runs would take {shortest_s / (365 * 86_400):,.0f} years, and"
            " plans are made for ten at most. Are the steps, samples and tokens right?"
        )
        return replace(found, plans=(), declined=declined)
    plans = ranked(question, list(found.plans))
    return replace(
        found,
        plans=tuple(plans[:_PLANS]),
        others=tuple(plans[_PLANS:]),
        considered=found.considered or len(plans),
    )


def refusal(question: Question) -> str | None:
    """Why nothing can be said; None if something can."""
    pool, formats = question.pool, recipe.PRECISIONS.get(question.recipe.precision)
    if isinstance(question.network, Unknown):
        # Nothing is guessed: without runs of its own there is no number.
        advice = NOT_TOLD if question.network.tried else CANNOT_SAY
        reasons = [None if question.seen else f"{question.network.why} {advice}"]
    else:
        reasons = [network.refusal(question.network)]
    reasons += [
        recipe.refusal(question.recipe, question.network),
        interruption_cost.refusal(question.terms),
        None if _sane(pool) and question.most_gpus >= 0 else "There is no GPU to plan for.",
        None if question.steps >= 1 else "A training of no steps needs no plan.",
        None
        if formats and formats.compute in pool.kind.peak
        else f"What {pool.kind.name} does in {question.recipe.precision} is not in the table.",
    ]
    return next((one for one in reasons if one), None)


def _sane(pool: Pool) -> bool:
    shares = 0 < pool.fraction <= 1 and 0 <= pool.neighbours_busy <= 1 and 0 <= pool.background < 1
    links = all(one.bytes_per_s > 0 and one.latency_s >= 0 for one in (pool.inside, pool.between))
    return pool.gpus >= 1 and shares and links and pool.storage_bytes_per_s >= 0


def limited(pool: Pool, most: int) -> Pool:
    """The part of a pool that a job may have."""
    if not most or most >= pool.gpus:
        return pool
    if most <= pool.gpus_per_node:
        return replace(pool, nodes=1, gpus_per_node=most)
    return replace(pool, nodes=most // pool.gpus_per_node)


def _best_of_each_size(question: Question, found: Found) -> list[Plan]:
    """The fastest of each number of GPUs; of equals the one with more room."""
    layouts, total = found.layouts, found.memory.total
    grade = correction_of(question, 1).grade
    room = question.pool.memory_bytes * (1 - MARGIN[grade])
    counted = found.step.total * np.where(total > room, _TIGHT_COUNTS, 1.0)
    order = np.lexsort((total, counted, layouts.gpus))
    gpus = layouts.gpus[order]
    first = order[np.concatenate([[True], gpus[1:] != gpus[:-1]])]
    wanted = [int(i) for i in first if not question.sizes or int(layouts.gpus[i]) in question.sizes]
    return [_chosen(question, found, _simplest(layouts, counted, best)) for best in wanted]


def _simplest(layouts: Layouts, counted: Numbers, best: int) -> int:
    """The same degrees and micro-batch, as fast, with the least shared out and made again."""
    names = ("data", "tensor", "pipeline", "context", "micro", "virtual", "offload")
    alike = counted <= counted[best] * _AS_FAST
    for name in names:
        values = getattr(layouts, name)
        alike &= values == values[best]
    like = np.flatnonzero(alike)
    return int(like[np.lexsort((layouts.recompute[like], layouts.zero[like]))[0]])


def _chosen(question: Question, found: Found, index: int) -> Plan:
    layout = found.layouts.one(index)
    computed = Computed(
        layout=layout,
        seconds=float(found.step.total[index]),
        bottleneck=found.step.bottleneck(index),
        memory_bytes=float(found.memory.total[index]),
        largest=tuple(found.memory.largest(index)),
    )
    return plan_of(question, computed, correction_of(question, layout.gpus))


def _plain(question: Question, known: network.Transformer | network.Traced, pool: Pool) -> Plan:
    """What most people run: whole copies on the GPUs of one node, as large a batch as fits."""
    gpus = min(pool.gpus, pool.gpus_per_node)
    while question.recipe.batch % gpus:
        gpus -= 1
    each = question.recipe.batch // gpus
    micros = [size for size in (64, 32, 16, 8, 4, 2, 1) if each % size == 0]
    layouts = layouts_of(
        *(Layout(data=gpus, micro=size, accumulation=each // size) for size in micros)
    )
    needed = memory(known, question.recipe, layouts)
    fits = np.flatnonzero(needed.total <= pool.memory_bytes)
    index = int(fits[0]) if len(fits) else len(micros) - 1
    computed = one_of(question, known, pool, layouts, index)
    return plan_of(question, computed, correction_of(question, gpus))


def one_of(
    question: Question,
    known: network.Transformer | network.Traced,
    pool: Pool,
    layouts: Layouts,
    index: int,
) -> Computed:
    """What formulas say of one of these layouts, whether it fits or not."""
    needed = memory(known, question.recipe, layouts)
    timed = step(known, question.recipe, layouts, pool, question.known)
    return Computed(
        layout=layouts.one(index),
        seconds=float(timed.total[index]),
        bottleneck=timed.bottleneck(index),
        memory_bytes=float(needed.total[index]),
        largest=tuple(needed.largest(index)),
    )


def spread_after(points: int) -> float:
    """Error of a scaling that so many points of an unknown training tell (log units)."""
    return next(spread for fewest, spread in _SPREADS if points >= fewest)


def _from_runs(question: Question, pool: Pool) -> list[Plan]:
    """Data parallel, at scales no further than twice what this very training was seen at."""
    scaling = scaling_of(question.seen, question.believed)
    count = len(question.seen)
    grade = Grade.HISTORY if count >= ENOUGH else Grade.PROBE
    learned = Correction(factor=1.0, spread=spread_after(count), grade=grade, runs=float(count))
    plans = []
    for size in sizes(pool):
        gpus = int(size)
        if question.recipe.batch % gpus or scaling.far(gpus):
            continue
        nodes = max(1, gpus // pool.gpus_per_node)
        local = question.recipe.batch / gpus
        seconds = float(
            scaling.step_s(*(np.array([float(one)]) for one in (gpus, nodes, local)))[0]
        )
        layout = Layout(data=gpus, micro=question.recipe.batch // gpus)
        computed = Computed(layout=layout, seconds=seconds, bottleneck="what its runs showed")
        plans.append(plan_of(question, computed, learned))
    return plans
