"""Plans for a training that is not submitted: what fits, when it would start, and why not more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import a_node
from pydantic import ValidationError
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.demand import every_size
from gpucommons.scheduler.core.model.intents import SetBudget
from gpucommons.scheduler.core.model.price_and_budget import Budget, BudgetPolicy
from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.forecast.forecaster import Forecaster
from gpucommons.scheduler.service import advice
from gpucommons.scheduler.service.jobs import jobs

#: 350 million parameters, 512 sequences of 1,024 tokens a step.
GPT: dict[str, Any] = {
    "kind": "transformer",
    "layers": 24,
    "hidden": 1024,
    "heads": 16,
    "vocabulary": 50_000,
    "tied": True,
}
TRAINING: dict[str, Any] = {"network": GPT, "batch": 512, "sequence": 1024, "steps": 1000}


def asked(**changes: Any) -> models.AdviceRequest:
    return models.AdviceRequest.model_validate({**TRAINING, **changes})


@pytest.fixture
def wide(tmp_path: Path) -> ServiceWorld:
    """One node with four GPUs of a known kind, none of them in use."""
    return ServiceWorld(tmp_path, nodes=(a_node("n1", 4, pool="gpu"), a_node("c1", 0, pool="cpu")))


def answer(
    world: ServiceWorld, request: models.AdviceRequest, by: str = "ann"
) -> models.AdviceView:
    found = advice.advise(world.service, world.principal(by), request)
    view = found if isinstance(found, models.AdviceView) else done(found)
    assert isinstance(view, models.AdviceView)
    return view


def test_plans_that_start_now_have_no_wait_and_say_what_the_script_must_do(
    wide: ServiceWorld,
) -> None:
    found = answer(wide, asked())

    assert [plan.gpus for plan in found.plans] == [4, 2, 1]
    first = found.plans[0]
    assert (first.wait_text, first.wait_s) == ("none", models.RangeView(low=0, middle=0, high=0))
    assert (first.workers, first.milli_gpu, first.launcher) == (1, 4000, "torchrun")
    assert found.plans[2].launcher == "plain"
    assert first.grade == "C"
    assert first.verdict in ("fits", "tight")
    assert 0 < first.memory_mib <= first.available_mib
    assert first.tokens_per_s is not None
    assert first.finish_s is not None
    assert first.finish_s.low < first.finish_s.middle < first.finish_s.high
    assert any("at once on each GPU" in line for line in first.script)
    assert found.plain is not None
    assert found.plain.layout.startswith("DDP × 4")
    assert found.considered > 100
    assert found.why_not[0].gpus == 8
    assert found.why_not[0].text.startswith("The largest node of gpu has 4 GPUs")


def test_nobody_is_told_why_not_of_a_plan_that_is_offered(wide: ServiceWorld) -> None:
    cheapest = answer(wide, asked(objective="cheapest"))
    assert [plan.gpus for plan in cheapest.plans] == [1, 2, 4]
    assert [one.gpus for one in cheapest.why_not] == [8]

    (said,) = answer(wide, asked(objective="cheapest", why_not=2)).why_not
    assert said.text.startswith("This is plan 2. It would run ")


def test_a_wait_is_that_of_the_queue_s_forecast(wide: ServiceWorld) -> None:
    ann = wide.principal("ann")
    long = a_request(role={"milli_gpu": 3000, "command": ["true"]}, max_run_s=3600)
    jobs.submit(wide.service, ann, long, key=None)
    wide.loop.cycle()
    forecaster = Forecaster(wide.loop, wide.store, now_ms=lambda: wide.now_ms, why_not=every_size)
    service = replace(wide.service, forecasts=forecaster)

    pending = advice.advise(service, ann, asked())
    assert not isinstance(pending, models.AdviceView)
    assert pending.probe() is None
    meanwhile = pending.give_up()
    forecaster.round()
    told = pending.probe()

    assert told is not None
    waits = {plan.gpus: plan for plan in told.plans}
    assert waits[1].wait_text == "none"
    assert waits[4].wait_s is not None
    assert 0 < waits[4].wait_s.high <= 3600
    assert waits[4].wait_text not in ("none", "not known")
    # More than the whole guarantee, one GPU, is borrowed whenever it starts.
    assert waits[4].hold_class == "over-quota"
    vague = {plan.gpus: plan for plan in meanwhile.plans}[4]
    assert (vague.wait_text, vague.wait_s, vague.finish_s) == ("not known", None, None)
    # Nobody's own forecast has changed by the question.
    assert len(wide.cluster.workloads) == 1


def test_a_wait_that_a_budget_decides_names_the_budget(wide: ServiceWorld) -> None:
    vision = TeamName("vision")
    budget = Budget(milli_gpu_h=1, at_full=BudgetPolicy.NO_NEW_JOBS)
    spent = "vision has used up its May budget."
    wide.service.ask(wide.admin, SetBudget(team=vision, budget=budget, spent=spent))
    wide.loop.cycle()

    found = answer(wide, asked())

    assert {plan.wait_text for plan in found.plans} == {"not known"}
    assert all("used up its May budget" in plan.wait_note for plan in found.plans)


def test_a_model_that_is_not_known_gets_no_number(wide: ServiceWorld) -> None:
    found = answer(wide, asked(network={"kind": "unknown", "why": "Its layers could not be read."}))

    assert found.declined == (
        "Its layers could not be read. Can't say yet. Try 2 minutes on one GPU?"
    )
    # Each surface says how that is asked there.
    assert found.try_like
    assert (found.plans, found.plain, found.why_not) == ([], None, [])


def test_the_objective_changes_the_order_and_the_sentence(wide: ServiceWorld) -> None:
    cheapest = answer(wide, asked(objective="cheapest"))
    assert cheapest.plans[0].gpus == 1
    assert cheapest.plans[0].why.startswith("Takes the least GPU-hours")

    late = answer(wide, asked(objective="cheapest_by_deadline", deadline_ms=wide.now_ms + 1000))
    assert late.plans[0].why.startswith("None is likely done in time")
    with pytest.raises(Misconfigured, match="over already"):
        answer(wide, asked(objective="cheapest_by_deadline", deadline_ms=wide.now_ms))


def test_what_a_submit_would_refuse_is_no_plan(tmp_path: Path) -> None:
    config = {
        "pools": [{"name": "gpu", "executor": "fake"}],
        "teams": [
            {
                "name": "vision",
                "members": ["ann"],
                "policy": {"max_milli_gpu_per_job": 2000},
                "quotas": {"gpu": {"guaranteed_milli_gpu": 1000}},
            }
        ],
    }
    world = ServiceWorld(tmp_path, nodes=(a_node("n1", 4, pool="gpu"),), config=config)
    found = answer(world, asked(why_not=4))

    assert sorted(plan.gpus for plan in found.plans) == [1, 2]
    assert "max_milli_gpu_per_job" in found.why_not[0].text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"precision": "fp7"}, "Precision 'fp7' is none of"),
        ({"precision": "torch.bfloat16"}, "Precision 'torch.bfloat16' is none of amp, "),
        ({"precision": "FP16"}, "Precision 'FP16' is none of"),
        ({"optimizer": "lion9"}, "Optimizer 'lion9' is none of"),
        ({"network": {**GPT, "kv_heads": 99}}, "More heads or experts are used than there are."),
        (
            {
                "network": {
                    "kind": "traced",
                    "parameters": 10,
                    "forward_flops": 0.0,
                    "activation_bytes": 0.0,
                }
            },
            "The trace counted no work",
        ),
        ({"network": {**GPT, "layers": 1000, "hidden": 65_536}}, "No layout of 4 × A100"),
    ],
)
def test_what_cannot_be_is_declined_with_a_sentence(
    wide: ServiceWorld, changes: dict[str, Any], said: str
) -> None:
    found = answer(wide, asked(**changes))
    assert found.declined.startswith(said), found.declined
    assert found.plans == []


def test_gpus_that_the_table_lacks_are_named(tmp_path: Path) -> None:
    node = a_node("n1", 4, pool="gpu")
    strange = replace(node, devices=tuple(replace(d, kind="ZX-7") for d in node.devices))
    found = answer(ServiceWorld(tmp_path, nodes=(strange,)), asked())
    assert found.declined.startswith("What ZX-7 (pool gpu) computes per second is not in the table")


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 0},
        {"batch": 10**9},
        {"steps": -1},
        {"sequence": True},
        {"network": {**GPT, "hidden": 10**9}},
        {"network": {**GPT, "weights": "x"}},
        {"bytes_per_sample": float("nan")},
        {"precision": "=cmd()"},
        {"network": {"kind": "pickle"}},
    ],
)
def test_sizes_are_bounded_before_anything_is_reckoned(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        asked(**changes)


def test_a_deadline_is_said_where_it_counts() -> None:
    with pytest.raises(ValidationError, match="by when it is to be done: deadline_ms"):
        asked(objective="cheapest_by_deadline")


def test_a_transformer_has_its_tokens_said() -> None:
    with pytest.raises(ValidationError, match="how many tokens a sample"):
        models.AdviceRequest.model_validate({"network": GPT, "batch": 8, "steps": 10})
