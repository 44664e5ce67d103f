"""How many decisions a second the core makes, and what a long line costs when nothing fits.

``python -m benchmarks.throughput --nodes 1213,5000 --pods 10000 --json OUT``. One line per node
count, each measured in a process of its own so that its memory is its own:

* ``placements_per_second``, by the clock, and ``placements_per_cpu_second``, which other programs
  on the machine change little: one :func:`advance` over a line of pods (half of them one GPU, half
  fractions, of four teams with guarantees and borrowing), everything counted: eligibility, order,
  quota, score, admission, attempts, events, reasons and what is to be written.
* ``with_submits_per_second``: the same pods as intents, a thousand a cycle.
* ``full_cycle_nothing_fits_ms``: the median cycle over a full cluster with all pods waiting, after
  the first one (``first_cycle_ms``), which writes everybody's reason.
* ``peak_rss_mib``; with ``--workloads N`` so many that run or wait are held meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.model.intents import Intent, Submit
from gpucommons.scheduler.core.model.resources import Node, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import Cluster, Outcome
from gpucommons.scheduler.core.model.types import (
    IntentId,
    Kind,
    Millis,
    NodeId,
    PoolName,
    Role,
    Spec,
    State,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.threads import garbage

POOL = PoolName("train")
TEAMS = tuple(TeamName(name) for name in ("vision", "nlp", "speech", "robots"))
#: Whole GPUs and the fractions that people ask for, in equal parts.
SIZES = (1000, 500, 1000, 250, 1000, 125, 1000, 700)
GPUS_PER_NODE = 8
#: As many intents as the loop takes in one cycle.
BATCH = 1000
START = Millis(1_000_000_000)
REPEATS = 7


@dataclass(frozen=True)
class Size:
    """What one measurement is made of."""

    nodes: int
    pods: int
    workloads: int


def machine(number: int, pool: PoolName = POOL) -> Node:
    """Return one with eight GPUs."""
    name = f"node-{number:05d}"
    return Node(
        node_id=NodeId(name),
        pool=pool,
        devices=tuple(
            Device(
                device_id=DeviceId(f"{name}-g{g}"),
                index=g,
                kind="A100",
                memory_mib=81_920,
                simulated=True,
            )
            for g in range(GPUS_PER_NODE)
        ),
        cpu_milli=128_000,
        memory_mib=1_048_576,
    )


def nodes(number: int) -> dict[NodeId, Node]:
    """Return so many of them."""
    return {node.node_id: node for node in map(machine, range(number))}


def spec(number: int, team: TeamName, milli_gpu: int) -> Spec:
    """Return a pod's spec."""
    role = Role(milli_gpu=milli_gpu, cpu_milli=4 * milli_gpu, memory_mib=16 * milli_gpu)
    return Spec(
        kind=Kind.TRAINING,
        name=f"pod-{number}",
        team=team,
        owner=UserName(f"user-{number % 40}"),
        submitted_by=UserName(f"user-{number % 40}"),
        pools=(POOL,),
        roles=(role,),
    )


