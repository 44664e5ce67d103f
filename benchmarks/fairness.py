"""Whether everybody gets their share over time, and how often work is stopped for it.

``python -m benchmarks.fairness [--trace F.csv] [--json OUT]``

All teams always have work waiting and nothing is guaranteed to anybody, so all GPUs are shared by
weight alone. Two cases: KAI-Scheduler's own example for time-based fair share (16 GPUs, two queues
of weight 1, every job needs all of them and never ends), and a trace's teams, each with its own
mix of job sizes and lengths, played over and over; with equal weights and with weights 1 to 3, or
those that ``--weights`` names.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.results import write
from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.model.intents import PutPools, PutTeams
from gpucommons.scheduler.core.model.resources import Pool, Quota, Team
from gpucommons.scheduler.core.model.state import Cluster, NodesObserved
from gpucommons.scheduler.core.model.types import Millis, TeamName
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.engine import Simulation
from gpucommons.scheduler.simulation.record import Record, Right
from gpucommons.scheduler.simulation.trace import LONGEST_RUN_MS, TraceJob, read_trace
from gpucommons.scheduler.simulation.trace_cluster import (
    GPUS_PER_NODE,
    POOL,
    a_spec,
    set_up,
    the_nodes,
)

HALF_LIFE_MS = 24 * 3_600_000
#: Windows in which shares are compared, and how many half-lives are played.
WINDOW, PLAYED = 12, 48
#: Jobs that every team has waiting at any time.
BACKLOG = 12
CONDITIONS = Conditions(leave_ms=1_000)


@dataclass(frozen=True, slots=True)
class Case:
    """Teams with weights, and the jobs each of them goes on submitting."""

    name: str
    nodes: int
    weights: dict[str, int]
    jobs: dict[str, list[TraceJob]]


def main(arguments: list[str] | None = None) -> int:
    """Play the cases and print one line each."""
    parser = argparse.ArgumentParser(prog="fairness", description=__doc__)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--weights", default="1,2,3", help="weights of the teams, in turn")
    parser.add_argument("--half-lives", type=int, default=PLAYED)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    cases = [whole_cluster_jobs()]
    if asked.trace is not None:
        try:
            cases.extend(trace_cases(asked.trace, [int(one) for one in asked.weights.split(",")]))
        except SchedulerError as error:
            print(error, file=sys.stderr)
            return 2
    lines = []
    for case in cases:
        lines.append(measure(case, asked.half_lives))
        print(lines[-1], flush=True)
    write(asked.json, lines)
    return 0


def whole_cluster_jobs() -> Case:
    """KAI's example."""
    weights = {"queue-a": 1, "queue-b": 1}
    jobs = {
        team: [TraceJob(name="all", team=team, user=team, gpus=16, submit_ms=0, run_ms=1 << 50)]
        for team in weights
    }
    return Case("kai-example", 16 // GPUS_PER_NODE, weights, jobs)


def trace_cases(path: Path, unequal: list[int]) -> Iterator[Case]:
    """A trace's teams; a job larger than its team's share of the cluster runs smaller and longer."""
    trace = read_trace(path)
    setting = set_up(trace, 0.85)
    teams = sorted(setting.quotas)
    for suffix, weights in (
        ("", dict.fromkeys(teams, 1)),
        ("-weighted", dict(zip(teams, cycle(unequal), strict=False))),
    ):
        jobs: dict[str, list[TraceJob]] = defaultdict(list)
        for job in trace.jobs:
            share = setting.gpus * weights[job.team] // sum(weights.values())
            most = max(GPUS_PER_NODE, share // GPUS_PER_NODE * GPUS_PER_NODE)
            gpus = min(job.gpus, most)
            jobs[job.team].append(
                replace(job, gpus=gpus, run_ms=min(LONGEST_RUN_MS, job.work // gpus))
            )
        yield Case(f"{trace.name}{suffix}", setting.nodes, weights, dict(jobs))


def measure(case: Case, half_lives: int) -> dict[str, Any]:
    """Play one case and compare what teams got with what was due to them."""
    began = time.process_time()
    simulation = _prepared(case)
    _play(simulation, case, half_lives * HALF_LIFE_MS)
    record = simulation.record
    shares, worst = _shares(record, case, half_lives)
    by_weight = [shares[team] / case.weights[team] for team in case.weights]
    stopped = [one for one in record.evictions if one.right is not Right.GUARANTEE]
    ran = sum(story.attempts > 0 for story in record.stories.values())
    return {
        "benchmark": "fairness",
        "trace": case.name,
        "teams": len(case.weights),
        "half_lives": half_lives,
        "jain": round(sum(by_weight) ** 2 / (len(by_weight) * sum(x * x for x in by_weight)), 4),
        "worst_deviation_percent": round(worst, 2),
        # The most that befell any job within any one half-life.
        "evictions_per_job": _most_in_a_half_life(record),
        "mean_evictions_per_job": round(len(stopped) / max(1, ran), 3),
        "jobs": ran,
        "utilisation_percent": round(
            100
            * record.held(1, half_lives * HALF_LIFE_MS)
            / (case.nodes * GPUS_PER_NODE * WHOLE_MILLI_GPU * half_lives * HALF_LIFE_MS),
            1,
        ),
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def _prepared(case: Case) -> Simulation:
    simulation = Simulation(Cluster(), now_ms=Millis(0), conditions=CONDITIONS)
    pool = Pool(name=POOL, executor="simulation", half_life_ms=HALF_LIFE_MS)
    simulation.at(0, PutPools(pools=(pool,)))
    simulation.at(0, NodesObserved(executor="simulation", nodes=the_nodes(case.nodes)))
    simulation.step(Millis(0))
    teams = tuple(
        Team(name=TeamName(team), quotas={POOL: Quota(over_quota_weight=weight)})
        for team, weight in case.weights.items()
    )
    simulation.at(0, PutTeams(teams=teams))
    return simulation


def _play(simulation: Simulation, case: Case, until_ms: int) -> None:
    """Go on, and see after each step that everybody still has work waiting."""
    endless = {team: cycle(jobs) for team, jobs in case.jobs.items()}
    number = 0
    at_ms: int | None = 1
    while at_ms is not None and at_ms <= until_ms:
        waiting = dict.fromkeys(case.weights, 0)
        for workload in simulation.cluster.workloads.values():
            waiting[workload.spec.team] += workload.current is None
        for team, jobs in endless.items():
            for _ in range(BACKLOG - waiting[team]):
                job = next(jobs)
                simulation.submit(at_ms, a_spec(job, number), job.run_ms)
                number += 1
        simulation.step(Millis(at_ms))
        at_ms = simulation.next_ms()


def _shares(record: Record, case: Case, half_lives: int) -> tuple[dict[str, float], float]:
    """Shares of the whole time, and the worst relative deviation in any window of 12 half-lives."""
    step = HALF_LIFE_MS // 4
    edges = range(half_lives * 4 + 1)
    held = {
        team: [record.held(0, i * step, TeamName(team)) for i in edges] for team in case.weights
    }
    weights = sum(case.weights.values())
    worst = 0.0
    for start in range(max(1, len(edges) - 4 * WINDOW)):
        end = min(len(edges) - 1, start + 4 * WINDOW)
        got = {team: levels[end] - levels[start] for team, levels in held.items()}
        total = max(1, sum(got.values()))
        for team, milli in got.items():
            due = total * case.weights[team] / weights
            worst = max(worst, 100 * abs(milli - due) / due)
    total = max(1, sum(levels[-1] for levels in held.values()))
    return {team: levels[-1] / total for team, levels in held.items()}, worst


def _most_in_a_half_life(record: Record) -> int:
    times: dict[str, list[int]] = defaultdict(list)
    for one in record.evictions:
        if one.right is not Right.GUARANTEE:
            times[one.workload_id].append(one.at_ms)
    return max(
        (sum(at <= one < at + HALF_LIFE_MS for one in of) for of in times.values() for at in of),
        default=0,
    )


if __name__ == "__main__":
    sys.exit(main())
