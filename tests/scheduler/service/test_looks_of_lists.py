"""Lists are asked for every few seconds: the jobs of a page are looked up together, forgotten ones too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest
from service_world import OnDemand, ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.pipelines import Pipelines
from gpucommons.scheduler.background_tasks.schedules import Schedules
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service.pipelines import pipelines
from gpucommons.scheduler.service.pipelines.copies import Copies
from gpucommons.scheduler.service.schedules import schedules

MINUTE = 60_000
NAMES = ("daily", "hourly", "nightly")


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    made = ServiceWorld(tmp_path)
    made.script = Script(run_ms=1000)
    return made


@pytest.fixture
def looks(world: ServiceWorld, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the store was asked for workloads."""
    counted: Counter[str] = Counter()
    several, one = world.store.workloads_by_id, world.store.workload

    def by_id(ids: Collection[WorkloadId]) -> dict[WorkloadId, Workload]:
        counted["several"] += 1
        return several(ids)

    def single(workload_id: WorkloadId) -> Workload | None:
        counted["one"] += 1
        return one(workload_id)

    monkeypatch.setattr(world.store, "workloads_by_id", by_id)
    monkeypatch.setattr(world.store, "workload", single)
    return counted


def forget_what_ended(world: ServiceWorld) -> None:
    world.store.prune(world.loop.epoch, before_ms=Millis(world.now_ms + 1), kept=())


def test_the_jobs_of_all_schedules_of_a_page_are_looked_up_together(
    world: ServiceWorld, looks: Counter[str]
) -> None:
    ann = world.principal("ann")
    request = models.ScheduleRequest(schedule="*/10 * * * *", job=a_request(name="digits"))
    for name in NAMES:
        schedules.put_schedule(world.service, ann, "ann", name, request)
    upkeep = Schedules(world.service, epoch=lambda: world.loop.epoch)
    for is_forgotten in (True, False):
        world.pass_time(10 * MINUTE)
        upkeep.step()
        for _ in range(6):
            world.pass_time(MINUTE)
        if is_forgotten:
            forget_what_ended(world)
    looks.clear()

    found = schedules.schedules(world.service, ann).schedules

    states = {one.name: [run.job_state for run in one.runs if run.job_id] for one in found}
    assert states == {name: ["succeeded", "forgotten"] for name in NAMES}
    assert looks == {"several": 2}, "once, and once more for those that are not there"


def test_the_jobs_of_all_pipelines_of_a_page_are_looked_up_together(
    world: ServiceWorld, looks: Counter[str]
) -> None:
    ann = world.principal("ann")
    for name in NAMES:
        step = {"name": "clean", "job": a_request()}
        request = models.PipelineRequest.model_validate({"name": name, "steps": [step]})
        pipelines.submit_pipeline(world.service, ann, request, key=None)
    upkeep = Pipelines(world.service, epoch=lambda: world.loop.epoch, copies=Copies(OnDemand()))
    for _ in range(6):
        upkeep.step()
        world.pass_time(MINUTE)
    forget_what_ended(world)
    looks.clear()

    found = pipelines.pipelines(world.service, ann).pipelines

    steps = [one.steps[0] for one in found]
    assert [(step.state, step.job_state) for step in steps] == [("succeeded", None)] * len(NAMES)
    assert looks == {"several": 2}
