"""GPUs in use of a sweep are the ledger's: what is drawn once is never another later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.sweeps import Sweeps
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service.jobs import sweeps


@pytest.mark.parametrize("begins_s", [0, 3, 41, 58])
def test_a_minute_that_the_ledger_has_not_is_not_drawn_as_if_trials_had_no_gpu(
    tmp_path: Path, begins_s: int
) -> None:
    world = ServiceWorld(tmp_path)
    world.pass_time(60_000 - world.now_ms % 60_000 + 1000 * begins_s)

    def script_of(launch: Any) -> Script:
        # One ends in the first minute, beside those that go on.
        return Script(run_ms=20_000 if launch.workload.spec.name.endswith("-1") else 150_000)

    world.machine.script_of = script_of
    ann = world.principal("ann")
    asked = models.SweepRequest.model_validate(
        {
            "job": a_request(name="search", role={"milli_gpu": 1000, "cpu_milli": 1000}),
            "given": [{"seed": 1}, {"seed": 2}, {"seed": 3}],
        }
    )
    made = sweeps.submit_sweep(world.service, ann, asked, key=None)
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    drawn: list[dict[int, int]] = []
    for _ in range(300):
        upkeep.step()
        world.pass_time(1000)
        figures = sweeps.figures(world.service, ann, made.id)
        drawn.append({one.at_ms: one.milli_gpu for one in figures.gpus})

    last = drawn[-1]
    assert sweeps.sweep(world.service, ann, made.id).ended_ms is not None
    assert max(last.values()) >= 2000
    for one in drawn:
        known = {at_ms: last.get(at_ms, 0) for at_ms in one}
        # Of the last moment on it is told that nothing was held, until more is known.
        assert one == known
