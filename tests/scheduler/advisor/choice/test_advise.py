"""What is answered to a question: plans that fit, in order; or a sentence why there are none."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.advisor.golden import passed
from gpucommons.scheduler.advisor.choice.advise import CANNOT_SAY, advise
from gpucommons.scheduler.advisor.choice.interruption_cost import Terms, interval_h, useful_share
from gpucommons.scheduler.advisor.choice.question import Objective, Question, Range, Verdict
from gpucommons.scheduler.advisor.choice.ranking import beside
from gpucommons.scheduler.advisor.history import Asked, Grade, Run
from gpucommons.scheduler.advisor.kinds import Pool, shipped
from gpucommons.scheduler.advisor.network import Traced, Transformer, Unknown
from gpucommons.scheduler.advisor.recipe import Adapters, Recipe
from gpucommons.scheduler.advisor.scaling import Seen
from gpucommons.scheduler.advisor.search import Ways

NETWORK = Transformer(
    layers=24, hidden=2048, heads=16, kv_heads=16, ffn=8192, vocabulary=50000, tied=True
)
TABLES = shipped()
KIND = TABLES.kinds["A100-80"]
POOL = Pool(
    kind=KIND,
    gpus_per_node=8,
    nodes=2,
    inside=KIND.link,
    between=TABLES.links["infiniband-800"],
)
ASK = Question(network=NETWORK, recipe=Recipe(batch=64, sequence=2048), pool=POOL, steps=1000)


def test_three_plans_and_the_plain_one_each_fit_and_say_why() -> None:
    found = advise(ASK)

    assert len(found.plans) == 3
    assert found.declined == ""
    assert {plan.verdict for plan in found.plans} == {Verdict.FITS}
    for plan in found.plans:
        assert plan.why.endswith(".")
        assert len(plan.largest) == 4
        assert plan.step_s.low < plan.step_s.middle < plan.step_s.high
        assert plan.grade is Grade.FORMULA
        assert plan.layout.data * plan.layout.micro * plan.layout.accumulation == 64
    assert found.plain is not None
    assert found.plain.layout.gpus == 8
    assert found.considered > 100
    assert found.pruned["does not divide"] > 0


def test_every_fact_that_must_change_a_plan_does() -> None:
    cases = passed()
    assert len(cases) == 6
    assert [name for name, held in cases.items() if not held] == []


def test_the_wait_counts_in_what_is_done_soonest() -> None:
    full = replace(ASK, wait_s=lambda gpus: Range(0, 0, 0) if gpus <= 4 else Range(1e6, 2e6, 3e6))
    assert advise(full).plans[0].layout.gpus <= 4
    assert advise(ASK).plans[0].layout.gpus == 16


@pytest.mark.parametrize(
    ("times", "said"), [(2.44, "2.4"), (9.96, "10"), (24.4, "24"), (360.6, "360"), (1049.0, "1000")]
)
def test_how_much_later_is_said_as_near_as_anybody_reads_it(times: float, said: str) -> None:
    first = replace(advise(ASK).plans[0], wait_s=Range(0, 0, 0))
    later = first.run_s.middle * times
    other = replace(first, run_s=Range(later, later, later))
    assert f" done after {said} times as long as the first" in beside(other, first, priced=False)


def test_what_costs_the_same_is_not_said_to_cost_0_percent_more() -> None:
    first = advise(replace(ASK, terms=Terms(price=1.0))).plans[0]
    later = first.run_s.middle * 1.3
    for wait_s, verb in ((Range(0, 0, 0), "Is likely done 30 % later"), (None, "Runs 30 % longer")):
        best = replace(first, wait_s=wait_s)
        other = replace(best, run_s=Range(later, later, later))
        assert beside(other, best, priced=True).startswith(f"{verb} than the first, the same money")
        assert ", as many GPU-hours" in beside(other, best, priced=False)
        dearer = beside(replace(best, gpu_hours=first.gpu_hours * 1.2), best, priced=False)
        assert "0 %" not in dearer.replace("20 %", "")
        assert "the first, 20 % more GPU-hours" in dearer


def test_most_gpus_is_a_limit() -> None:
    for most in (1, 3, 8):
        assert max(plan.layout.gpus for plan in advise(replace(ASK, most_gpus=most)).plans) <= most


def test_what_fits_nowhere_is_said_with_the_plain_plan_beside() -> None:
    huge = replace(NETWORK, layers=96, hidden=12288, heads=96, kv_heads=96, ffn=49152)
    found = advise(replace(ASK, network=huge, most_gpus=1))
    assert found.plans == ()
    assert found.declined == "No layout of 1 × A100-80 holds this training."
    assert found.plain is not None
    assert found.plain.verdict is Verdict.NO


def test_an_unknown_network_without_runs_is_declined_without_a_number() -> None:
    unknown = replace(ASK, network=Unknown(why="Its layers are not known."))
    found = advise(unknown)
    assert found.plans == ()
    assert found.plain is None
    assert found.declined == f"Its layers are not known. {CANNOT_SAY}"


def test_an_unknown_network_with_runs_is_planned_no_further_than_twice_their_scale() -> None:
    seen = [
        Seen(gpus=gpus, nodes=1, local_batch=64 / gpus, step_s=1.0 / gpus + 0.05)
        for gpus in (1, 2, 4)
    ]
    found = advise(replace(ASK, network=Unknown(why="Its layers are not known."), seen=seen))
    assert 1 <= len(found.plans) <= 3
    assert max(plan.layout.gpus for plan in found.plans) <= 8
    assert {plan.verdict for plan in found.plans} == {Verdict.NOT_KNOWN}
    assert {plan.grade for plan in found.plans} == {Grade.PROBE}


def test_kept_runs_move_the_plan_and_its_grade() -> None:
    asked = Asked(job="j", project="p", family="f", kind="A100-80", gpus=16)
    run = Run(
        job="j", project="p", family="f", kind="A100-80", gpus=16, measured_s=1.5, formula_s=1.0
    )
    plain, learned = (
        advise(ASK).plans[0],
        advise(replace(ASK, asked=asked, runs=[run] * 6)).plans[0],
    )
    assert learned.grade is Grade.HISTORY
    assert learned.step_s.middle == pytest.approx(1.5 * plain.step_s.middle, rel=0.05)
    assert learned.step_s.high / learned.step_s.low < plain.step_s.high / plain.step_s.low


def test_a_deadline_that_nothing_meets_is_said() -> None:
    objective = Objective.CHEAPEST_BY_DEADLINE
    hurried = advise(replace(ASK, objective=objective, deadline_s=1.0)).plans[0]
    assert hurried.why.startswith("None is likely done in time, this one soonest")
    assert hurried.layout == advise(ASK).plans[0].layout
    easy = advise(replace(ASK, objective=objective, deadline_s=1e9)).plans[0]
    assert easy.why.startswith("The cheapest that is likely done in time")


def test_without_a_price_there_is_no_money() -> None:
    assert advise(ASK).plans[0].cost is None
    priced = advise(replace(ASK, terms=Terms(price=2.5))).plans[0]
    assert priced.cost == pytest.approx(2.5 * priced.gpu_hours)


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 0},
        # Of thousands of years.
        {"steps": 10**12},
        {"most_gpus": -1},
        {"network": replace(NETWORK, layers=0)},
        {"network": replace(NETWORK, hidden=-5)},
        {"network": replace(NETWORK, vocabulary=10**12)},
        {"network": replace(NETWORK, kv_heads=99)},
        {"network": Traced(parameters=0, forward_flops=1.0, activation_bytes=1.0)},
        {"network": Traced(parameters=5, forward_flops=inf, activation_bytes=1.0)},
        {"network": Traced(parameters=5, forward_flops=1.0, activation_bytes=float("nan"))},
        {"recipe": Recipe(batch=0)},
        {"recipe": Recipe(batch=64, sequence=-1)},
        {"recipe": Recipe(batch=64, precision="half-ish")},
        {"recipe": Recipe(batch=64, optimizer="magic")},
        {"recipe": Recipe(batch=64, loss="none")},
        {"recipe": Recipe(batch=64, rank=0, adapters=Adapters.LORA)},
        {"recipe": Recipe(batch=64, bytes_per_sample=float("nan"))},
        {"recipe": Recipe(batch=64, precision="fp8")},
        {"pool": replace(POOL, nodes=0)},
        {"pool": replace(POOL, fraction=0.0)},
        {"pool": replace(POOL, background=1.0)},
        {"pool": replace(POOL, inside=replace(KIND.link, bytes_per_s=0.0))},
        {"terms": Terms(price=-1.0)},
        {"terms": Terms(price=float("nan"))},
        {"terms": Terms(interruptions_per_h=inf)},
    ],
)
def test_what_cannot_be_is_declined_with_a_sentence(changes: dict[str, object]) -> None:
    found = advise(replace(ASK, **changes))  # type: ignore[arg-type]
    assert found.plans == ()
    assert found.declined.endswith((".", "?"))


@settings(deadline=None, max_examples=25)
@given(
    gib=st.floats(2, 200),
    more=st.floats(1, 10),
    batch=st.sampled_from([8, 64, 96]),
    sharded=st.booleans(),
)
def test_more_memory_never_turns_fits_into_no(
    gib: float, more: float, batch: int, *, sharded: bool
) -> None:
    def planned(memory_gib: float) -> bool:
        kind = replace(KIND, memory_bytes=memory_gib * 2**30)
        ask = replace(
            ASK,
            recipe=Recipe(batch=batch, sequence=2048),
            pool=replace(POOL, kind=kind),
            ways=Ways(sharded=sharded),
        )
        return bool(advise(ask).plans)

    assert not planned(gib) or planned(gib * more)


@settings(deadline=None, max_examples=25)
@given(count=st.integers(0, 12), far=st.integers(0, 3))
def test_ranges_with_like_runs_lie_inside_those_without(count: int, far: int) -> None:
    asked = Asked(job="j", project="p", family="f", kind="A100-80", gpus=16)
    run = Run(
        job="j" if far < 1 else "k",
        project="p" if far < 2 else "q",
        family="f" if far < 3 else "g",
        kind="A100-80",
        gpus=16,
        measured_s=1.0,
        formula_s=1.0,
    )
    bare = advise(replace(ASK, asked=asked)).plans[0].step_s
    with_runs = advise(replace(ASK, asked=asked, runs=[run] * count)).plans[0].step_s
    assert bare.low <= with_runs.low * (1 + 1e-9)
    assert with_runs.high <= bare.high * (1 + 1e-9)


def test_saving_as_often_as_young_and_daly_say_loses_least() -> None:
    terms = Terms(interruptions_per_h=0.1, checkpoint_h=0.05, restart_h=0.1)
    assert interval_h(terms) == pytest.approx(1.0)
    assert useful_share(terms) == pytest.approx(1 - 0.05 - 0.1 * (0.5 + 0.1))
    assert useful_share(Terms()) == 1
    assert useful_share(replace(terms, interruptions_per_h=100.0)) == 0
