"""Which mean completion time no policy can go below: how much of a goal there is to be had at all.

``python -m benchmarks.elastic.bound --trace F.csv --load 0.85 --json OUT`` prints it in a second, without a
replay. Nodes, quotas and the cost of changes are left out, and all jobs are known beforehand, so it is
below what can be had in truth.

A job's *middle* is the mean of the times at which its parts are worked on. It ends no sooner than half of
its shortest run after its middle. The sum of all middles is least where the whole cluster works at the job
with the least GPU time of those that are there (Goemans et al., 2002, "Single machine scheduling with
release dates": one machine as fast as all GPUs). Nor is a mean below that of the shortest runs.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

from benchmarks.elastic.speedups import speed_permille, training_of
from benchmarks.quota_replay.asked import read
from benchmarks.results import append
from gpucommons.scheduler.simulation.trace import TraceJob
from gpucommons.scheduler.simulation.trace_cluster import Setting

HOUR_MS = 3_600_000
#: Of how many multi-GPU jobs one is elastic.
POLICIES = {"rigid": None, "half elastic": 2, "all elastic": 1}


def elastic_of(setting: Setting, every: int | None) -> set[int]:
    """Numbers of the jobs whose size may change."""
    if every is None:
        return set()
    several = (number for number, job in enumerate(setting.jobs) if job.gpus > 1)
    return {number for number in several if number % every == 0}


def speed_of(job: TraceJob, number: int, gpus: int) -> int:
    """How fast it is on so many GPUs, of 1000 on as many as it asked for."""
    return speed_permille(training_of(job.work / HOUR_MS, number), job.gpus, gpus)


def least_mean_h(setting: Setting, elastic: Collection[int]) -> float:
    """The larger of both bounds, in hours."""
    needs, shortest = [], []
    for number, job in enumerate(setting.jobs):
        sizes = range(job.gpus // 2, 2 * job.gpus + 1) if number in elastic else (job.gpus,)
        speeds = {
            gpus: speed_of(job, number, gpus) / 1000 if number in elastic else 1 for gpus in sizes
        }
        needs.append(min(job.run_ms * gpus / speed for gpus, speed in speeds.items()))
        shortest.append(min(job.run_ms / speed for speed in speeds.values()))
    waits = _middles_ms([job.submit_ms for job in setting.jobs], needs, setting.gpus)
    count = len(setting.jobs) * HOUR_MS
    return max(sum(shortest), sum(waits) + sum(shortest) / 2) / count


def _middles_ms(submits: list[int], needs: list[float], gpus: int) -> list[float]:
    """From each submit to the job's middle; the least GPU time first, interrupted by what needs less."""
    left, middles = list(needs), [0.0] * len(needs)
    there: list[tuple[float, int]] = []
    for number, submit_ms in enumerate(submits):
        heappush(there, (needs[number], number))
        now_ms = float(submit_ms)
        until_ms = submits[number + 1] if number + 1 < len(submits) else float("inf")
        while there and now_ms < until_ms:
            _, one = there[0]
            takes_ms = min(left[one] / gpus, until_ms - now_ms)
            part = takes_ms * gpus / needs[one]
            middles[one] += part * (now_ms + takes_ms / 2 - submits[one])
            left[one] -= takes_ms * gpus
            now_ms += takes_ms
            if left[one] <= 1e-6 * needs[one]:
                heappop(there)
    return middles


def main() -> int:
    """One line per policy."""
    asked = read(None, name="elastic.bound", description=__doc__, policies=POLICIES)
    for name in asked.policies:
        least = least_mean_h(asked.setting, elastic_of(asked.setting, POLICIES[name]))
        line = {"benchmark": "elastic.bound", "trace": asked.trace, "load": asked.load}
        line |= {"policy": name, "jobs": len(asked.setting.jobs), "gpus": asked.setting.gpus}
        line |= {"least_mean_h": round(least, 2)}
        append(asked.json, line)
        print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
