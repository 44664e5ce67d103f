"""Twenty researchers on a DGX, low-end cards and workstations: each group with its own, and all together.

``python -m benchmarks.quota_replay.researchers [--seed N] [--days N] [--json OUT]``

A made-up scenario, no measurement: it shows what sharing is worth under the assumptions that it prints.
Before and after are the same core, the same jobs and the same machines. Before, a group has its GPUs
and no others (a limit as large as its guarantee); after, it has them guaranteed, and borrows.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import percentile, write
from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device, DeviceId
from gpucommons.scheduler.core.model.intents import PutPools, PutTeams
from gpucommons.scheduler.core.model.resources import Node, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import Cluster, NodesObserved
from gpucommons.scheduler.core.model.types import (
    Kind,
    Millis,
    NodeId,
    PoolName,
    Role,
    Spec,
    TeamName,
    UserName,
)
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.engine import Simulation
from gpucommons.scheduler.simulation.record import Record

ASSUMPTIONS = (
    "20 researchers in 4 groups; 32 GPUs: two machines of 8 (dgx), four of 2 (workstations), one of 8 (low-end).",
    "A quarter of each pool is each group's. A GPU of any pool does the same work in an hour.",
    "Jobs of 1 GPU run anywhere, of 2 on dgx or workstations, of 4 on dgx alone.",
    "Whoever has a busy week submits most of it: a researcher's weeks are weighted exponentially.",
    "Jobs take 2.5 h by the median, each researcher's own (log-normal), and fill 70 % of all GPUs.",
    "Work saves every 30 min and loads for 2 min after a stop.",
)
_POOLS = {"dgx": (2, 8), "workstations": (4, 2), "low-end": (1, 8)}
_GROUPS, _USERS = 4, 20
#: How many GPUs, and how often.
_SIZES = (1, 1, 1, 1, 2, 2, 4)
_WHERE = {1: ("dgx", "workstations", "low-end"), 2: ("dgx", "workstations"), 4: ("dgx",)}
_LOAD = 0.7
_HOUR_MS, _DAYS = 3_600_000, 28
_DAY_MS, _WEEK_DAYS = 24 * _HOUR_MS, 7
_CORES, _MIB = 1000, 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One submission."""

    user: int
    gpus: int
    submit_ms: int
    run_ms: int


def main(arguments: list[str] | None = None) -> int:
    """Play both, and print the assumptions and a line for each."""
    parser = argparse.ArgumentParser(prog="researchers", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=int, default=_DAYS)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    for text in ASSUMPTIONS:
        print(text)
    jobs = drawn(asked.seed, asked.days)
    lines = []
    for name in ("before", "after"):
        record = played(jobs, shares=name == "after", until_ms=asked.days * _DAY_MS)
        line = {"benchmark": "researchers", "seed": asked.seed, "policy": name}
        lines.append(line | figures(record, asked.days * _DAY_MS))
        print(lines[-1], flush=True)
    write(asked.json, lines)
    return 0


