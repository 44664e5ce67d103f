"""Blocks of fixed quota, laid out anew as quotas are set and as nodes come and go.

Fixed quota comes first: where nodes are lost, guarantees shrink pro rata. In-guarantee work that a
shrunk guarantee no longer covers becomes borrowed, the newest first: it runs on, but no longer stands in
the way of the blocks that need its place. Nodes that may still come back guarantees: where a lost node can be
replaced nobody's shrinks, and the blocks wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.lifecycle import with_attempt
from gpucommons.scheduler.core.model.resources import Block, NodeState, Quota, Team
from gpucommons.scheduler.core.model.types import (
    Attempt,
    HoldClass,
    NodeId,
    PoolName,
    TeamName,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.core.placement.admission import withdraw
from gpucommons.scheduler.core.quota import layout
from gpucommons.scheduler.core.quota.quota import pro_rata
from gpucommons.scheduler.core.quota.template_nodes import template_nodes

Teams = Mapping[TeamName, Team]


def fixed_quotas(teams: Teams, pool: PoolName) -> dict[TeamName, int]:
    """Fixed quota by team in one pool."""
    return {
        name: team.quotas[pool].fixed_milli_gpu
        for name, team in teams.items()
        if pool in team.quotas and team.quotas[pool].fixed_milli_gpu
    }


def _quotas(teams: Teams, pool: PoolName) -> dict[TeamName, Quota]:
    return {name: team.quotas[pool] for name, team in teams.items() if pool in team.quotas}


def _sums(teams: Teams, pool: PoolName) -> tuple[int, int]:
    found = _quotas(teams, pool).values()
    return (
        sum(one.fixed_milli_gpu for one in found),
        sum(one.guaranteed_milli_gpu for one in found),
    )


def lay_out_all(cycle: CycleState, teams: Teams) -> tuple[Block, ...]:
    """Return blocks for these teams' fixed quotas in all pools, or refuse.

    What asks for no more than before is always accepted: with nodes lost, an admin must still be
    able to lower a quota.
    """
    capacity = _capacity(cycle)
    blocks: list[Block] = []
    for pool in sorted(cycle.pools):
        wanted, had = fixed_quotas(teams, pool), fixed_quotas(cycle.teams, pool)
        if wanted == had and _sums(teams, pool) == _sums(cycle.teams, pool):
            blocks.extend(block for block in cycle.blocks if block.pool == pool)
            continue
        # Also of less than before: what no block has is nobody's.
        layout.check_cut({t: milli for t, milli in wanted.items() if milli != had.get(t)})
        more_fixed = any(milli > had.get(team, 0) for team, milli in wanted.items())
        fixed, guaranteed = _sums(teams, pool)
        fixed_before, guaranteed_before = _sums(cycle.teams, pool)
        if fixed > fixed_before or guaranteed > guaranteed_before:
            to_scale_up = _devices_of_template_nodes(cycle, pool)
            layout.check_sum(pool, capacity, _quotas(teams, pool), to_scale_up=to_scale_up)
        blocks.extend(layout.lay_out(pool, wanted, capacity, cycle.blocks, strict=more_fixed))
    return tuple(blocks)


def use_layout(cycle: CycleState, blocks: tuple[Block, ...]) -> None:
    """Put a layout into force; promises in pools whose blocks moved are decided anew."""
    moved = {block.pool for block in set(blocks) ^ set(cycle.blocks)}
    cycle.rules.blocks = blocks
    cycle.refresh()
    for workload, promise in cycle.promised():
        if cycle.nodes[promise.placements[0].node_id].pool in moved:
            withdraw(cycle, workload)
    cycle.refresh()


def relay_out(cycle: CycleState) -> None:
    """Lay fixed quota out again on the nodes there are: as much of it as they can take."""
    blocks: list[Block] = []
    for pool in sorted(cycle.pools):
        wanted = fixed_quotas(cycle.teams, pool)
        laid = layout.lay_out(pool, wanted, _capacity(cycle), cycle.blocks, strict=False)
        if sum(block.milli_gpu for block in laid) < sum(wanted.values()):
            _demote(cycle, pool)
            laid = layout.lay_out(pool, wanted, _capacity(cycle), cycle.blocks, strict=False)
        blocks.extend(laid)
    use_layout(cycle, tuple(blocks))


def _capacity(cycle: CycleState) -> Capacity:
    return Capacity.of(cycle.nodes.values(), cycle.workloads.values(), cycle.blocks)


def _devices_of_template_nodes(cycle: CycleState, pool: PoolName) -> int:
    """They back guarantees. Fixed quota has to lie on devices that are there."""
    return sum(len(one.devices) for one in template_nodes(cycle.pools[pool], cycle.nodes.values()))


def _demote(cycle: CycleState, pool: PoolName) -> None:
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
    quotas = _quotas(cycle.teams, pool)
    total = WHOLE_MILLI_GPU * (
        sum(len(cycle.nodes[one].devices) for one in usable)
        + _devices_of_template_nodes(cycle, pool)
    )
    outside = max(0, total - sum(quota.fixed_milli_gpu for quota in quotas.values()))
    saved = {name: quota.guaranteed_milli_gpu for name, quota in quotas.items()}
    return pro_rata(saved, outside)


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
