"""Notebooks within fixed quota: at once from free or headroom blocks, else after one reclaim.

A notebook lies in a block of its team. Where that part of the block is lent, an unused block
elsewhere (another team's, or free area of the same size) swaps places with it first; only then is
a borrower asked to go. Another team's notebook is never in the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.capacity.capacity_arrays import is_free_on_a_node
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.eviction import policies, solver
from gpucommons.scheduler.core.eviction.victim_order import cost
from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.demand import milli_gpu, must_have, placed_milli_gpu
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.holds import Load
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.resources import Block
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    NodeId,
    PoolName,
    Role,
    Spec,
    TeamName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.placement.admission import nominate, without_its_promise
from gpucommons.scheduler.core.placement.eviction_plan import EvictionCandidate, EvictionPlan
from gpucommons.scheduler.core.queue import reclaim_cooldown, unused_quota
from gpucommons.scheduler.core.quota.layout import (
    Region,
    areas_of,
    in_order,
    moved,
    region_of,
    regions,
)

_ENDING: Entry[None, dict[tuple[TeamName, PoolName], int]] = Entry(
    "notebooks that end", Fact.REFRESHED, Fact.ENDING_NOTEBOOKS
)
_NOTHING_ENDS: Mapping[tuple[TeamName, PoolName], int] = {}


@dataclass(frozen=True, slots=True)
class _Option:
    """A part of a block that could take the notebook, and where the block would lie."""

    node: NodeCapacity
    block: Block
    home: Region
    area: Region
    #: What goes with it there: what was asked for, at most the share of its GPUs.
    need: Load
    #: Size of the free group around the area: the tightest is taken first.
    group: int


def admit_or_reclaim(cycle: CycleState, workload: Workload) -> None:
    """Grant a notebook its slice, or nominate it for one; else it waits on."""
    taken: tuple[EvictionCandidate, ...] = ()
    with without_its_promise(cycle, workload):
        option = _free_option(cycle, workload)
    waits = workload.nomination is None and workload.workload_id not in cycle.turns.redeeming
    if option is None and waits:
        option, taken = _reclaimable(cycle, workload)
    if option is not None:
        _swap(cycle, option)
        cause = eviction_cause.of_notebooks(workload.spec.team)
        place = _placed(option, workload.spec.roles[0])
        nominate(cycle, workload, EvictionPlan((place,), HoldClass.FIXED, taken, cause))


def is_free_elsewhere(cycle: CycleState, workload: Workload) -> bool:
    """A piece as large as it asks for is free in its pool, and none of its team's."""
    pool, team = workload.spec.pools[0], workload.spec.team
    own: dict[NodeId, dict[DeviceId, int]] = {}
    for region in (region_of(b) for b in cycle.blocks if b.team == team and b.pool == pool):
        masks = own.setdefault(region.node_id, {})
        for device_id in region.device_ids:
            masks[device_id] = masks.get(device_id, 0) | region.mask
    return is_free_on_a_node(cycle.capacity, pool, milli_gpu(must_have(workload.spec)), own)


def free_place(cycle: CycleState, workload: Workload) -> WorkerPlacement | None:
    """Where it would lie if it were granted a free slice in this cycle."""
    option = _free_option(cycle, workload)
    return None if option is None else _placed(option, workload.spec.roles[0])


def could_reclaim(cycle: CycleState, workload: Workload) -> bool:
    """It would get a slice once borrowers have gone."""
    return any(
        _victims(cycle, workload, option) is not None
        for pool in _pools(cycle, workload.spec)
        for option in _options(cycle, workload, pool)
    )


def _free_option(cycle: CycleState, workload: Workload) -> _Option | None:
    pools = _pools(cycle, workload.spec)
    return next(filter(None, (_best(cycle, workload, pool) for pool in pools)), None)


def _pools(
    cycle: CycleState, spec: Spec, ending: Mapping[tuple[TeamName, PoolName], int] = _NOTHING_ENDS
) -> Iterator[PoolName]:
    """Pools in which fixed quota has room for it, once so many milli-GPU are given back."""
    for pool in cycle.pools_of(spec):
        left = unused_quota.of_fixed(cycle, spec.team, pool) + ending.get((spec.team, pool), 0)
        if spec.roles[0].milli_gpu <= left:
            yield pool


