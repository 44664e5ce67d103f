"""Winning devices back at scale: one whole step of the scheduler over a cluster full of borrowers.

``python -m benchmarks.reclaim --json OUT [--nodes 100,500]``. N nodes of 8 GPUs run 8N borrowed
one-GPU jobs. Then their owners come back, in three shapes: ``gang``, one gang of N/2 workers with 8
GPUs each; ``full``, 8N one-GPU jobs; ``gang-infeasible``, the same gang where in-guarantee work lies
on one node more than it can spare. ``minimal`` is checked without the core: every victim is spared
in turn, and no beneficiary may still find its places.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.model.resources import Node, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import Cluster, Outcome
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Kind,
    Millis,
    NodeId,
    PoolName,
    Role,
    Spec,
    State,
    TeamName,
    UserName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.threads.garbage import left_for_later

GPUS = 8
POOL = PoolName("train")
BORROWER, OWNER, NEIGHBOUR = TeamName("borrower"), TeamName("owner"), TeamName("neighbour")
NOW = Millis(1_000_000_000)
#: Starts are spread over this time, so that no two jobs would lose the same work.
SPREAD_MS = 3_600_000
#: Prime to every size used: neighbours in the list started at unlike times.
STRIDE = 7919
SHAPES = ("gang", "full", "gang-infeasible")


def a_cluster(nodes: int, *, guaranteed_on: int) -> Cluster:
    """Return N nodes full of borrowed one-GPU jobs; the first few also hold in-guarantee work."""
    machines = [
        Node(
            node_id=NodeId(f"n{number:04d}"),
            pool=POOL,
            devices=tuple(
                Device(
                    device_id=DeviceId(f"n{number:04d}-g{index}"),
                    index=index,
                    kind="A100-40",
                    memory_mib=40960,
                )
                for index in range(GPUS)
            ),
            cpu_milli=128_000,
            memory_mib=1_048_576,
        )
        for number in range(nodes)
    ]
    workloads = [
        _running(node, index, index == 0 and number < guaranteed_on, number * GPUS + index)
        for number, node in enumerate(machines)
        for index in range(GPUS)
    ]
    quotas = {
        BORROWER: Quota(over_quota_weight=1),
        OWNER: Quota(guaranteed_milli_gpu=1000 * (GPUS * nodes - guaranteed_on)),
        NEIGHBOUR: Quota(guaranteed_milli_gpu=1000 * guaranteed_on),
    }
    return Cluster(
        pools={POOL: Pool(name=POOL)},
        nodes={node.node_id: node for node in machines},
        teams={name: Team(name=name, quotas={POOL: quota}) for name, quota in quotas.items()},
        workloads={one.workload_id: one for one in workloads},
        now_ms=NOW,
    )


def a_spec(name: str, team: TeamName, workers: int, milli_gpu: int) -> Spec:
    """Return a plain job."""
    user = UserName("ann")
    role = Role(count=workers, milli_gpu=milli_gpu, cpu_milli=1000, memory_mib=1024)
    return Spec(
        kind=Kind.TRAINING,
        name=name,
        team=team,
        owner=user,
        submitted_by=user,
        pools=(POOL,),
        roles=(role,),
    )


def _running(node: Node, index: int, guaranteed: bool, number: int) -> Workload:
    workload_id = WorkloadId(f"a-{number:06d}")
    started = Millis(NOW - SPREAD_MS - number * STRIDE * 1000 % SPREAD_MS)
    placement = WorkerPlacement(
        role="worker",
        index=0,
        node_id=node.node_id,
        device_ids=(node.devices[index].device_id,),
        milli_gpu=1000,
        cpu_milli=1000,
        memory_mib=1024,
    )
    attempt = Attempt(
        attempt_id=AttemptId(f"attempt-{number:06d}"),
        workload_id=workload_id,
        number=1,
        state=AttemptState.RUNNING,
        hold_class=HoldClass.GUARANTEED if guaranteed else HoldClass.OVER_QUOTA,
        placements=(placement,),
        reserved_ms=started,
        started_ms=started,
    )
    return Workload(
        workload_id=workload_id,
        spec=a_spec(f"running-{number}", NEIGHBOUR if guaranteed else BORROWER, 1, 1000),
        state=State.RUNNING,
        submitted_ms=started,
        since_ms=started,
        attempts=(attempt,),
    )


def waiting(shape: str, nodes: int) -> list[Workload]:
    """Return who comes back for its devices."""
    gang = [(nodes // 2, 1000 * GPUS)]
    asked = [(1, 1000)] * (GPUS * nodes) if shape == "full" else gang
    return [
        Workload(
            workload_id=WorkloadId(f"b-{number:06d}"),
            spec=a_spec(f"claim-{number}", OWNER, workers, milli_gpu),
            state=State.QUEUED,
            submitted_ms=NOW,
            since_ms=NOW,
        )
        for number, (workers, milli_gpu) in enumerate(asked)
    ]


# --- the check, which knows nothing of how the core decides ----------------------------------


@dataclass(slots=True)
class Books:
    """Who holds what on which node, by counting devices."""

    free: Counter[NodeId]
    held: dict[AttemptId, Counter[NodeId]]

    @classmethod
    def of(cls, cluster: Cluster) -> Books:
        """Count devices that nobody holds and nobody was promised beside its own victims."""
        held: dict[AttemptId, Counter[NodeId]] = {}
        free = Counter({node_id: len(node.devices) for node_id, node in cluster.nodes.items()})
        for workload in cluster.workloads.values():
            attempt = workload.current
            if attempt is not None:
                held[attempt.attempt_id] = devices_of(attempt.placements)
                free.subtract(held[attempt.attempt_id])
        return cls(free, held)


def devices_of(placements: Sequence[WorkerPlacement]) -> Counter[NodeId]:
    """Whole devices per node."""
    found: Counter[NodeId] = Counter()
    for one in placements:
        found[one.node_id] += len(one.device_ids)
    return found


def is_minimal(cluster: Cluster) -> bool:
    """Spare every victim of every promise in turn: its beneficiary must lose its places."""
    books = Books.of(cluster)
    promised = [w for w in cluster.workloads.values() if w.nomination is not None]
    everyone = {v for w in promised if w.nomination for v in w.nomination.victims}
    cleared = Counter(books.free)
    taken: Counter[NodeId] = Counter()
    for victim in everyone:
        cleared.update(books.held[victim])
    for workload in promised:
        taken.update(devices_of(workload.nomination.placements if workload.nomination else ()))
    return all(_needs_all(workload, books, cleared - taken) for workload in promised)


def _needs_all(workload: Workload, books: Books, left: Counter[NodeId]) -> bool:
    nomination = workload.nomination
    if nomination is None:
        return False
    role = workload.spec.roles[0]
    size = role.milli_gpu // 1000
    # What it was promised is its own to place anew.
    mine = devices_of(nomination.placements)
    places = {node: (left[node] + mine[node]) // size for node in left.keys() | mine.keys()}
    total = sum(places.values())
    for victim in nomination.victims:
        lost = sum(
            places.get(node, 0) - (left[node] + mine[node] - held) // size
            for node, held in books.held[victim].items()
        )
        if total - lost >= role.count:
            return False
    return total >= role.count


# --- runs ------------------------------------------------------------------------------------


def measure(shape: str, nodes: int) -> dict[str, object]:
    """Decide one step and say how long it took and whom it stops."""
    guaranteed_on = nodes - nodes // 2 + 1 if shape == "gang-infeasible" else 0
    cluster = a_cluster(nodes, guaranteed_on=guaranteed_on)
    claims = waiting(shape, nodes)
    workloads = {**cluster.workloads, **{one.workload_id: one for one in claims}}
    cluster = Cluster(
        pools=cluster.pools,
        nodes=cluster.nodes,
        teams=cluster.teams,
        workloads=workloads,
        now_ms=NOW,
    )
    gc.collect()
    started, busy = time.perf_counter(), time.process_time()
    with left_for_later():  # as in the scheduler's loop
        outcome = advance(cluster, (), (), now_ms=NOW, new_ids=_ids())
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - busy
    return {
        "shape": shape,
        "nodes": nodes,
        "seconds": round(seconds, 4),
        "cpu_seconds": round(cpu_seconds, 4),
        "victims": len(_victims(outcome)),
        "served": sum(1 for one in claims if _served(outcome, one)),
        "minimal": is_minimal(outcome.cluster),
    }


def _ids() -> Iterator[str]:
    return (f"new-{number:06d}" for number in count(1))


def _victims(outcome: Outcome) -> list[AttemptId]:
    return [
        attempt.attempt_id
        for workload in outcome.cluster.workloads.values()
        for attempt in [workload.current]
        if attempt is not None and attempt.stop is not None
    ]


def _served(outcome: Outcome, claim: Workload) -> bool:
    return outcome.cluster.workloads[claim.workload_id].nomination is not None


def main() -> None:
    """Run all shapes at all sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--json", type=Path, required=True, help="one JSON object per line goes here"
    )
    parser.add_argument("--nodes", default="100,500", help="numbers of nodes, with commas between")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="which shapes")
    arguments = parser.parse_args()
    with arguments.json.open("w") as out:
        for nodes in map(int, arguments.nodes.split(",")):
            for shape in arguments.shapes.split(","):
                line = json.dumps(measure(shape, nodes))
                print(line, flush=True)
                out.write(line + "\n")


if __name__ == "__main__":
    main()
