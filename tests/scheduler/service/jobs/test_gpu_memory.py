"""GPUs asked for by memory: the smallest slice that has it, said before anything is submitted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from service_world import CONFIG, NODES, ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import NodeId, PoolName
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.service import job_quote, leases
from gpucommons.scheduler.service.jobs import jobs, run_again

GIB = 1024


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def asked(world: ServiceWorld, gib: int, **role: object) -> models.JobRequest:
    return a_request(role={"gpu_memory_mib": gib * GIB, **role})


def submitted(world: ServiceWorld, gib: int, **role: object) -> models.JobView:
    return jobs.submit(world.service, world.principal("ann"), asked(world, gib, **role), key=None)


def test_the_smallest_slice_that_has_the_memory_is_taken_and_said_before(
    world: ServiceWorld,
) -> None:
    # A GPU of 40 GiB gives 38.8: a quarter has 9.7, a half 19.4.
    assert [submitted(world, gib).milli_gpu for gib in (9, 12, 20)] == [250, 500, 1000]
    quote = job_quote.quote_job(world.service, world.principal("ann"), asked(world, 12))
    assert quote.text.endswith(
        " 12.0 GiB of GPU memory is ½ of one A100-40 (19.4 GiB) in pool gpu."
    )
    job = submitted(world, 12)
    assert job.request is not None
    assert job.request.roles[0].gpu_memory_mib == 12 * GIB


def test_what_no_slice_has_is_refused_with_what_is_possible(world: ServiceWorld) -> None:
    with pytest.raises(Misconfigured, match=r"the largest GPU of gpu has 38.8 GiB\. Ask for that"):
        submitted(world, 64)
    with pytest.raises(Misconfigured, match=r"¼ GPU has less than 12.0 GiB .* ½ GPU is the small"):
        submitted(world, 12, milli_gpu=250)
    assert submitted(world, 12, milli_gpu=2000).milli_gpu == 2000
    listed = jobs.jobs(world.service, world.principal("ann"), jobs.JobFilter(), cursor=None).jobs
    assert len(listed) == 1


def test_of_pools_with_other_gpus_those_are_left_that_have_it_at_the_smallest_size(
    tmp_path: Path,
) -> None:
    node = next(one for one in NODES if one.devices)
    large = [replace(one, kind="H100-80", memory_mib=81920) for one in node.devices]
    named = [replace(one, device_id=type(one.device_id)(f"big-{i}")) for i, one in enumerate(large)]
    big = replace(node, node_id=NodeId("big"), pool=PoolName("big"), devices=tuple(named))
    pools = [*CONFIG["pools"], {**CONFIG["pools"][0], "name": "big"}]
    for one in CONFIG["pools"]:
        if one["name"] == node.pool:
            pools[-1] = {**one, "name": "big"}
    world = ServiceWorld(tmp_path, config={**CONFIG, "pools": pools}, nodes=[*NODES, big])
    ann = world.principal("ann")

    def pools_of(*names: str) -> models.JobView:
        request = a_request(role={"gpu_memory_mib": 12 * GIB}, pools=list(names))
        return jobs.submit(world.service, ann, request, key=None)

    both, small = pools_of("gpu", "big"), pools_of("gpu")
    assert (both.milli_gpu, both.pools) == (250, ["big"])
    assert (small.milli_gpu, small.pools) == (500, ["gpu"])


def test_again_and_another_size_keep_the_memory(world: ServiceWorld) -> None:
    ann, job = world.principal("ann"), submitted(world, 12)
    again = run_again.again(world.service, ann, job.name, key=None)
    assert (again.milli_gpu, again.request.roles[0].gpu_memory_mib) == (500, 12 * GIB)  # type: ignore[union-attr] # its owner sees it
    world.pass_time(0)
    done(jobs.pause(world.service, ann, again.id))
    world.pass_time(100_000)
    with pytest.raises(Misconfigured, match=r"½ GPU is the smallest slice that has it"):
        jobs.resize(world.service, ann, again.id, models.JobSize(milli_gpu=250))


def opened(world: ServiceWorld, gib: int) -> models.LeaseView:
    request = models.LeaseRequest(user="ann", gpu_memory_mib=gib * GIB)
    return done(leases.acquire(world.service, world.hub_service, request, key=None))


def test_a_notebook_takes_the_smallest_size_that_has_the_memory(world: ServiceWorld) -> None:
    assert opened(world, 12).milli_gpu == 500
    with pytest.raises(Misconfigured, match=r"No notebook of vision has 64.0 GiB .* has 38.8 GiB"):
        opened(world, 64)


def test_a_notebook_says_a_size_or_a_memory() -> None:
    for wrong in ({}, {"milli_gpu": 500, "gpu_memory_mib": 512}):
        with pytest.raises(ValidationError, match="one of them"):
            models.LeaseRequest(**wrong)
