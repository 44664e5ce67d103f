"""*Start now with 2*: the waiting job itself takes another size, within the rules of its team."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_world import CONFIG, ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.errors import (
    BadRequest,
    Forbidden,
    InvalidTransition,
    Misconfigured,
    PolicyRefused,
)
from gpucommons.scheduler.service.jobs import jobs


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def waiting(world: ServiceWorld, gpus: int = 3, **changes: object) -> models.JobView:
    ann = world.principal("ann")
    for _ in range(2):
        job = jobs.submit(
            world.service, ann, a_request(role={"milli_gpu": gpus * 1000}, **changes), key=None
        )
        world.pass_time(0)
        world.pass_time(1000)
    assert jobs.job(world.service, ann, job.id).state == "queued"
    return job


def test_a_waiting_job_starts_now_with_less_under_its_own_name(world: ServiceWorld) -> None:
    ann, job = world.principal("ann"), waiting(world)
    found = done(jobs.resize(world.service, ann, job.name, models.JobSize(milli_gpu=1000)))
    assert (found.id, found.name, found.state) == (job.id, job.name, "starting")
    assert (found.milli_gpu, found.submitted_size) == (
        1000,
        models.JobSize(milli_gpu=3000, workers=1),
    )
    assert found.request is not None
    assert found.request.roles[0].milli_gpu == 1000
    assert found.reason is None  # one GPU is free: nobody is stopped for it
    assert len(jobs.jobs(world.service, ann, jobs.JobFilter(), cursor=None).jobs) == 2


def test_its_size_outlives_the_scheduler_and_what_was_submitted_is_kept(
    world: ServiceWorld,
) -> None:
    ann, job = world.principal("ann"), waiting(world)
    done(jobs.resize(world.service, ann, job.id, models.JobSize(workers=1, milli_gpu=2000)))
    stored = world.store.load().workloads
    found = next(one for one in stored.values() if one.workload_id == job.id)
    assert found.spec.roles[0].milli_gpu == 2000
    assert found.resized is not None
    assert found.resized.submitted.milli_gpu == 3000


def test_nothing_to_change_and_what_runs_are_refused_with_what_to_do(world: ServiceWorld) -> None:
    ann, job = world.principal("ann"), waiting(world)
    with pytest.raises(BadRequest, match="--gpus 2"):
        jobs.resize(world.service, ann, job.id, models.JobSize())
    with pytest.raises(InvalidTransition, match="gpucommons pause digits-1, then resize"):
        jobs.resize(world.service, ann, "digits-1", models.JobSize(milli_gpu=1000))
    with pytest.raises(Misconfigured):
        jobs.resize(world.service, ann, job.id, models.JobSize(milli_gpu=64_000))
    assert jobs.job(world.service, ann, job.id).milli_gpu == 3000


def test_only_its_owner_a_lead_and_admins_change_its_size(world: ServiceWorld) -> None:
    job = waiting(world)
    with pytest.raises(Forbidden):
        jobs.resize(world.service, world.principal("alf"), job.id, models.JobSize(milli_gpu=1000))


def test_policies_hold_for_the_new_size(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path, config={**CONFIG, "policy": {"max_workers": 2}})
    ann, job = world.principal("ann"), waiting(world)
    with pytest.raises(PolicyRefused, match="max_workers"):
        jobs.resize(world.service, ann, job.id, models.JobSize(workers=3, milli_gpu=1000))
