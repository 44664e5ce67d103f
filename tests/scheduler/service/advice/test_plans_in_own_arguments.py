"""A plan that a script of Megatron-LM or torchtitan takes is what its job is started with, on each size that it gets."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest
from builders import a_node
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.choice import argued_plan
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.executors import planned_arguments
from gpucommons.scheduler.executors.base import Launch, Place, gang_of
from gpucommons.scheduler.intake import own_arguments
from gpucommons.scheduler.service import advice
from gpucommons.scheduler.service.advice import past
from gpucommons.scheduler.service.jobs import jobs

#: 7 billion parameters: whole copies fit no GPU of 40 GB.
NETWORK: dict[str, Any] = {
    "kind": "transformer",
    "layers": 32,
    "hidden": 4096,
    "heads": 32,
    "vocabulary": 50_000,
    "tied": True,
}
TRAINING: dict[str, Any] = {"network": NETWORK, "batch": 96, "sequence": 2048, "steps": 1000}


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    config = {
        "pools": [{"name": "gpu", "executor": "fake"}],
        "teams": [
            {
                "name": "vision",
                "members": ["ann"],
                "quotas": {"gpu": {"guaranteed_milli_gpu": 8000}},
            }
        ],
    }
    node = a_node("n1", 8, pool="gpu")
    real = tuple(replace(device, simulated=False) for device in node.devices)
    return ServiceWorld(tmp_path, config=config, nodes=(replace(node, devices=real),))


def plans(world: ServiceWorld, **changes: Any) -> models.AdviceView:
    request = models.AdviceRequest.model_validate({**TRAINING, **changes})
    found = advice.advise(world.service, world.principal("ann"), request)
    view = found if isinstance(found, models.AdviceView) else done(found)
    assert isinstance(view, models.AdviceView)
    return view


def submitted(world: ServiceWorld, plan: models.PlanView, **changes: Any) -> models.JobView:
    role = {
        "milli_gpu": plan.milli_gpu,
        "count": plan.workers,
        "command": ["python", "-u", "pretrain_gpt.py", "--seed", "1"],
        **changes.pop("role", {}),
    }
    request = a_request(role=role, plan=plan.id, **{"launcher": "torchrun", **changes})
    return jobs.submit(world.service, world.principal("ann"), request, key=None)


def commands(world: ServiceWorld, job_id: str) -> list[str]:
    """Those of its newest attempt's workers, as its launcher gets them."""
    workload = world.loop.cluster.workloads[WorkloadId(job_id)]
    launch = Launch(
        workload=workload,
        attempt=workload.attempts[-1],
        token_of=lambda _: "",
        api_url="http://api",
    )
    places = [Place(address="10.0.0.1", ports=(1, 2, 3))] * len(launch.attempt.placements)
    return [" ".join(worker.command) for worker in gang_of(launch, places).workers]


def started_with(world: ServiceWorld, job_id: str) -> str:
    (command,) = commands(world, job_id)
    return command


def calls(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, told: Callable[..., Any]
) -> list[Any]:
    """What a function is asked from here on, as far as ``told`` says it; it answers as ever."""
    asked: list[Any] = []

    def counted(*args: Any) -> Any:
        asked.append(told(*args))
        return function(*args)

    function = getattr(module, name)
    monkeypatch.setattr(module, name, counted)
    return asked


def of_eight(world: ServiceWorld) -> models.PlanView:
    found = plans(world, framework="torchtitan").plans
    return next(one for one in found if one.gpus == 8)


def test_the_chosen_plan_is_what_the_script_is_started_with(world: ServiceWorld) -> None:
    found = plans(world, framework="megatron")
    plan = found.plans[0]
    assert plan.launcher == "torchrun"
    assert "--global-batch-size 96" in " ".join(plan.arguments)
    assert any("Megatron-LM has no arguments for them" in note for note in found.notes)

    job = submitted(world, plan)
    world.pass_time(0)
    assert started_with(world, job.id) == " ".join(
        ["python -u pretrain_gpt.py --seed 1", *plan.arguments]
    )


def on_four_of_eight(world: ServiceWorld, framework: str) -> tuple[str, str, str]:
    """The commands before and after, and what the job's page says of it."""
    ann = world.principal("ann")
    plan = next(one for one in plans(world, framework=framework).plans if one.gpus == 8)
    job = submitted(world, plan)
    world.pass_time(0)
    before = started_with(world, job.id)
    jobs.pause(world.service, ann, job.id)
    world.pass_time(121_000)
    jobs.resize(world.service, ann, job.id, models.JobSize(milli_gpu=4000))
    jobs.resume(world.service, ann, job.id)
    world.pass_time(1000)
    anew = past.job_plan(world.service, ann, job.id).anew
    return before, started_with(world, job.id), "" if anew is None else anew.text


