"""The policy ``gpucommons``: the product's core itself, played by the simulation."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.quota_replay.queues import Played
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import HoldClass, WorkloadId
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.record import Record, Right
from gpucommons.scheduler.simulation.trace_cluster import POOL, Setting, simulation_of

#: The processes are gone a second after SIGTERM; all else as the comparison is defined.
CONDITIONS = Conditions(leave_ms=1_000, checkpoint_every_ms=1_800_000, restart_ms=120_000)
#: The product's defaults.
SETTINGS = Pool(name=POOL, executor="simulation")


@dataclass(frozen=True, slots=True)
class Result:
    """Jobs, and what was taken from whom."""

    played: list[Played]
    #: By job: how often it was stopped for another, and whether within its team's guarantee.
    evicted: list[tuple[int, bool]]
    #: The same for those that were moved apart: each goes on elsewhere at once.
    moved: list[tuple[int, bool]]
    lost_gpu_ms: int
    record: Record


def play(setting: Setting) -> Result:
    """Play all jobs to their end through the core."""
    simulation = simulation_of(setting, CONDITIONS, SETTINGS)
    record = simulation.run()
    number_of: dict[WorkloadId, int] = {one: i for i, one in enumerate(record.stories)}
    played = []
    for job, story in zip(setting.jobs, record.stories.values(), strict=True):
        if story.ended_ms is None or story.started_ms is None:
            raise RuntimeError(f"{story.workload_id} never ended: {story.refused}")
        offset = story.submitted_ms - job.submit_ms
        one = Played(job, started_ms=story.started_ms - offset, ended_ms=story.ended_ms - offset)
        played.append(one)
    taken: dict[bool, list[tuple[int, bool]]] = {True: [], False: []}
    for one in record.evictions:
        inside = one.hold_class is HoldClass.GUARANTEED and not one.resized
        taken[one.right is Right.MOVE].append((number_of[one.workload_id], inside))
    return Result(played, taken[False], taken[True], record.lost_milli_gpu_ms() // 1000, record)
