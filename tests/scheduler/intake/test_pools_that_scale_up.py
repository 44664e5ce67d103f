"""Pools that an autoscaler fills: what admins write, and which jobs they could ever run."""

from __future__ import annotations

import pytest
from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.resources import Growth
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.intake.configuration import plan_pools
from gpucommons.scheduler.intake.could_ever_run import check_can_run
from gpucommons.scheduler.service.configuration import config_model

GROWTH = Growth(max_nodes=2, gpus=4, cpu_milli=64_000, memory_mib=262_144, boot_ms=240_000)
WRITTEN = models.PoolModel(
    name="cloud",
    gpu_kind="A100-40",
    growth=models.GrowthModel(
        max_nodes=2, gpus=4, cpu_milli=64_000, memory_mib=262_144, boot_s=240
    ),
)


def test_what_is_written_is_what_the_core_reckons_with() -> None:
    (pool,) = plan_pools(models.ConfigModel(pools=[WRITTEN]), ("kubernetes",))
    assert pool.growth == GROWTH


def test_it_reads_back_as_it_was_written() -> None:
    (pool,) = plan_pools(models.ConfigModel(pools=[WRITTEN]), ("kubernetes",))
    (found,) = config_model(Cluster(pools={pool.name: pool})).pools
    assert models.PoolModel.model_validate_json(found.model_dump_json()).growth == WRITTEN.growth


def test_where_nothing_could_come_of_it_it_is_refused() -> None:
    with pytest.raises(Misconfigured, match="only the pools of a cluster get nodes by demand"):
        plan_pools(models.ConfigModel(pools=[WRITTEN]), ("local", "slurm"))


@pytest.mark.parametrize(
    ("gpus", "workers", "refused"),
    [
        (4, 2, None),
        (5, 1, "5 GPUs asked on one node, the largest has 4"),
        (4, 3, "12 GPUs asked by all workers together, there are 8"),
    ],
)
def test_a_job_that_template_nodes_could_run_is_taken(
    gpus: int, workers: int, refused: str | None
) -> None:
    pools = [a_pool("here"), a_pool("cloud", gpu_kind="A100-40", growth=GROWTH)]
    world = World(a_node("h1", 1, pool="here"), teams=[a_team(pool="cloud")], pools=pools)
    job = a_job("big", gpus * 1000, workers=workers, pools=(PoolName("cloud"),))
    if refused is None:
        check_can_run(job, world.cluster)
        return
    with pytest.raises(Misconfigured, match=refused):
        check_can_run(job, world.cluster)
