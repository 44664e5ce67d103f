"""Wherever work on GPUs shows that are simulated, it is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.service import job_quote
from gpucommons.scheduler.service.jobs import sweeps
from gpucommons.scheduler.service.pipelines import pipelines
from gpucommons.scheduler.service.schedules import schedules

SEARCH = {
    "space": {"lr": [0.1, 0.2]},
    "objective": {"metric": "accuracy"},
    "budget": {"trials": 2},
    "sampler": "grid",
}


@pytest.mark.parametrize("milli_gpu", [500, 0])
@pytest.mark.parametrize("simulated", [True, False])
def test_it_is_said_of_quotes_schedules_pipelines_and_sweeps_with_gpus(
    tmp_path: Path, milli_gpu: int, *, simulated: bool
) -> None:
    world = ServiceWorld(tmp_path)
    pools = {name: replace(one, simulated=simulated) for name, one in world.cluster.pools.items()}
    world.loop._cluster = replace(world.cluster, pools=pools)
    service, ann = world.service, world.principal("ann")
    job = a_request(role={"milli_gpu": milli_gpu, "command": ["python", "train.py"]})
    nightly = models.ScheduleRequest(schedule="@daily", job=job)
    steps = models.PipelineRequest.model_validate(
        {"name": "steps", "steps": [{"name": "a", "job": a_request()}, {"name": "b", "job": job}]}
    )
    search = models.SweepRequest.model_validate({"job": job, **SEARCH})
    said = [
        job_quote.quote_job(service, ann, job).simulated,
        schedules.put_schedule(service, ann, "ann", "nightly", nightly).simulated,
        pipelines.submit_pipeline(service, ann, steps, key=None).simulated,
        sweeps.submit_sweep(service, ann, search, key=None).simulated,
    ]
    assert said == [simulated and milli_gpu > 0] * 4
