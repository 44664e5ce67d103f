"""One person's waiting jobs are looked at together, and nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import a_node
from service_world import A_TRAINING, ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import AttemptState, State, WorkloadId
from gpucommons.scheduler.errors import Forbidden
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service import advice
from gpucommons.scheduler.service.advice.waiting_together import waiting_together
from gpucommons.scheduler.service.jobs import jobs


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    """Four GPUs, all of them in use for a week."""
    quota = {"gpu": {"guaranteed_milli_gpu": 4000}}
    config = {
        "pools": [{"name": "gpu", "executor": "fake"}],
        "teams": [{"name": "vision", "members": ["ann", "alf"], "quotas": quota}],
    }
    found = ServiceWorld(tmp_path, config=config, nodes=(a_node("n1", 4, pool="gpu"),))
    found.script = Script(run_ms=7 * 86_400_000)
    submitted(found, 4, plan=None, by="alf")
    found.pass_time(1000)
    return found


def plan_of(world: ServiceWorld, gpus: int) -> str:
    request = models.AdviceRequest.model_validate(A_TRAINING)
    found = advice.advise(world.service, world.principal("ann"), request)
    view = found if isinstance(found, models.AdviceView) else found.give_up()
    return next(one.id for one in view.plans if one.gpus == gpus)


def submitted(world: ServiceWorld, gpus: int, *, plan: str | None, by: str = "ann") -> str:
    request = a_request(role={"milli_gpu": gpus * 1000}, plan=plan, pools=["gpu"])
    return jobs.submit(world.service, world.principal(by), request, key=None).id


def test_two_jobs_of_one_gpu_each_are_done_sooner_with_more(world: ServiceWorld) -> None:
    plan = plan_of(world, 1)
    ids = [submitted(world, 1, plan=plan) for _ in range(2)]
    without = submitted(world, 1, plan=None)
    world.pass_time(1000)

    found = waiting_together(world.service, world.principal("ann"))

    (pool,) = found.pools
    assert [job.id for job in pool.jobs] == ids
    assert [job.gpus_asked for job in pool.jobs] == [1, 1]
    assert all(job.gpus > 1 for job in pool.jobs)
    assert pool.mean_s < pool.mean_as_asked_s
    assert found.text.startswith("On average your waiting jobs are done sooner")
    left_out = world.cluster.workloads[WorkloadId(without)]
    assert found.unknown == [left_out.spec.name]
    # It is only said.
    for job_id in ids:
        waits = world.cluster.workloads[WorkloadId(job_id)]
        assert (waits.state, waits.spec.roles[0].milli_gpu) == (State.QUEUED, 1000)


def test_what_cannot_be_better_is_left_as_it_was_asked(world: ServiceWorld) -> None:
    plan = plan_of(world, 1)
    for _ in range(2):
        submitted(world, 1, plan=plan)
    world.pass_time(1000)
    (pool,) = waiting_together(world.service, world.principal("ann")).pools
    for job in pool.jobs:
        done(
            jobs.resize(
                world.service,
                world.principal("ann"),
                job.id,
                models.JobSize(milli_gpu=job.gpus * 1000),
            )
        )
    world.pass_time(1000)

    again = waiting_together(world.service, world.principal("ann"))

    assert again.text == "Your waiting jobs are done soonest, on average, as they were submitted."


def test_of_many_jobs_the_first_are_looked_at_and_the_others_named(world: ServiceWorld) -> None:
    plan = plan_of(world, 1)
    ids = [submitted(world, 1, plan=plan) for _ in range(14)]
    world.pass_time(1000)

    found = waiting_together(world.service, world.principal("ann"))

    (pool,) = found.pools
    assert [job.id for job in pool.jobs] == ids[:12]
    assert found.later == [world.cluster.workloads[WorkloadId(one)].spec.name for one in ids[12:]]
    assert pool.mean_s <= pool.mean_as_asked_s
    assert not pool.is_best
    assert "not all were tried" in found.text


def test_a_job_that_ran_already_is_named_and_left_out(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(world, 1)
    ids = [submitted(world, 1, plan=plan) for _ in range(3)]
    world.pass_time(1000)
    running = next(one for one in world.cluster.workloads.values() if one.spec.owner == "alf")
    first = world.cluster.workloads[WorkloadId(ids[0])]
    lost = replace(running.attempts[0], state=AttemptState.ENDED, started_ms=running.submitted_ms)
    workloads = {**world.cluster.workloads, first.workload_id: replace(first, attempts=(lost,))}
    monkeypatch.setattr(world.loop, "_cluster", replace(world.cluster, workloads=workloads))

    found = waiting_together(world.service, world.principal("ann"))

    assert [job.id for pool in found.pools for job in pool.jobs] == ids[1:]
    assert (found.ran, found.unknown) == ([first.spec.name], [])


def test_nobody_sees_another_s_jobs_and_one_alone_is_not_compared(world: ServiceWorld) -> None:
    submitted(world, 1, plan=plan_of(world, 1))
    world.pass_time(1000)

    assert waiting_together(world.service, world.principal("alf")).pools == []
    alone = waiting_together(world.service, world.principal("ann"))
    assert (alone.pools, alone.unknown) == ([], [])
    assert alone.text.endswith("1 of yours wait.")


def test_who_may_only_read_is_refused(world: ServiceWorld) -> None:
    with pytest.raises(Forbidden):
        waiting_together(world.service, world.principal("ann", "custom:gpucommons:read!user=ann"))
