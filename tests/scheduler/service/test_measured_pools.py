"""What a probe found is reckoned with: plans cross nodes where their links are known, and lies are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import a_node
from pydantic import ValidationError
from service_world import PAUSES, ServiceWorld, a_request, done

from gpucommons.scheduler import launchers, models
from gpucommons.scheduler.executors.base import Launch, Place, gang_of
from gpucommons.scheduler.service import advice
from gpucommons.scheduler.service.administration import settings
from gpucommons.scheduler.service.advice import past
from gpucommons.scheduler.service.advice.places import FRESH_MS
from gpucommons.scheduler.service.jobs import jobs

GPT: dict[str, Any] = {
    "kind": "transformer",
    "layers": 24,
    "hidden": 1024,
    "heads": 16,
    "vocabulary": 50_000,
    "tied": True,
}
FAST: dict[str, Any] = {
    "gpu_kind": "A100-40",
    "gemm_tflops": 230,
    "inside_gb_s": 220,
    "inside_us": 8,
    "between_gb_s": 90,
    "between_us": 15,
}
TEAM = {"name": "vision", "members": ["ann"], "quotas": {"gpu": {"guaranteed_milli_gpu": 8000}}}


TEAM_OF_ONE = TEAM | {"quotas": {"gpu": {"guaranteed_milli_gpu": 4000}}}


@pytest.fixture
def two_nodes(tmp_path: Path) -> ServiceWorld:
    config = {"pools": [{"name": "gpu", "executor": "fake", **PAUSES}], "teams": [TEAM]}
    nodes = tuple(a_node(name, 4, pool="gpu") for name in ("n1", "n2"))
    return ServiceWorld(tmp_path, nodes=nodes, config=config)


def measure(world: ServiceWorld, **changes: Any) -> None:
    found = {"at_ms": world.now_ms, **FAST, **changes}
    pool = {"name": "gpu", "executor": "fake", **PAUSES, "measured": found}
    config = models.ConfigModel.model_validate({"pools": [pool]})
    done(settings.put_config(world.service, world.admin, config))


def answer(world: ServiceWorld, **changes: Any) -> models.AdviceView:
    asked = {"network": GPT, "batch": 512, "sequence": 1024, "steps": 1000, **changes}
    request = models.AdviceRequest.model_validate(asked)
    found = advice.advise(world.service, world.principal("ann"), request)
    view = found if isinstance(found, models.AdviceView) else done(found)
    assert isinstance(view, models.AdviceView)
    return view


def test_plans_cross_nodes_once_their_links_are_measured(two_nodes: ServiceWorld) -> None:
    before = answer(two_nodes)
    assert max(plan.gpus for plan in before.plans) == 4
    assert any("gpucommons probe gpu" in note for note in before.notes)

    measure(two_nodes)
    first, *others = answer(two_nodes).plans

    assert (first.gpus, first.workers, first.milli_gpu) == (8, 2, 4000)
    assert first.launcher == "torchrun"
    assert (first.wait_text, first.grade) == ("none", "C")  # its cards are simulated
    assert [(plan.gpus, plan.workers) for plan in others] == [(4, 1), (2, 1)]
    assert any("as measured on" in note and "90 GB/s" in note for note in answer(two_nodes).notes)


def test_a_plan_over_two_nodes_is_placed_and_launched_as_it_says(two_nodes: ServiceWorld) -> None:
    measure(two_nodes)
    plan = answer(two_nodes).plans[0]
    role = {
        "count": plan.workers,
        "milli_gpu": plan.milli_gpu,
        "command": ["python", "train.py"],
    }
    wanted = a_request(role=role, launcher=plan.launcher, pools=[plan.pool], plan=plan.id)
    view = jobs.submit(two_nodes.service, two_nodes.principal("ann"), wanted, key=None)
    two_nodes.pass_time(1000)

    (job,) = two_nodes.cluster.workloads.values()
    assert job.current is not None
    assert {one.node_id for one in job.current.placements} == {"n1", "n2"}
    assert [len(one.device_ids) for one in job.current.placements] == [4, 4]
    launch = Launch(workload=job, attempt=job.current, token_of=lambda _: "", api_url="")
    places = [Place(address=f"host-{rank}", ports=(7000,)) for rank in range(2)]
    starts = launchers.starts(job.spec.launcher, gang_of(launch, places))
    for rank, start in enumerate(starts):
        assert start.command[:3] == ("python", "-m", "torch.distributed.run")
        words = " ".join(start.command)
        assert f"--nnodes 2 --node-rank {rank}" in words
        assert "--nproc-per-node 4" in words
    record = past.job_plan(two_nodes.service, two_nodes.principal("ann"), view.id)
    assert record.text.startswith(f"{plan.layout} on 8 × A100-40 of gpu")
    assert not any("its speed does not judge the plan" in note for note in record.notes)


def test_of_a_pool_with_one_node_nothing_is_said_of_links_between_nodes(tmp_path: Path) -> None:
    config = {"pools": [{"name": "gpu", "executor": "fake", **PAUSES}], "teams": [TEAM_OF_ONE]}
    world = ServiceWorld(tmp_path, nodes=(a_node("n1", 4, pool="gpu"),), config=config)
    assert not any("between its nodes" in note for note in answer(world).notes)


def test_of_real_cards_it_makes_a_grade_b(tmp_path: Path) -> None:
    config = {"pools": [{"name": "gpu", "executor": "fake", **PAUSES}], "teams": [TEAM]}
    nodes = tuple(a_node(name, 4, pool="gpu") for name in ("n1", "n2"))
    real = [
        replace(one, devices=tuple(replace(device, simulated=False) for device in one.devices))
        for one in nodes
    ]
    world = ServiceWorld(tmp_path, nodes=real, config=config)
    assert {plan.grade for plan in answer(world).plans} == {"C"}
    measure(world)
    assert {plan.grade for plan in answer(world).plans} == {"B"}


def test_slow_links_between_nodes_keep_the_best_plan_on_one(two_nodes: ServiceWorld) -> None:
    measure(two_nodes, between_gb_s=0.02, between_us=900)
    found = answer(two_nodes, batch=8, why_not=8)
    assert found.plans[0].workers == 1
    assert "limited by data links" in found.why_not[0].text


def test_old_links_between_nodes_beside_a_fresh_probe_are_not_crossed(
    two_nodes: ServiceWorld,
) -> None:
    measure(two_nodes)
    assert max(plan.workers for plan in answer(two_nodes).plans) == 2
    then = two_nodes.now_ms
    two_nodes.pass_time(FRESH_MS + 1)
    measure(two_nodes, between_at_ms=then)
    found = answer(two_nodes)
    assert {plan.workers for plan in found.plans} == {1}
    assert not any("more than 30 days ago" in note for note in found.notes)
    assert any("measured" in note for note in found.notes)


def test_what_was_measured_moves_the_speed(two_nodes: ServiceWorld) -> None:
    def speed() -> float:
        (one,) = (plan for plan in answer(two_nodes).plans if plan.gpus == 4)
        return one.samples_per_s.middle

    measure(two_nodes, gemm_tflops=230)
    fast = speed()
    measure(two_nodes, gemm_tflops=115)
    assert speed() < 0.8 * fast


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gemm_tflops": 5000}, "5e+03 TFLOP/s cannot be of A100-40"),
        ({"gemm_tflops": 1}, "1 TFLOP/s cannot be of A100-40"),
        ({"inside_gb_s": 0.1}, "0.1 GB/s between GPUs of a node cannot be of A100-40"),
        ({"gpu_kind": "H100-80"}, "other GPUs were measured (H100-80)"),
        ({"between_gb_s": 90_000}, "9e+04 GB/s between nodes cannot be of A100-40"),
        ({"inside_us": 999_999}, "1e+03 ms for one hop cannot be"),
        ({"between_us": 25_000}, "25 ms for one hop cannot be"),
        # However little is told, it is no number that was not looked for.
        ({"inside_gb_s": 1e-9}, "0.001 GB/s between GPUs of a node cannot be of A100-40"),
        (dict.fromkeys(("gemm_tflops", "inside_gb_s", "between_gb_s"), 0), "it names no speed"),
        ({"at_ms": 4_102_444_800_000}, "its date lies in the future"),
        (
            {"drivers": ["550.54.15"]},
            "had driver 550.54.15 then, and have a driver that nobody told now",
        ),
    ],
)
def test_a_probe_that_lies_or_is_stale_is_named_and_not_reckoned_with(
    two_nodes: ServiceWorld, changes: dict[str, Any], said: str
) -> None:
    before = answer(two_nodes)
    measure(two_nodes, **changes)
    found = answer(two_nodes)
    assert [plan.samples_per_s for plan in found.plans] == [
        plan.samples_per_s for plan in before.plans
    ]
    assert any(said in note and "gpucommons probe gpu" in note for note in found.notes)


def test_it_ages(two_nodes: ServiceWorld) -> None:
    measure(two_nodes)
    two_nodes.pass_time(FRESH_MS - 1)
    assert answer(two_nodes).plans[0].gpus == 8
    two_nodes.pass_time(2)
    found = answer(two_nodes)
    assert found.plans[0].gpus == 4
    assert any("more than 30 days ago" in note for note in found.notes)


def test_keras_stays_on_one_node(two_nodes: ServiceWorld) -> None:
    measure(two_nodes)
    assert {plan.workers for plan in answer(two_nodes, framework="keras").plans} == {1}


def test_a_file_without_it_leaves_it_and_the_configuration_shows_it(
    two_nodes: ServiceWorld,
) -> None:
    measure(two_nodes)
    pool = {"name": "gpu", "executor": "fake", **PAUSES}
    config = models.ConfigModel.model_validate({"pools": [pool]})
    done(settings.put_config(two_nodes.service, two_nodes.admin, config))
    (shown,) = settings.get_config(two_nodes.service, two_nodes.admin).pools
    assert shown.measured is not None
    kept = {"at_ms": two_nodes.now_ms, **FAST, "between_at_ms": 0, "drivers": []}
    assert shown.measured.model_dump() == kept


@pytest.mark.parametrize(
    "changes", [{"gemm_tflops": -1}, {"between_gb_s": float("inf")}, {"gpu_kind": ""}, {"x": 1}]
)
def test_numbers_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        models.MeasuredModel.model_validate({"at_ms": 1, **FAST, **changes})