def _ending(cycle: CycleState) -> dict[tuple[TeamName, PoolName], int]:
    """Milli-GPU that notebooks of a team are giving back: who is first in line has them next.

    A block is as large as the quota it stands for. Who finds a place in one without those that end
    has room in the quota when they have ended.
    """
    found: dict[tuple[TeamName, PoolName], int] = {}
    for workload, attempt in cycle.holders(cycle.index.stopping):
        if is_lease(workload):
            there = (workload.spec.team, cycle.pool_of(attempt).name)
            given = sum(placed_milli_gpu(one) for one in attempt.placements)
            found[there] = found.get(there, 0) + given
    return found


def _reclaimable(
    cycle: CycleState, workload: Workload
) -> tuple[_Option | None, tuple[EvictionCandidate, ...]]:
    """The part of a block that costs least to win back, and who has to go for it."""
    ending = cycle.memo.remember(_ENDING, None, lambda: _ending(cycle))
    for pool in _pools(cycle, workload.spec, ending):
        if not reclaim_cooldown.may_win_back(cycle, workload, pool):
            continue
        best: tuple[tuple[object, ...], _Option, tuple[EvictionCandidate, ...]] | None = None
        for option in _options(cycle, workload, pool):
            taken = _victims(cycle, workload, option)
            if taken is None:
                continue
            rank = (*cost(taken), option.home != region_of(option.block), option.group)
            if best is None or rank < best[0]:
                best = (rank, option, taken)
        if best is not None:
            return best[1:]
    return None, ()


def _best(cycle: CycleState, workload: Workload, pool: PoolName) -> _Option | None:
    """The free part of a block that leaves the others most useful; where blocks lie, if there is one."""
    for swap in (False, True):
        options = _options(cycle, workload, pool, swap=swap)
        free = [option for option in options if _is_free(option)]
        if free:
            return min(free, key=lambda one: one.group)
    return None


def _options(
    cycle: CycleState, workload: Workload, pool: PoolName, *, swap: bool = True
) -> Iterator[_Option]:
    role, team = workload.spec.roles[0], workload.spec.team
    size = role.milli_gpu
    mine = sorted(
        (b for b in cycle.blocks if b.team == team and b.pool == pool and b.milli_gpu >= size),
        key=lambda block: block.milli_gpu,
    )
    usable = {node.node.node_id: node for node in cycle.capacity.usable(pool)}
    for block in mine:
        homes = _homes(cycle, block, usable.values()) if swap else (region_of(block),)
        for home in homes:
            node = usable.get(home.node_id)
            if node is None or not _suits(node, home, role.gpu_kind):
                continue
            need = Load(role.cpu_milli, role.memory_mib).lower(node.share(size))
            for area in areas_of(node, home, size):
                if _is_its_own(workload, area) and not _firmly_taken(cycle, node, area):
                    yield _Option(node, block, home, area, need, _group(node, home, area))


def _is_its_own(workload: Workload, area: Region) -> bool:
    """What is on the host goes back to the devices that it came from, and to no others."""
    if workload.parked is None:
        return True
    place = workload.parked.place
    return area.node_id == place.node_id and set(area.device_ids) == set(place.device_ids)


def _suits(node: NodeCapacity, home: Region, kind: str | None) -> bool:
    return kind is None or all(node.devices[d].device.kind == kind for d in home.device_ids)


def _homes(cycle: CycleState, block: Block, nodes: Iterable[NodeCapacity]) -> Iterator[Region]:
    """Where a block may lie: where it is, or swapped with an unused equal place."""
    yield region_of(block)
    if _has_notebook(cycle, region_of(block)):
        return
    for node in nodes:
        for region in regions(node, block.milli_gpu):
            if _may_swap(cycle, node, block, region):
                yield region