def options(command: str) -> dict[str, str]:
    words = command.split()
    return dict(itertools.pairwise(words))


def test_on_other_gpus_it_is_planned_anew_with_its_global_batch(world: ServiceWorld) -> None:
    before, after, page = on_four_of_eight(world, "torchtitan")
    assert after != before
    told = options(after)
    degrees = [int(told[name]) for name in told if name.endswith("_degree")]
    assert prod(degrees) == 4
    assert prod(int(value) for name, value in options(before).items() if "_degree" in name) == 8
    assert told["--training.global_batch_size"] == "96"
    shards = int(told["--parallelism.data_parallel_shard_degree"])
    assert 96 % (shards * int(told["--training.local_batch_size"])) == 0
    assert f"Its script was started with {after.partition('--seed 1 ')[2]}." in page


def test_megatron_reckons_its_copies_itself_so_that_fewer_of_them_need_no_other_words(
    world: ServiceWorld,
) -> None:
    before, after, page = on_four_of_eight(world, "megatron")
    told = options(after)
    inner = int(told["--tensor-model-parallel-size"]) * int(told["--pipeline-model-parallel-size"])
    assert 4 % inner == 0
    assert 96 % (4 // inner * int(told["--micro-batch-size"])) == 0
    assert after == before
    assert "global batch unchanged (96)" in page


def test_a_size_that_no_layout_holds_is_refused_before_it_waits(world: ServiceWorld) -> None:
    plan = next(one for one in plans(world, framework="megatron").plans if one.gpus == 8)
    with pytest.raises(Misconfigured, match="No layout of 5 GPUs"):
        submitted(world, plan, role={"milli_gpu": 5000, "count": 1})


def test_more_sizes_than_can_be_planned_at_once_are_refused_unplanned(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = of_eight(world)
    workers = {"milli_gpu": 1000, "count": 8}
    job = submitted(world, plan, role=workers, min_workers=8, max_workers=8)
    world.pass_time(0)
    jobs.pause(world.service, world.principal("ann"), job.id)
    world.pass_time(121_000)
    asked = calls(monkeypatch, own_arguments, "argued", lambda _, n, each: n * each)
    with pytest.raises(Misconfigured, match="1 to 1024 are 1024 numbers, and 64 are possible"):
        submitted(world, plan, role=workers, min_workers=1, max_workers=1024)
    with pytest.raises(Misconfigured, match="8 to 1024 are 1017 numbers, and 64 are possible"):
        jobs.resize(world.service, world.principal("ann"), job.id, models.JobSize(workers=1024))
    assert asked == []


def test_ten_sizes_without_a_layout_are_named_and_no_more_than_one_more_is_looked_for(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = of_eight(world)
    asked = calls(monkeypatch, own_arguments, "argued", lambda _, n, each: n * each)
    with pytest.raises(Misconfigured) as refused:
        submitted(world, plan, role={"milli_gpu": 1000, "count": 8}, min_workers=1, max_workers=64)
    named = re.search(r"No layout of ([\d, ]+), … GPUs", str(refused.value))
    assert named is not None
    sizes = [int(one) for one in named[1].split(", ")]
    assert len(sizes) == 10
    assert sizes[-1] < asked[-1] < 64
    assert asked == list(range(1, asked[-1] + 1))


def test_a_size_is_planned_once_for_its_submission_and_its_start(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = of_eight(world)
    argued_plan.argued.cache_clear()
    asked = calls(monkeypatch, argued_plan, "layout_on", lambda *given: given[2:])
    job = submitted(world, plan)
    world.pass_time(0)
    started_with(world, job.id)
    assert asked == [(1, 8)]


def test_workers_of_a_role_share_one_command(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = of_eight(world)
    job = submitted(world, plan, role={"milli_gpu": 1000, "count": 8})
    world.pass_time(0)
    asked = calls(monkeypatch, planned_arguments, "with_arguments", lambda *given: given[2])
    found = commands(world, job.id)
    assert found == [" ".join(["python -u pretrain_gpt.py --seed 1", *plan.arguments])] * 8
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("framework", "own", "expected"),
    [
        ("megatron", {}, {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
        (
            "megatron",
            {"CUDA_DEVICE_MAX_CONNECTIONS": "8"},
            {"CUDA_DEVICE_MAX_CONNECTIONS": "8"},
        ),
        ("torchtitan", {"A": "1"}, {"A": "1"}),
    ],
)
def test_megatron_gets_the_variable_without_which_it_refuses_to_cut_layers(
    world: ServiceWorld, framework: str, own: dict[str, str], expected: dict[str, str]
) -> None:
    plan = plans(world, framework=framework).plans[0]
    job = submitted(world, plan, env=own)
    assert dict(world.loop.cluster.workloads[WorkloadId(job.id)].spec.env) == expected


def test_other_launchers_cannot_start_it(world: ServiceWorld) -> None:
    plan = plans(world, framework="torchtitan").plans[0]
    with pytest.raises(Misconfigured, match="choose the launcher torchrun"):
        submitted(world, plan, launcher="plain")
    development = ["python", "-m", "torchtitan.train", "--module", "llama3", "--config", "debug"]
    with pytest.raises(Misconfigured, match="arguments have other names"):
        submitted(world, plan, role={"command": development})


def test_what_the_plan_replaces_in_a_command_is_said(world: ServiceWorld) -> None:
    plan = plans(world, framework="torchtitan").plans[0]
    command = ["python", "train.py", "--training.local_batch_size", "64", "--training.steps", "9"]
    job = submitted(world, plan, role={"command": command})
    assert any("--training.local_batch_size 64 is left out" in one for one in job.warnings)
    world.pass_time(0)
    assert "--training.local_batch_size 64 " not in started_with(world, job.id)


def test_a_script_of_no_such_program_is_told_nothing(world: ServiceWorld) -> None:
    plan = plans(world, framework="torch").plans[0]
    assert plan.arguments == []
    job = submitted(world, plan)
    world.pass_time(0)
    assert started_with(world, job.id) == "python -u pretrain_gpt.py --seed 1"


@pytest.mark.parametrize(
    "command",
    [
        ["bash", "-c", "torchrun pretrain_gpt.py --micro-batch-size 4"],
        ["bash", "train.sh"],
        ["torchrun", "--max-restarts", "2", "--no_python", "bash", "-c", "python train.py"],
        ["env", "A=1", "torchrun", "--no-python", "bash", "train.sh"],
    ],
)
def test_a_command_that_would_not_hand_the_arguments_on_is_refused(
    world: ServiceWorld, command: list[str]
) -> None:
    plan = plans(world, framework="megatron").plans[0]
    with pytest.raises(Misconfigured, match="what bash starts would not be told them"):
        submitted(world, plan, role={"command": command})


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/python3 train.py",
        "env A=1 python train.py",
        "env A=1 torchrun --nproc-per-node gpu train.py",
        "torchrun --nproc-per-node auto --no-python python train.py",
    ],
)
def test_a_command_that_hands_the_arguments_on_is_taken(world: ServiceWorld, command: str) -> None:
    plan = plans(world, framework="megatron").plans[0]
    job = submitted(world, plan, role={"command": command.split()})
    world.pass_time(0)
    assert started_with(world, job.id) == " ".join([command, *plan.arguments])


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("torchrun pretrain.py", "starts 1 for each worker"),
        ("torchrun --nproc_per_node=2 pretrain.py", "starts 2 for each worker"),
        ("python -m torch.distributed.run --nproc-per-node 8", "names no script"),
    ],
)
def test_a_torchrun_of_ones_own_starts_a_process_on_each_gpu_of_the_plan(
    world: ServiceWorld, command: str, why: str
) -> None:
    plan = of_eight(world)
    each = plan.milli_gpu // 1000
    with pytest.raises(Misconfigured, match=f"{each} for each worker, and this torchrun {why}"):
        submitted(world, plan, role={"command": command.split()})
    for fits in (str(each), "gpu"):
        command = f"torchrun --nproc-per-node {fits} pretrain.py"
        assert submitted(world, plan, role={"command": command.split()}).id


def test_another_word_for_one_granularity_of_recomputing_is_replaced(world: ServiceWorld) -> None:
    plan = plans(world, framework="megatron").plans[0]
    command = ["python", "pretrain_gpt.py", "--recompute-activations"]
    job = submitted(world, plan, role={"command": command})
    world.pass_time(0)
    assert "--recompute-activations" not in started_with(world, job.id)
