"""Kueue's own scale test on our core: 5 cohorts of 6 queues with 500 workloads each.

``python -m benchmarks.kueue_shape [--pace-ms 50] [--json OUT]``

The shape is that of Kueue's ``test/performance/scheduler/configs/baseline/generator.yaml``: every
queue has a quota of 20 and may borrow 100 inside its cohort; small workloads ask for 1 and run
0.2 s, medium ones for 5 and 0.5 s, large ones for 20 and 1 s; one comes every 0.1, 0.5 and 1.2 s.
A cohort is a pool of one node here, since Kueue's run knows no nodes; a unit is a GPU. The clock is
virtual, but what the core really takes to decide passes on it. Kueue's figures contain an API
server and its clients; these do not.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import write
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
    WorkloadId,
)
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.engine import Simulation

COHORTS, QUEUES, QUOTA, BORROW = 5, 6, 20, 100
#: What was decided runs a moment later, as with any executor.
CONDITIONS = Conditions(checkpoint_every_ms=3_600_000, restart_ms=0)


@dataclass(frozen=True, slots=True)
class Shape:
    """One class of workloads in every queue."""

    name: str
    count: int
    every_ms: int
    run_ms: int
    units: int
    priority: str


SHAPES = (
    Shape("small", 350, 100, 200, 1, "low"),
    Shape("medium", 100, 500, 500, 5, "normal"),
    Shape("large", 50, 1200, 1000, 20, "high"),
)


def main(arguments: list[str] | None = None) -> int:
    """Run once and print one line."""
    parser = argparse.ArgumentParser(prog="kueue_shape", description=__doc__)
    parser.add_argument("--pace-ms", type=int, default=50, help="at most one cycle in so long")
    parser.add_argument("--scale", type=float, default=1.0, help="part of each class' count")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    line = measure(asked.pace_ms, asked.scale)
    print(line)
    write(asked.json, [line])
    return 0


def measure(pace_ms: int, scale: float) -> dict[str, Any]:
    """Play the whole run; what deciding takes is charged to the virtual clock."""
    simulation = Simulation(
        Cluster(),
        now_ms=Millis(0),
        conditions=CONDITIONS,
        clock_ms=lambda: time.process_time() * 1000,
    )
    simulation.at(0, PutPools(pools=tuple(_pool(cohort) for cohort in range(COHORTS))))
    nodes = tuple(_node(cohort) for cohort in range(COHORTS))
    simulation.at(0, NodesObserved(executor="simulation", nodes=nodes))
    simulation.step(Millis(0))
    simulation.at(simulation.now_ms, PutTeams(teams=tuple(_teams())))
    simulation.step(simulation.now_ms)
    begin_ms = simulation.now_ms
    classes = _submit_all(simulation, begin_ms, scale)
    gc.freeze()  # what is to come was there before
    before = time.process_time()
    paced = begin_ms
    while (due := simulation.next_ms()) is not None:
        paced = max(due, Millis(paced + pace_ms))
        simulation.step(paced)
    cpu_s = time.process_time() - before
    return _figures(simulation, classes, begin_ms) | {"cpu_seconds": round(cpu_s, 2)}


def _submit_all(simulation: Simulation, begin_ms: int, scale: float) -> dict[WorkloadId, str]:
    classes: dict[WorkloadId, str] = {}
    for cohort in range(COHORTS):
        for queue in range(QUEUES):
            for shape in SHAPES:
                for i in range(max(1, round(shape.count * scale))):
                    at_ms = begin_ms + (i + 1) * shape.every_ms
                    spec = _spec(shape, cohort, queue, i)
                    classes[simulation.submit(at_ms, spec, shape.run_ms)] = shape.name
    return classes


def _figures(
    simulation: Simulation, classes: dict[WorkloadId, str], begin_ms: int
) -> dict[str, Any]:
    stories = simulation.record.stories
    end_ms = begin_ms
    waits: dict[str, list[int]] = {}
    for workload_id, name in classes.items():
        story = stories[workload_id]
        if story.wait_ms is None or story.ended_ms is None:
            # Counted as no wait it would flatter the mean.
            raise RuntimeError(f"{workload_id} never ran to its end: {story.refused}")
        waits.setdefault(name, []).append(story.wait_ms)
        end_ms = max(end_ms, story.ended_ms)
    held = simulation.record.held(begin_ms, end_ms)
    whole = COHORTS * QUEUES * QUOTA * WHOLE_MILLI_GPU * (end_ms - begin_ms)
    return {
        "benchmark": "kueue_shape",
        "workloads": len(classes),
        "queue_usage_percent": round(100 * held / whole, 1),
        "mean_admission_s": {
            name: round(sum(of) / len(of) / 1000, 2) for name, of in waits.items()
        },
        "virtual_seconds": round((end_ms - begin_ms) / 1000, 1),
        "cycles": simulation.record.cycles,
        "evictions": len(simulation.record.evictions),
    }


def _pool(cohort: int) -> Pool:
    # Everything is over in seconds: no time for notices and pauses, as in Kueue.
    name = PoolName(f"cohort-{cohort}")
    return Pool(name=name, executor="simulation", notice_ms=0, lend_after_ms=0, unlent_permille=0)


def _node(cohort: int) -> Node:
    name = f"cohort-{cohort}"
    devices = tuple(
        Device(
            device_id=DeviceId(f"{name}-{i:03d}"),
            index=i,
            kind="unit",
            memory_mib=1024,
            simulated=True,
        )
        for i in range(QUEUES * QUOTA)
    )
    return Node(
        node_id=NodeId(name),
        pool=PoolName(name),
        devices=devices,
        cpu_milli=1_000_000,
        memory_mib=1_000_000,
    )


def _teams() -> Iterator[Team]:
    quota = Quota(
        guaranteed_milli_gpu=QUOTA * WHOLE_MILLI_GPU,
        limit_milli_gpu=(QUOTA + BORROW) * WHOLE_MILLI_GPU,
    )
    for cohort in range(COHORTS):
        for queue in range(QUEUES):
            pool = PoolName(f"cohort-{cohort}")
            yield Team(name=TeamName(f"queue-{cohort}-{queue}"), quotas={pool: quota})


def _spec(shape: Shape, cohort: int, queue: int, number: int) -> Spec:
    role = Role(milli_gpu=shape.units * WHOLE_MILLI_GPU, cpu_milli=1000, memory_mib=1024)
    return Spec(
        kind=Kind.TRAINING,
        name=f"{shape.name}-{number}",
        team=TeamName(f"queue-{cohort}-{queue}"),
        owner=UserName("kueue"),
        submitted_by=UserName("kueue"),
        pools=(PoolName(f"cohort-{cohort}"),),
        roles=(role,),
        priority=shape.priority,
    )


if __name__ == "__main__":
    sys.exit(main())
