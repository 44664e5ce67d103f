"""A pipeline whose step is stopped in its middle, for another team's guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from service_world import OnDemand, ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.pipelines import Pipelines
from gpucommons.scheduler.core.model.state import CheckpointReported
from gpucommons.scheduler.core.model.types import Checkpoint, State, Workload
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.service.pipelines import pipelines
from gpucommons.scheduler.service.pipelines.copies import Copies
from gpucommons.scheduler.store.base import WorkloadFilter

MINUTE = 60_000


def step_of(world: ServiceWorld, name: str) -> models.StepView:
    view = pipelines.pipeline(world.service, world.principal("ann"), "ann", "assembly-1")
    return next(one for one in view.steps if one.name == name)


def looked(world: ServiceWorld, times: int) -> None:
    """By one who died after each look and knows nothing."""
    for _ in range(times):
        Pipelines(world.service, epoch=lambda: world.loop.epoch, copies=Copies(OnDemand())).step()
        world.pass_time(2000)


def jobs_of(world: ServiceWorld, name: str) -> list[Workload]:
    return list(world.store.workloads(WorkloadFilter(name=name)).items)


def test_a_step_that_is_stopped_for_another_team_goes_on_and_each_step_runs_once(
    tmp_path: Path,
) -> None:
    world = ServiceWorld(tmp_path)

    run_ms = {"assembly-train-1": 5 * MINUTE, "claim-1": 2 * MINUTE}

    def script_of(launch: Any) -> Script:
        return Script(run_ms=run_ms.get(launch.workload.spec.name, 4000))

    world.machine.script_of = script_of
    train = a_request(role={"command": ["python", "train.py"], "milli_gpu": 4000})
    other = a_request(role={"command": ["python", "other.py"]})
    request = {
        "name": "assembly",
        "steps": [
            {"name": "clean", "job": other},
            {"name": "train", "job": train, "after": {"clean": "ok"}},
            {"name": "report", "job": other, "after": {"train": "ok"}},
        ],
    }
    ann = world.principal("ann")
    asked = models.PipelineRequest.model_validate(request)
    pipelines.submit_pipeline(world.service, ann, asked, key=None)
    looked(world, 20)
    (job,) = jobs_of(world, "assembly-train-1")
    assert job.current is not None
    assert (step_of(world, "train").job_state, step_of(world, "train").text) == ("running", "")
    saved = Checkpoint(
        attempt_id=job.current.attempt_id,
        step=113,
        path="checkpoints/step-113",
        size_bytes=1,
        sha256="0" * 64,
        at_ms=world.now_ms,
    )
    world.loop.observe(CheckpointReported(attempt_id=job.current.attempt_id, checkpoint=saved))

    claim = a_request(name="claim", team="nlp", role={"milli_gpu": 1000})
    jobs.submit(world.service, world.admin, claim, key=None)
    looked(world, 20)
    stopped = step_of(world, "train")
    assert (stopped.state, stopped.job_state) == ("submitted", "queued")
    assert stopped.text.startswith("Goes on from step 113. ")
    assert step_of(world, "report").text == "Waits for train."

    looked(world, 300)
    view = pipelines.pipeline(world.service, ann, "ann", "assembly-1")
    assert (view.state, {one.state for one in view.steps}) == ("succeeded", {"succeeded"})
    for name, attempts in (("clean", 1), ("train", 2), ("report", 1)):
        (ran,) = jobs_of(world, f"assembly-{name}-1")
        assert (ran.state, len(ran.attempts)) == (State.SUCCEEDED, attempts)
        assert jobs_of(world, f"assembly-{name}-2") == []
    (ran,) = jobs_of(world, "assembly-train-1")
    assert ran.attempts[1].resumed_from is not None
