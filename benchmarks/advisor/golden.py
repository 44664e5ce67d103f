"""Six cases in which a fact must change the plan, as the table of requirements names them."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.advisor.setting import Figure, gpt, pool_of
from gpucommons.scheduler.advisor.choice.advise import advise
from gpucommons.scheduler.advisor.choice.interruption_cost import Terms
from gpucommons.scheduler.advisor.choice.question import Objective, Plan, Question
from gpucommons.scheduler.advisor.choice.together import mean_finish_s, together
from gpucommons.scheduler.advisor.network import Traced
from gpucommons.scheduler.advisor.recipe import Recipe
from gpucommons.scheduler.advisor.search import Ways

_ALL = Ways(tensor=True, pipeline=True, context=True, offload=True)


def figures() -> list[Figure]:
    """How many of the six come out as they must."""
    cases = passed()
    return [Figure("golden", "passed", float(sum(cases.values())), len(cases))]


def passed() -> dict[str, bool]:
    """Each case by the number of its requirement."""
    return {
        "47 slow storage changes the plan": _storage(),
        "48 less bandwidth changes the plan": _bandwidth(),
        "51 the best alone is worse together": _together(),
        "54 one GPU is fastest": _one_gpu(),
        "55 fewer GPUs on resume change the plan": _resume(),
        "58 the objective changes the order": _objective(),
    }


def _large() -> Question:
    """7B on two nodes of eight A100."""
    return Question(
        network=gpt(32, 4096, 32),
        recipe=Recipe(batch=256, sequence=2048, bytes_per_sample=8192.0),
        pool=pool_of("A100-80", 16, "infiniband-1600"),
        steps=1000,
        ways=_ALL,
    )


def _best(question: Question) -> Plan:
    found = advise(question)
    assert found.plans, found.declined
    return found.plans[0]


def _storage() -> bool:
    question = _large()
    slow = replace(question, pool=replace(question.pool, storage_bytes_per_s=60_000.0))
    plan = _best(slow)
    return plan.layout.gpus < _best(question).layout.gpus and plan.bottleneck == "data loading"


def _bandwidth() -> bool:
    """With half of what links between nodes give, 30B moves from data ranks to pipeline stages."""
    pool = pool_of("A100-80", 32, "infiniband-400")
    recipe = Recipe(batch=128, sequence=2048)
    question = replace(_large(), network=gpt(48, 7168, 56), recipe=recipe, pool=pool)
    half = replace(pool.between, bytes_per_s=pool.between.bytes_per_s / 2)
    before, after = _best(question), _best(replace(question, pool=replace(pool, between=half)))
    return after.layout.pipeline > before.layout.pipeline


def _together() -> bool:
    """Two jobs that do not scale well: each alone takes all GPUs, both together half of them."""
    job = {1: 100.0, 2: 55.0, 4: 32.0, 8: 25.0}
    greedy = (8, 8)
    chosen = together([job, job], greedy, 8).sizes
    return mean_finish_s([job, job], chosen, 8) < mean_finish_s([job, job], greedy, 8)


def _one_gpu() -> bool:
    small = Traced(parameters=60_000_000, forward_flops=1e8, activation_bytes=1e6, modules=20)
    pool = pool_of("T4", 8, "ethernet-10", per_node=1)
    question = Question(
        network=small, recipe=Recipe(batch=64, precision="fp16"), pool=pool, steps=1000
    )
    return _best(question).layout.gpus == 1


def _resume() -> bool:
    question = _large()
    before, after = _best(question), _best(replace(question, most_gpus=4))
    kept = after.layout.data * after.layout.micro * after.layout.accumulation == 256
    return after.layout.gpus <= 4 and kept and after.layout != before.layout


def _objective() -> bool:
    question = replace(_large(), terms=Terms(price=2.0))
    fast = _best(question)
    cheap = _best(replace(question, objective=Objective.CHEAPEST))
    by_then = _best(
        replace(
            question,
            objective=Objective.CHEAPEST_BY_DEADLINE,
            deadline_s=cheap.run_s.middle * 0.8,
        )
    )
    sooner = by_then.run_s.high <= cheap.run_s.middle * 0.8
    return fast.layout != cheap.layout and sooner and (by_then.cost or 0) >= (cheap.cost or 0)
