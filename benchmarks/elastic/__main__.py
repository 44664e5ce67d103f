"""Replay a trace with rigid and with elastic jobs through the core, and say what that wins.

``python -m benchmarks.elastic --trace F.csv --load 0.85 --json OUT``

An elastic job asks for as many GPUs as in the trace, and runs on half of them to twice as many; each
worker has one GPU, under every policy. How fast it is with how many is :mod:`.speedups`, and
which mean no policy can go below is :mod:`.bound`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from benchmarks.elastic.bound import HOUR_MS, POLICIES, elastic_of, least_mean_h, speed_of
from benchmarks.quota_replay.asked import read
from benchmarks.quota_replay.core import CONDITIONS, SETTINGS
from benchmarks.quota_replay.queues import play, policy_of
from benchmarks.results import append, percentile
from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.model.types import HoldClass, Spec, WorkloadId
from gpucommons.scheduler.simulation.record import Record, Right
from gpucommons.scheduler.simulation.trace import TraceJob
from gpucommons.scheduler.simulation.trace_cluster import Setting, a_spec, simulation_of


def main(arguments: list[str] | None = None) -> int:
    """Replay and print one line per policy."""
    asked = read(arguments, name="elastic", description=__doc__, policies=POLICIES)
    setting = asked.setting
    rigid_ms = None
    for name in asked.policies:
        began = time.process_time()
        line: dict[str, Any] = {"benchmark": "elastic", "trace": asked.trace, "load": asked.load}
        line |= {"policy": name, "gpus": setting.gpus, "jobs": len(setting.jobs)}
        figures = _figures(setting, POLICIES[name])
        rigid_ms = figures["mean_completion_h"] if name == "rigid" else rigid_ms
        line |= figures
        if rigid_ms is not None:
            line["of_rigid"] = round(figures["mean_completion_h"] / rigid_ms, 3)
        line["cpu_seconds"] = round(time.process_time() - began, 1)
        append(asked.json, line)
        print(line, flush=True)
    return 0


def _figures(setting: Setting, every: int | None) -> dict[str, Any]:
    in_quota = [one.in_quota for one in play(setting, policy_of("static-fifo", setting))]
    record = _played(setting, elastic := elastic_of(setting, every))
    stories = list(record.stories.values())
    if any(one.ended_ms is None or one.started_ms is None for one in stories):
        raise RuntimeError("a job never ended")
    completion = [one.completion_ms or 0 for one in stories]
    waits = [one.wait_ms or 0 for one, inside in zip(stories, in_quota, strict=True) if inside]
    several = [one for one, job in zip(completion, setting.jobs, strict=True) if job.gpus > 1]
    alone = [one for one, job in zip(completion, setting.jobs, strict=True) if job.gpus == 1]
    changed = [one for one in record.evictions if one.resized]
    number_of = {one: number for number, one in enumerate(record.stories)}
    held = record.held(1, setting.jobs[-1].submit_ms + 1)
    return {
        "elastic_jobs": len(elastic),
        "mean_completion_h": round(sum(completion) / len(completion) / HOUR_MS, 3),
        "least_mean_h": round(least_mean_h(setting, elastic), 3),
        "mean_of_multi_gpu_h": round(sum(several) / max(1, len(several)) / HOUR_MS, 3),
        "mean_of_one_gpu_h": round(sum(alone) / max(1, len(alone)) / HOUR_MS, 3),
        "median_completion_h": round(percentile(completion, 50) / HOUR_MS, 3),
        "p99_completion_h": round(percentile(completion, 99) / HOUR_MS, 1),
        "in_quota_wait_p99_s": round(percentile(waits, 99) / 1000, 1) if waits else None,
        # Stopped whole within its guarantee, or a job that would never have waited in a partition.
        "in_quota_evictions": sum(
            (one.hold_class is HoldClass.GUARANTEED or in_quota[number_of[one.workload_id]])
            for one in record.evictions
            if not one.resized and one.right is not Right.MOVE
        ),
        "stopped_or_moved": len(record.evictions) - len(changed),
        "shrunk": len(changed),
        "changes_per_elastic_job": round(
            sum(max(0, stories[number].attempts - 1) for number in elastic) / max(1, len(elastic)),
            2,
        ),
        "utilisation_percent": round(held / 10 / (setting.gpus * setting.jobs[-1].submit_ms), 2),
        "lost_percent": round(
            100 * record.lost_milli_gpu_ms() / 1000 / sum(job.work for job in setting.jobs), 3
        ),
        "cycles": record.cycles,
    }


def _played(setting: Setting, elastic: set[int]) -> Record:
    def spec_of(job: TraceJob, number: int) -> Spec:
        spec = a_spec(replace(job, gpus=1), number)
        (role,) = spec.roles
        spec = replace(spec, roles=(replace(role, count=job.gpus),))
        if number not in elastic:
            return spec
        return replace(spec, min_workers=job.gpus // 2, max_workers=2 * job.gpus)

    def speed(workload_id: WorkloadId, milli_gpu: int) -> int:
        number = int(workload_id.rpartition("-")[2])
        if number not in elastic:
            return 0
        return speed_of(setting.jobs[number], number, milli_gpu // WHOLE_MILLI_GPU)

    simulation = simulation_of(setting, CONDITIONS, SETTINGS, spec_of=spec_of, speed_permille=speed)
    return simulation.run()


if __name__ == "__main__":
    raise SystemExit(main())