def pods(first: int, number: int, sizes: Sequence[int] = SIZES) -> Iterator[Workload]:
    """Pods in line, the teams and sizes in turn."""
    for i in range(first, first + number):
        yield Workload(
            workload_id=WorkloadId(f"pod-{i:08d}"),
            spec=spec(i, TEAMS[i // len(sizes) % len(TEAMS)], sizes[i % len(sizes)]),
            state=State.QUEUED,
            submitted_ms=START,
            since_ms=START,
        )


def cluster(machines: int, line: Iterator[Workload]) -> Cluster:
    """Return an empty cluster with a line before it; an eighth is guaranteed to each team.

    Guarantees are in whole nodes: on a cluster full of eight-GPU jobs none is left over.
    """
    guarantee = machines // 8 * GPUS_PER_NODE * 1000
    quota = Quota(guaranteed_milli_gpu=guarantee)
    return Cluster(
        pools={POOL: Pool(name=POOL, executor="fake", gpu_kind="A100")},
        nodes=nodes(machines),
        teams={name: Team(name=name, quotas={POOL: quota}) for name in TEAMS},
        workloads={one.workload_id: one for one in line},
        now_ms=START,
        usage_at_ms=START,
    )


@dataclass
class Clock:
    """Steps through virtual time and measures each step on the real clock."""

    cluster: Cluster
    new_ids: Iterator[str]
    now_ms: Millis = START
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def step(self, intents: Sequence[Intent] = ()) -> Outcome:
        """One cycle."""
        self.now_ms = Millis(self.now_ms + 1000)
        began, cpu_began = time.perf_counter(), time.process_time()
        with garbage.left_for_later():
            outcome = advance(self.cluster, intents, (), now_ms=self.now_ms, new_ids=self.new_ids)
        gc.collect(0)  # what was left for later
        self.seconds = time.perf_counter() - began
        self.cpu_seconds = time.process_time() - cpu_began
        self.cluster = outcome.cluster
        return outcome


def _ids() -> Iterator[str]:
    return (f"attempt-{number:012d}" for number in count(1))


def _placed(outcome: Outcome) -> int:
    return sum(event.kind == "admitted" for event in outcome.changes.events)


def decisions_per_second(size: Size) -> tuple[float, float]:
    """One cycle over the whole line: by the clock, and by processor time."""
    clock = Clock(cluster(size.nodes, pods(0, size.pods)), _ids())
    gc.freeze()  # what was there before is not part of what a decision costs
    placed = _placed(clock.step())
    return placed / clock.seconds, placed / clock.cpu_seconds


def with_submits_per_second(size: Size) -> float:
    """The line comes as intents, a batch a cycle."""
    clock = Clock(cluster(size.nodes, iter(())), _ids())
    placed, seconds = 0, 0.0
    line = list(pods(0, size.pods))
    for first in range(0, len(line), BATCH):
        intents = [
            Intent(
                intent_id=IntentId(f"intent-{one.workload_id}"),
                action=Submit(workload_id=one.workload_id, spec=one.spec),
                by=one.spec.owner,
                at_ms=clock.now_ms,
            )
            for one in line[first : first + BATCH]
        ]
        placed += _placed(clock.step(intents))
        seconds += clock.seconds
    return placed / seconds


def nothing_fits_ms(size: Size) -> tuple[float, float]:
    """The first cycle over a full cluster, and the median of those after it, in milliseconds."""
    full = [GPUS_PER_NODE * 1000]
    running = size.nodes
    if size.workloads:
        # As many as asked for, on whole nodes where that is enough, else on single GPUs.
        full = [1000]
        running = min(size.nodes * GPUS_PER_NODE, size.workloads - size.pods)
    clock = Clock(cluster(size.nodes, pods(0, running, full)), _ids())
    clock.step()
    more = max(size.pods, size.workloads - running)
    waiting = {one.workload_id: one for one in pods(running, more)}
    clock.cluster = replace(clock.cluster, workloads={**clock.cluster.workloads, **waiting})
    clock.step()
    first, later = clock.seconds, []
    for _ in range(REPEATS):
        clock.step()
        later.append(clock.seconds)
    return 1000 * first, 1000 * statistics.median(later)


def _measure(size: Size, answer: Connection) -> None:
    row: dict[str, float] = {"nodes": size.nodes, "pods": size.pods}
    if size.workloads:
        row["workloads"] = size.workloads
    else:
        by_clock, by_cpu = decisions_per_second(size)
        row["placements_per_second"], row["placements_per_cpu_second"] = (
            round(by_clock),
            round(by_cpu),
        )
        row["with_submits_per_second"] = round(with_submits_per_second(size))
    first, later = nothing_fits_ms(size)
    row["first_cycle_ms"], row["full_cycle_nothing_fits_ms"] = round(first, 1), round(later, 1)
    row["peak_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    answer.send(row)


def measured(size: Size) -> dict[str, float]:
    """Measure in a fresh process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_measure, args=(size, there))
    process.start()
    there.close()
    row: dict[str, float] = here.recv()
    process.join()
    return row


def main() -> None:
    """Measure and write one JSON object per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="1213,5000")
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--workloads", type=int, default=0, help="held while a cycle is measured")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = []
    for number in asked.nodes.split(","):
        row = measured(Size(int(number), asked.pods, asked.workloads))
        print(json.dumps(row), flush=True)
        rows.append(row)
    if asked.json is not None:
        asked.json.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