def drawn(seed: int, days: int) -> tuple[Job, ...]:
    """The same jobs for the same seed."""
    random_ = random.Random(seed)  # noqa: S311 - nothing secret
    typical_h = [math.exp(random_.gauss(math.log(2.5), 0.6)) for _ in range(_USERS)]
    weeks = [(user, week) for user in range(_USERS) for week in range(-(-days // _WEEK_DAYS))]
    busy = [random_.expovariate(1.0) for _ in weeks]
    whole = _LOAD * gpus() * days * _DAY_MS
    jobs, work = [], 0
    while work < whole:
        ((user, week),) = random_.choices(weeks, busy)
        hour = random_.triangular(0, 24, 14)
        at_ms = round(((week * _WEEK_DAYS + random_.randrange(_WEEK_DAYS)) * 24 + hour) * _HOUR_MS)
        run_ms = round(typical_h[user] * math.exp(random_.gauss(0, 0.8)) * _HOUR_MS)
        if at_ms < days * _DAY_MS:
            size = random_.choice(_SIZES)
            jobs.append(Job(user=user, gpus=size, submit_ms=at_ms, run_ms=run_ms))
            work += size * run_ms
    return tuple(sorted(jobs, key=lambda one: one.submit_ms))


def gpus() -> int:
    """Of all machines."""
    return sum(nodes * each for nodes, each in _POOLS.values())


def played(jobs: Sequence[Job], *, shares: bool, until_ms: int) -> Record:
    """All jobs through the core, up to the end of the days."""
    simulation = Simulation(Cluster(), now_ms=Millis(0), conditions=Conditions(leave_ms=1_000))
    pools = tuple(Pool(name=PoolName(name), executor="simulation") for name in _POOLS)
    simulation.at(0, PutPools(pools=pools))
    simulation.at(0, NodesObserved(executor="simulation", nodes=tuple(_nodes())))
    simulation.step(Millis(0))
    simulation.at(0, PutTeams(teams=tuple(_team(number, shares) for number in range(_GROUPS))))
    for number, job in enumerate(jobs):
        simulation.submit(job.submit_ms + 1, _spec(job, number), job.run_ms)
    return simulation.run(until_ms)


def figures(record: Record, until_ms: int) -> dict[str, object]:
    """What was done by then; a wait that goes on counts up to the end."""
    stories = record.stories.values()
    waits = [
        (until_ms if one.wait_ms is None else one.submitted_ms + one.wait_ms) for one in stories
    ]
    lengths = [end - one.submitted_ms for end, one in zip(waits, stories, strict=True)]
    many = [one for one in stories if one.milli_gpu > WHOLE_MILLI_GPU]
    held = record.held(0, until_ms)
    return {
        "jobs": len(stories),
        "completed": sum(one.ended_ms is not None for one in stories),
        "multi_gpu_started": sum(one.started_ms is not None for one in many),
        "median_wait_min": round(percentile(lengths, 50) / 60_000, 1),
        "worst_tenth_wait_h": round(percentile(lengths, 90) / _HOUR_MS, 2),
        "in_use_percent": round(100 * held / (gpus() * WHOLE_MILLI_GPU * until_ms), 1),
        "evictions": len(record.evictions),
        "lost_percent": round(100 * record.lost_milli_gpu_ms() / max(1, held), 2),
    }


def _team(number: int, shares: bool) -> Team:
    quotas = {}
    for name, (nodes, each) in _POOLS.items():
        own = nodes * each * WHOLE_MILLI_GPU // _GROUPS
        limit = None if shares else own
        quotas[PoolName(name)] = Quota(guaranteed_milli_gpu=own, limit_milli_gpu=limit)
    return Team(name=TeamName(f"group-{number}"), quotas=quotas)


def _nodes() -> Iterator[Node]:
    for pool, (nodes, each) in _POOLS.items():
        for number in range(nodes):
            name = f"{pool}-{number}"
            yield Node(
                node_id=NodeId(name),
                pool=PoolName(pool),
                devices=tuple(
                    Device(
                        device_id=DeviceId(f"{name}-{index}"),
                        index=index,
                        kind=pool,
                        memory_mib=40_960,
                        simulated=True,
                    )
                    for index in range(each)
                ),
                cpu_milli=each * _CORES,
                memory_mib=each * _MIB,
            )


def _spec(job: Job, number: int) -> Spec:
    user = UserName(f"user-{job.user}")
    role = Role(
        name="worker",
        count=1,
        milli_gpu=job.gpus * WHOLE_MILLI_GPU,
        cpu_milli=job.gpus * _CORES,
        memory_mib=job.gpus * _MIB,
    )
    return Spec(
        kind=Kind.TRAINING,
        name=f"job-{number}",
        team=TeamName(f"group-{job.user % _GROUPS}"),
        owner=user,
        submitted_by=user,
        pools=tuple(PoolName(name) for name in _WHERE[job.gpus]),
        roles=(role,),
    )


if __name__ == "__main__":
    sys.exit(main())
