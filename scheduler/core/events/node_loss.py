"""When devices are lost, who held them is ended; when nodes are, guarantees shrink pro rata.

Fixed quota comes first. In-guarantee work that a shrunk guarantee no longer covers becomes borrowed,
the newest first: it runs on, but no longer stands in the way of the blocks that need its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.lifecycle import with_attempt
from gpucommons.scheduler.core.model.resources import Node, NodeState
from gpucommons.scheduler.core.model.types import (
    Attempt,
    HoldClass,
    NodeId,
    PoolName,
    TeamName,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.core.stopping import grace


def end_on_lost_devices(cycle: CycleState, before: Node, now: Node) -> None:
    """A device that a live node no longer has: who held it computes on nothing, and is ended."""
    gone = {d.device_id for d in before.devices} - {d.device_id for d in now.devices}
    if not gone:
        return
    for workload in cycle.among(cycle.index.holding):
        attempt = workload.current
        if attempt is None or (attempt.stop is not None and attempt.stop.signalled):
            continue
        lost = [d for one in attempt.placements for d in one.device_ids if d in gone]
        if lost:
            text = f"Its GPU {', '.join(sorted(lost))} is gone from {now.node_id}"
            grace.end_now(cycle, workload, why="lost", text=text)


def demote(cycle: CycleState, pool: PoolName) -> None:
    """Turn what exceeds the shrunk guarantees of a pool into borrowed work."""
    usable = {
        node.node_id
        for node in cycle.nodes.values()
        if node.pool == pool and node.state is NodeState.READY
    }
    covered = _shrunk(cycle, pool, usable)
    held: dict[TeamName, int] = {}
    for workload, attempt in sorted(_in_guarantee(cycle, usable), key=_oldest_first):
        team = workload.spec.team
        firm = tuple(one for one in attempt.placements if not one.surplus)
        held[team] = held.get(team, 0) + _milli(firm)
        if held[team] > covered.get(team, 0):
            held[team] -= _milli(firm)
            _borrow(cycle, workload, attempt)


def _shrunk(cycle: CycleState, pool: PoolName, usable: set[NodeId]) -> dict[TeamName, int]:
    """Guarantees that are left once all fixed quota is laid out."""
    quotas = {n: t.quotas[pool] for n, t in cycle.teams.items() if pool in t.quotas}
    total = WHOLE_MILLI_GPU * sum(len(cycle.nodes[one].devices) for one in usable)
    outside = max(0, total - sum(quota.fixed_milli_gpu for quota in quotas.values()))
    saved = {name: quota.guaranteed_milli_gpu for name, quota in quotas.items()}
    promised = sum(saved.values())
    if promised <= outside:
        return saved
    return {name: milli * outside // promised for name, milli in saved.items()}


def _in_guarantee(cycle: CycleState, usable: set[NodeId]) -> Iterable[tuple[Workload, Attempt]]:
    for workload in cycle.workloads.values():
        attempt = workload.current
        if (
            attempt is not None
            and attempt.hold_class is HoldClass.GUARANTEED
            and all(one.node_id in usable for one in attempt.placements)
        ):
            yield workload, attempt


def _oldest_first(one: tuple[Workload, Attempt]) -> tuple[int, str]:
    return (one[1].reserved_ms, one[0].workload_id)


def _milli(placements: tuple[WorkerPlacement, ...]) -> int:
    return sum(placed_milli_gpu(one) for one in placements)


def _borrow(cycle: CycleState, workload: Workload, attempt: Attempt) -> None:
    placements = tuple(replace(one, surplus=False) for one in attempt.placements)
    borrowed = replace(attempt, hold_class=HoldClass.OVER_QUOTA, placements=placements)
    workload = cycle.put(with_attempt(workload, borrowed))
    cycle.tell(
        "demoted",
        f"{workload.spec.name} borrows now: nodes were lost, and fixed quota comes first.",
        workload,
    )
