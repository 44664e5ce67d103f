"""What other trainings of the hub showed is in the card of one that never ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from builders import a_node
from judged_runs import a_plan, a_run
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.learning.training import written_points
from gpucommons.scheduler.advisor.scaling import Seen
from gpucommons.scheduler.advisor.signature import UNKNOWN
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import Millis, TeamName, WorkloadId
from gpucommons.scheduler.service import advice
from gpucommons.scheduler.service.advice import past, similar_jobs
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.store.plans.base import JudgedRun

BATCH = 64


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceWorld:
    node = a_node("n1", 8, pool="gpu")
    real = tuple(replace(device, simulated=False) for device in node.devices)
    world = ServiceWorld(tmp_path, nodes=(replace(node, devices=real),))
    seen = [Seen(gpus=gpus, nodes=1, local_batch=BATCH / gpus, step_s=1.0) for gpus in (1, 2)]
    monkeypatch.setattr(similar_jobs, "seen_of", lambda *_: ({"gpu": seen}, ()))
    jobs.submit(
        world.service,
        world.principal("ann"),
        a_request(name="mine", role={"milli_gpu": 1000}),
        key=None,
    )
    return world


def told(world: ServiceWorld, name: str, steps: Sequence[float]) -> JudgedRun:
    """A training without a formula whose steps took so long on 1, 2, 4 and 8 GPUs."""
    seen = [
        Seen(gpus=gpus, nodes=1, local_batch=BATCH / gpus, step_s=step_s)
        for gpus, step_s in zip((1, 2, 4, 8), steps, strict=True)
    ]
    (node,) = world.loop.cluster.nodes.values()
    plan = a_plan(
        gpu_kind=node.devices[0].kind,
        pool="gpu",
        batch=BATCH,
        gpus=8,
        family=UNKNOWN,
        signature=f"like {name}",
        training=written_points(seen[:3]),
    )
    run = a_run(int.from_bytes(name.encode()), plan=plan, gpus=8, pool="gpu", step_s=steps[-1])
    run = replace(run, team=TeamName("vision"), ended_ms=Millis(world.now_ms))
    run = replace(run, actual=replace(run.actual, environment="", held_milli_gpu_ms=10**12))
    return replace(run, workload_id=WorkloadId(f"w-{name}"))


def speed(world: ServiceWorld, gpus: int = 4) -> float:
    network = {"kind": "unknown", "like": ["mine-1"]}
    request = models.AdviceRequest.model_validate(
        {"network": network, "batch": BATCH, "steps": 100}
    )
    found = advice.advise(world.service, world.principal("ann"), request)
    view = found if isinstance(found, models.AdviceView) else done(found)
    assert isinstance(view, models.AdviceView)
    return next(plan for plan in view.plans if plan.gpus == gpus).samples_per_s.middle


def test_other_trainings_that_stopped_gaining_make_four_gpus_slower_on_the_card(
    world: ServiceWorld,
) -> None:
    alone = speed(world)
    slow = [told(world, name, (1.0, 1.0, 1.6, 2.6)) for name in "abc"]
    world.store.plans.judge(world.loop.epoch, slow)
    assert speed(world) < 0.95 * alone


def test_those_of_another_environment_or_on_simulated_gpus_say_nothing(world: ServiceWorld) -> None:
    alone = speed(world)
    slow = [told(world, name, (1.0, 1.0, 1.6, 2.6)) for name in "abc"]
    elsewhere = [replace(one, actual=replace(one.actual, environment="other")) for one in slow]
    simulated = [replace(one, plan=replace(one.plan, simulated=True)) for one in slow]
    for strange in (elsewhere, simulated):
        world.store.plans.judge(world.loop.epoch, strange)
        assert speed(world) == pytest.approx(alone)


def with_driver(world: ServiceWorld, driver: str) -> None:
    (node,) = world.loop.cluster.nodes.values()
    world.loop.observe(NodesObserved(executor="fake", nodes=(replace(node, driver=driver),)))
    world.loop.cycle()


def notes(world: ServiceWorld) -> list[str]:
    request = models.AdviceRequest.model_validate(
        {"network": {"kind": "unknown", "like": ["mine-1"]}, "batch": BATCH, "steps": 100}
    )
    found = advice.advise(world.service, world.principal("ann"), request)
    view = found if isinstance(found, models.AdviceView) else done(found)
    assert isinstance(view, models.AdviceView)
    return view.notes


@pytest.mark.parametrize("then", [("550.54.15",), ("550.54.15", "580.95.05"), ("",), ()])
def test_history_of_another_driver_or_of_an_unknown_one_says_nothing_and_that_is_said(
    world: ServiceWorld, then: tuple[str, ...]
) -> None:
    with_driver(world, "580.95.05")
    alone = speed(world)
    slow = [told(world, name, (1.0, 1.0, 1.6, 2.6)) for name in "abc"]
    world.store.plans.judge(
        world.loop.epoch, [replace(one, actual=replace(one.actual, drivers=then)) for one in slow]
    )
    assert speed(world) == pytest.approx(alone)
    assert any("3 earlier runs" in note and "580.95.05" in note for note in notes(world))

    same = [replace(one, actual=replace(one.actual, drivers=("580.95.05",))) for one in slow]
    world.store.plans.judge(world.loop.epoch, same)
    assert speed(world) < 0.95 * alone
    assert not any("earlier run" in note for note in notes(world))


def test_an_attempt_keeps_the_driver_that_its_nodes_had_when_it_began(world: ServiceWorld) -> None:
    with_driver(world, "550.54.15")
    request = a_request(name="other", role={"milli_gpu": 1000})
    ann = world.principal("ann")
    job = jobs.submit(world.service, ann, request, key=None)
    world.loop.cycle()
    with_driver(world, "580.95.05")
    (attempt,) = jobs.job(world.service, ann, job.id).attempts
    assert attempt.drivers == ["550.54.15"]


def test_the_same_runs_are_worked_out_once(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.store.plans.judge(world.loop.epoch, [told(world, "a", (1.0, 1.0, 1.0, 1.0))])
    first = speed(world)
    monkeypatch.setattr("gpucommons.scheduler.service.advice.lessons._worked_out", None)
    assert speed(world) == first


def test_what_an_older_release_kept_of_the_same_training_says_more_than_of_another(
    world: ServiceWorld,
) -> None:
    """It has a formula's seconds, and neither network nor driver."""
    gpt = {"kind": "transformer", "layers": 24, "hidden": 1024, "heads": 16, "vocabulary": 50_000}
    asked = {"network": gpt, "batch": BATCH, "sequence": 1024, "steps": 100}
    request, ann = models.AdviceRequest.model_validate(asked), world.principal("ann")
    (job,) = world.loop.cluster.workloads.values()
    mine = past.like(world.service, ann, request, job.spec)
    (node,) = world.loop.cluster.nodes.values()

    def width(signature: str, ended_ms: int) -> float:
        kind = node.devices[0].kind
        plan = a_plan(gpu_kind=kind, pool="gpu", family=mine.family, signature=signature)
        runs = [a_run(number, plan=plan, pool="gpu", step_s=4.4) for number in (1, 2, 3)]
        runs = [
            replace(
                run,
                team=mine.team,
                ended_ms=Millis(ended_ms),
                actual=replace(run.actual, environment=mine.environment),
            )
            for run in runs
        ]
        world.store.plans.judge(world.loop.epoch, runs)
        found = advice.advise(world.service, ann, request)
        view = found if isinstance(found, models.AdviceView) else done(found)
        assert isinstance(view, models.AdviceView)
        said = view.plans[0].samples_per_s
        return said.high / said.low

    of_another = width("another one", world.now_ms - 1)
    assert width(mine.signature, world.now_ms) < 0.98 * of_another


def test_a_job_is_the_same_training_by_its_name_and_by_its_id(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    job = jobs.job(world.service, ann, "mine-1")
    spec = world.loop.cluster.workloads[WorkloadId(job.id)].spec

    def signature(ref: str) -> str:
        network = {"kind": "unknown", "like": [ref]}
        asked = models.AdviceRequest.model_validate({"network": network, "batch": 1, "steps": 1})
        return past.like(world.service, ann, asked, spec).signature

    assert signature("mine-1") == signature(job.id)


def test_runs_that_a_wrong_clock_ended_in_the_future_teach_nothing_until_then_and_that_is_said(
    world: ServiceWorld,
) -> None:
    alone = speed(world)
    slow = [told(world, name, (1.0, 1.0, 1.6, 2.6)) for name in "abc"]
    next_month = Millis(world.now_ms + 30 * 86_400_000)
    world.store.plans.judge(world.loop.epoch, [replace(one, ended_ms=next_month) for one in slow])
    assert speed(world) == pytest.approx(alone)
    assert any("3 earlier runs" in note and "not over yet" in note for note in notes(world))

    world.store.plans.judge(world.loop.epoch, slow)
    assert speed(world) < 0.95 * alone
    assert not any("earlier run" in note for note in notes(world))
