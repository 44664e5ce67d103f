"""Replay a trace under several policies: utilisation, completion times and what a guarantee is worth.

``python -m benchmarks.quota_replay --trace F.csv --load 0.85 --json OUT``
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.quota_replay import core
from benchmarks.quota_replay.asked import read
from benchmarks.quota_replay.queues import Played, play, policy_of
from benchmarks.results import percentile, write
from gpucommons.scheduler.simulation.trace_cluster import Setting

POLICIES = ("static-fifo", "static-skip", "shared-fifo", "borrow", "gpucommons")
HOUR_MS = 3_600_000


def main(arguments: list[str] | None = None) -> int:
    """Replay and print one line per policy."""
    asked = read(arguments, name="quota_replay", description=__doc__, policies=POLICIES)
    setting = asked.setting
    static = play(setting, policy_of("static-fifo", setting))
    in_quota = [one.in_quota for one in static]
    lines = []
    for name in asked.policies:
        began = time.process_time()
        line = {"benchmark": "quota_replay", "trace": asked.trace, "load": asked.load}
        line |= {"policy": name, "gpus": setting.gpus, "jobs": len(setting.jobs)}
        line |= {"in_quota_jobs": sum(in_quota), "shrunk_jobs": setting.shrunk}
        line |= _figures(name, setting, in_quota)
        line["cpu_seconds"] = round(time.process_time() - began, 1)
        lines.append(line)
        print(line, flush=True)
    write(asked.json, lines)
    return 0


def _figures(name: str, setting: Setting, in_quota: list[bool]) -> dict[str, Any]:
    work = sum(job.work for job in setting.jobs)
    if name != "gpucommons":
        found = _of_jobs(play(setting, policy_of(name, setting)), setting, in_quota)
        return found | {
            "in_quota_evictions": 0,
            "evictions": 0,
            "lost_gpu_h": 0.0,
            "lost_percent": 0.0,
        }
    result = core.play(setting)
    found = _of_jobs(result.played, setting, in_quota)
    held = result.record.held(1, setting.jobs[-1].submit_ms + 1)
    found["utilisation_percent"] = round(held / 10 / _capacity(setting), 2)
    rights: dict[str, int] = {}
    for one in result.record.evictions:
        rights[one.right.value] = rights.get(one.right.value, 0) + 1
    return found | {
        # Stopped within its guarantee, or a job that would never have waited in a partition.
        "in_quota_evictions": sum(inside or in_quota[job] for job, inside in result.evicted),
        "in_quota_moves": sum(inside or in_quota[job] for job, inside in result.moved),
        "evictions": len(result.evicted) + len(result.moved),
        "evictions_by_right": rights,
        "lost_gpu_h": round(result.lost_gpu_ms / HOUR_MS, 1),
        "lost_percent": round(100 * result.lost_gpu_ms / work, 4),
        "cycles": result.record.cycles,
    }


def _capacity(setting: Setting) -> int:
    """GPU·ms up to the last submission."""
    return max(1, setting.gpus * setting.jobs[-1].submit_ms)


def _of_jobs(played: list[Played], setting: Setting, in_quota: list[bool]) -> dict[str, Any]:
    last = setting.jobs[-1].submit_ms
    complete, waits, busy = [], [], 0
    for one, inside in zip(played, in_quota, strict=True):
        started, ended = one.started_ms or 0, one.ended_ms or 0
        complete.append(ended - one.job.submit_ms)
        if inside:
            waits.append(started - one.job.submit_ms)
        busy += one.job.gpus * max(0, min(ended, last) - min(started, last))
    return {
        "utilisation_percent": round(100 * busy / _capacity(setting), 2),
        "mean_jct_h": round(sum(complete) / len(complete) / HOUR_MS, 2),
        "median_jct_h": round(percentile(complete, 50) / HOUR_MS, 2),
        "p95_jct_h": round(percentile(complete, 95) / HOUR_MS, 2),
        "in_quota_wait_p99_s": round(percentile(waits, 99) / 1000, 1) if waits else None,
    }


if __name__ == "__main__":
    raise SystemExit(main())
