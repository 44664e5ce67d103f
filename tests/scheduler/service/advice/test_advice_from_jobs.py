"""A training of which nothing else is known: what its first minutes showed is what is said of the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import a_node
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.choice.advise import NOT_TOLD
from gpucommons.scheduler.advisor.kinds import shipped
from gpucommons.scheduler.core.model.types import Millis, PoolName, WorkloadId
from gpucommons.scheduler.errors import Forbidden, UnknownWorkload
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service import advice
from gpucommons.scheduler.service.advice.places import Place, place_of
from gpucommons.scheduler.service.advice.similar_jobs import seen_of
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.store.base import LogPoint

BATCH = 64


def world_of(path: Path, *, simulated: bool = False) -> ServiceWorld:
    node = a_node("n1", 4, pool="gpu")
    devices = tuple(replace(device, simulated=simulated) for device in node.devices)
    return ServiceWorld(path, nodes=(replace(node, devices=devices), a_node("c1", 0, pool="cpu")))


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return world_of(tmp_path)


def tried(world: ServiceWorld, *, milli_gpu: int, step_ms: int, unit: str = "step") -> str:
    """A job of two minutes that tells its steps."""
    world.script = Script(run_ms=120_000)
    request = a_request(role={"milli_gpu": milli_gpu, "command": ["true"]})
    job = jobs.submit(world.service, world.principal("ann"), request, key=None)
    world.pass_time(0)
    points = [
        LogPoint(
            attempt_number=1, step=step, at_ms=Millis(world.now_ms + step * step_ms), unit=unit
        )
        for step in range(1, 120_000 // step_ms)
    ]
    world.store.add_points(world.loop.epoch, {WorkloadId(job.id): points})
    world.pass_time(180_000)
    return job.name


def asked(world: ServiceWorld, *like: str, by: str = "ann") -> models.AdviceView:
    network: dict[str, Any] = {"kind": "unknown", "like": list(like)}
    request = models.AdviceRequest.model_validate(
        {"network": network, "batch": BATCH, "steps": 10_000}
    )
    found = advice.advise(world.service, world.principal(by), request)
    view = found if isinstance(found, models.AdviceView) else done(found)
    assert isinstance(view, models.AdviceView)
    return view


def test_two_minutes_on_one_gpu_say_how_it_runs_on_one_and_two(world: ServiceWorld) -> None:
    found = asked(world, tried(world, milli_gpu=1000, step_ms=2000))

    assert found.declined == ""
    plans = {plan.gpus: plan for plan in found.plans}
    # Twice the scale that was seen, and no further.
    assert sorted(plans) == [1, 2]
    one, two = plans[1].samples_per_s, plans[2].samples_per_s
    assert one.low < BATCH / 2.0 < one.high
    assert one.middle < two.middle < 2 * one.middle
    assert (plans[1].grade, plans[1].verdict) == ("B", "not known")


def test_more_jobs_reach_further_and_their_own_speed_is_what_is_said(world: ServiceWorld) -> None:
    slow = [tried(world, milli_gpu=1000, step_ms=2000), tried(world, milli_gpu=2000, step_ms=1500)]
    found = asked(world, *slow)

    plans = {plan.gpus: plan for plan in found.plans}
    assert sorted(plans) == [1, 2, 4]
    assert plans[2].samples_per_s.low < BATCH / 1.5 < plans[2].samples_per_s.high


def test_what_a_job_showed_with_another_driver_is_not_reckoned_with(world: ServiceWorld) -> None:
    job = tried(world, milli_gpu=1000, step_ms=2000)
    world.machine.nodes = tuple(replace(one, driver="580.95.05") for one in world.machine.nodes)
    world.pass_time(60_000)
    found = asked(world, job)
    assert found.declined != ""
    assert "with the driver that they have now" in " ".join(found.notes)


def test_what_a_job_showed_says_nothing_of_the_same_gpus_with_another_driver(
    world: ServiceWorld,
) -> None:
    network = {"kind": "unknown", "like": [tried(world, milli_gpu=1000, step_ms=2000)]}
    request = models.AdviceRequest.model_validate({"network": network, "batch": BATCH, "steps": 1})
    place = place_of(world.loop.cluster, PoolName("gpu"), shipped())
    assert isinstance(place, Place)
    other = replace(place, name=PoolName("other"), drivers=("580.95.05",))
    seen, notes = seen_of(world.service, world.principal("ann"), request, [place, other])
    assert {pool: len(points) for pool, points in seen.items()} == {"gpu": 1, "other": 0}
    assert notes == ()


def test_a_job_that_tells_nothing_of_it_is_named_with_the_reason(world: ServiceWorld) -> None:
    job = tried(world, milli_gpu=1000, step_ms=2000, unit="epoch")
    found = asked(world, job)

    # It was tried already: to try is no advice any more.
    assert found.declined.endswith(NOT_TOLD)
    assert found.notes == [
        f"{job} says nothing of this training's speed: it counts in epochs, not in steps of the"
        " optimizer. Let its script print each step with a metric, as in `step 10 loss 0.4`, and run"
        " it again."
    ]


def test_simulated_gpus_say_nothing_of_real_ones(tmp_path: Path) -> None:
    world = world_of(tmp_path, simulated=True)
    found = asked(world, tried(world, milli_gpu=1000, step_ms=2000))

    assert "Can't say yet." in found.declined
    assert "it told too few steps on real GPUs of these pools" in found.notes[0]


def test_jobs_of_others_are_not_told_by_this_way(world: ServiceWorld) -> None:
    job = tried(world, milli_gpu=1000, step_ms=2000)

    with pytest.raises((UnknownWorkload, Forbidden)):
        asked(world, job, by="bob")
    with pytest.raises(UnknownWorkload):
        asked(world, "never-was")
