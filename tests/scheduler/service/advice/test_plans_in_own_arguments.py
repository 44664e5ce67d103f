"""A plan that a script of Megatron-LM or torchtitan takes is what its job is started with, on each size that it gets."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest
from builders import a_node
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.executors.base import Launch, Place, gang_of
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


def started_with(world: ServiceWorld, job_id: str) -> str:
    """The command of its newest attempt, as its launcher gets it."""
    workload = world.loop.cluster.workloads[WorkloadId(job_id)]
    launch = Launch(
        workload=workload,
        attempt=workload.attempts[-1],
        token_of=lambda _: "",
        api_url="http://api",
    )
    places = [Place(address="10.0.0.1", ports=(1, 2, 3))] * len(launch.attempt.placements)
    (worker,) = gang_of(launch, places).workers
    return " ".join(worker.command)


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
