"""What helps against a failure depends on whether real GPUs stand behind those that a worker was given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from launches import a_launch

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder
from gpucommons.scheduler.executors.local.attempt.own_files import failure_of
from gpucommons.scheduler.executors.local.attempt.plan import Plan
from gpucommons.scheduler.executors.local.launch_plan import Surroundings, make_plan

CARD = DeviceId("GPU-0")


@pytest.mark.parametrize("simulated", [True, False])
def test_a_failure_says_whether_the_workers_gpus_are_simulated(
    tmp_path: Path, simulated: bool
) -> None:
    launch = a_launch("true", workers=2)
    without, with_gpu = launch.attempt.placements
    given = (without, replace(with_gpu, device_ids=(CARD,), milli_gpu=500))
    card = Device(device_id=CARD, index=0, kind="A100-40", memory_mib=40_000, simulated=simulated)
    around = Surroundings(
        folder=tmp_path, resume_folder=None, snapshot=None, home=tmp_path, python="python",
        ports=tuple(range(1, 9)), devices={CARD: card}, environ={},
    )  # fmt: skip
    plan = make_plan(replace(launch, attempt=replace(launch.attempt, placements=given)), around)
    read = Plan.from_json(plan.as_json())
    found = [failure_of(read, AttemptFolder(tmp_path), rank, 1).simulated for rank in (0, 1)]
    assert found == [False, simulated]