def _may_swap(cycle: CycleState, node: NodeCapacity, block: Block, region: Region) -> bool:
    if region == region_of(block) or _has_notebook(cycle, region):
        return False
    there = [b for b in cycle.blocks if region.overlaps(region_of(b))]
    if there:
        return len(there) == 1 and region_of(there[0]) == region and there[0].team != block.team
    # Free area outside blocks: what is held there must not be in-guarantee work, and the share of
    # processor and memory moves with the block.
    if _firmly_taken(cycle, node, region):
        return False
    if any(node.devices[d].promised & region.mask for d in region.device_ids):
        return False
    if node.node.node_id == block.node_id:
        return True
    firm = node.firm.minus(node.fixed).plus(node.block_share).plus(node.promised)
    return node.total.minus(firm).at_least(node.share(block.milli_gpu))


def _has_notebook(cycle: CycleState, region: Region) -> bool:
    """A notebook lies there or has been promised a part of it."""
    node = cycle.capacity.nodes.get(region.node_id)
    if node is None:
        return False
    if any(
        hold.hold_class is HoldClass.FIXED and region.covers(hold.placement)
        for hold in node.holds.values()
    ):
        return True
    return any(
        region.covers(one)
        for workload_id in cycle.capacity.promises
        for one in _fixed_promise(cycle, workload_id)
    )


def _fixed_promise(cycle: CycleState, workload_id: WorkloadId) -> Sequence[WorkerPlacement]:
    workload = cycle.workloads[workload_id]
    found = workload.nomination
    if found is None or found.hold_class is not HoldClass.FIXED:
        return ()
    return found.placements


def _firmly_taken(cycle: CycleState, node: NodeCapacity, region: Region) -> bool:
    """A notebook or in-guarantee work holds some of it, and does not surely end."""
    for hold in node.holds.values():
        if hold.firm and region.covers(hold.placement):
            attempt = cycle.workloads[hold.workload_id].current
            stop = None if attempt is None else attempt.stop
            if stop is None or stop.why == StopCause.SHRINK_FOR_OTHERS:
                return True
            if stop.why in eviction_cause.FOR_OTHERS and not stop.signalled:
                return True  # it may be spared yet
    return False


def _group(node: NodeCapacity, home: Region, area: Region) -> int:
    """Size of the largest free aligned part of the block around an area."""
    size = area.milli_gpu
    while size < home.milli_gpu:
        around = next((one for one in areas_of(node, home, 2 * size) if area.overlaps(one)), None)
        if around is None:
            return size
        rest = [node.devices[d].held | node.devices[d].promised for d in around.device_ids]
        if any(taken & around.mask for taken in rest):
            return size
        size *= 2
    return size


def _is_free(option: _Option) -> bool:
    devices, area = option.node.devices, option.area
    if any(devices[d].blocked(HoldClass.FIXED) & area.mask for d in area.device_ids):
        return False
    return option.node.free(HoldClass.FIXED).at_least(option.need)


def _placed(option: _Option, role: Role) -> WorkerPlacement:
    return WorkerPlacement(
        role=role.name,
        index=0,
        node_id=option.area.node_id,
        device_ids=option.area.device_ids,
        milli_gpu=min(option.area.milli_gpu, WHOLE_MILLI_GPU),
        offset=option.area.offset,
        cpu_milli=option.need.cpu_milli,
        memory_mib=option.need.memory_mib,
    )


def _victims(
    cycle: CycleState, workload: Workload, option: _Option
) -> tuple[EvictionCandidate, ...] | None:
    policy = policies.for_notebook(workload.spec.team)
    return solver.victims_in(cycle, workload.spec, policy, option.area, option.need)


def _swap(cycle: CycleState, option: _Option) -> None:
    """Move the block; whoever's unused block lay there gets the old place."""
    if option.home == region_of(option.block):
        return
    old = region_of(option.block)

    def swapped(block: Block) -> Block:
        if block == option.block:
            return moved(block, option.home)
        return moved(block, old) if region_of(block) == option.home else block

    cycle.rules.blocks = in_order(swapped(block) for block in cycle.blocks)
    cycle.capacity.set_blocks(cycle.blocks)
