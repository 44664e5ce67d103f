"""The global batch stays: what a script is told of another number of workers."""

from __future__ import annotations

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.executors import global_batch


def told(world: World, job: WorkloadId) -> tuple[str, str] | None:
    workload = world.get(job)
    assert workload.current is not None
    found = global_batch.variables(workload, workload.current)
    return (found["GPUCOMMONS_ACCUMULATION"], found["GPUCOMMONS_BATCH_SCALE"]) if found else None


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [(1, ("4", "1")), (2, ("2", "1")), (3, ("2", "0.666667")), (8, ("1", "0.5"))],
)
def test_processes_times_micro_steps_times_batch_is_always_the_same(
    gpus: int, expected: tuple[str, str]
) -> None:
    world = World(a_node(gpus=gpus), teams=[a_team()])
    job = world.run(a_job("elastic", 1000, workers=4, min_workers=1, max_workers=8))
    assert told(world, job) == expected
    assert gpus * int(expected[0]) * float(expected[1]) == pytest.approx(4, rel=1e-5)


def test_a_rigid_job_is_told_nothing() -> None:
    world = World(a_node(gpus=4), teams=[a_team()])
    assert told(world, world.run(a_job("rigid", 1000, workers=4))) is None
