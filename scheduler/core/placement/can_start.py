"""Whether a waiting workload could start at all, were its pools idle.

Who could not keeps nobody from anything: beside it jobs grow and are tested. Reasons tell the same facts
as sentences (``explain.impossible``, ``explain.limits``); nothing is decided by a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.placement_slots import capacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.model.demand import Worker, milli_gpu, must_have
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.reason import CANNOT_START
from gpucommons.scheduler.core.model.resources import Node, NodeState, Quota
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    Parked,
    PoolName,
    Spec,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.placement.placement import place
from gpucommons.scheduler.core.queue import unused_quota
from gpucommons.scheduler.core.quota.template_nodes import template_nodes

#: All nodes with nothing on them: as they are, and as if all of them took work.
_EMPTY: Entry[bool, Capacity] = Entry("empty nodes", Fact.REFRESHED)
#: All nodes with nothing on them, and those that the pool may still get.
_SCALED_UP: Entry[PoolName, Capacity] = Entry("empty nodes, and template nodes", Fact.REFRESHED)


def waited_for(cycle: CycleState) -> Iterator[PoolName]:
    """Pools in which somebody waits who could start were more free, or was promised something."""
    for key, waiting in cycle.index.equivalence_classes.items():
        first = next((one for _, one in waiting.members if not _is_barred(cycle, one)), None)
        # All of a class ask for the same, of the same quota.
        if first is not None and could_start(cycle, cycle.workloads[first]):
            yield from key.pools
    for workload in cycle.among(cycle.index.tickets | cycle.index.nominated):
        if not _is_barred(cycle, workload.workload_id) and could_start(cycle, workload):
            yield from workload.spec.pools


def _is_barred(cycle: CycleState, workload_id: WorkloadId) -> bool:
    """This cycle's step 2 found that it does not start however much is free."""
    found = cycle.turns.obstacles.get(workload_id)
    return found is not None and found.code in CANNOT_START


def could_start(cycle: CycleState, workload: Workload) -> bool:
    """It would start on idle nodes that take work, by a quota that nobody uses."""
    if workload.nomination is not None:
        return True
    if is_lease(workload):
        return _notebook_could_start(cycle, workload)
    if not any(
        fits_empty(cycle, must_have(workload.spec), p, all_usable=False)
        for p in cycle.pools_of(workload.spec)
    ):
        return False
    return not is_beyond_quota(cycle, workload) and not waits_for_budget(cycle, workload)


# --- nodes -----------------------------------------------------------------------------------


def _notebook_could_start(cycle: CycleState, workload: Workload) -> bool:
    if workload.parked is not None:
        return parked_on(cycle, workload.parked) is not None
    return any(has_block(cycle, workload, pool) for pool in cycle.pools_of(workload.spec))


def has_block(cycle: CycleState, workload: Workload, pool: PoolName) -> bool:
    """A part of its team's fixed quota that is as large as a notebook lies on a node that takes work."""
    size = milli_gpu(must_have(workload.spec))
    return any(
        block.team == workload.spec.team
        and block.pool == pool
        and block.milli_gpu >= size
        and cycle.nodes[block.node_id].state is NodeState.READY
        for block in cycle.blocks
    )


def parked_on(cycle: CycleState, parked: Parked) -> Node | None:
    """The node to which a parked notebook's memory goes back; None where its GPUs are not to be had."""
    node = cycle.nodes.get(parked.place.node_id)
    if node is None or node.state is not NodeState.READY:
        return None
    there = {device.device_id for device in node.devices}
    return node if there.issuperset(parked.place.device_ids) else None


def fits_empty(
    cycle: CycleState, workers: tuple[Worker, ...], pool: PoolName, *, all_usable: bool
) -> bool:
    """All of these would fit were nothing there; ``all_usable``: and if all nodes took work."""
    alike = {replace(worker, role="", index=0) for worker in workers}
    if len(alike) > 1:
        empty = _empty(cycle, all_usable=all_usable)
        return bool(place(empty, workers, HoldClass.OVER_QUOTA, pool))
    left = len(workers)
    nodes = _empty(cycle, all_usable=True) if all_usable else cycle.capacity
    for node in nodes.usable(pool):
        left -= capacity(node, workers[0])
        if left <= 0:
            return True
    return False


def fits_template_nodes(cycle: CycleState, workers: tuple[Worker, ...], pool: PoolName) -> bool:
    """All of these would fit on nodes that the pool may still get, and on those that take work."""

    def made() -> Capacity:
        nodes = cycle.nodes.values()
        return Capacity.of((*nodes, *template_nodes(cycle.pools[pool], nodes)), (), ())

    if cycle.pools[pool].growth is None:
        return False
    return bool(
        place(cycle.memo.remember(_SCALED_UP, pool, made), workers, HoldClass.OVER_QUOTA, pool)
    )


def _empty(cycle: CycleState, *, all_usable: bool) -> Capacity:
    """All nodes with nothing on them; made once for all who wait."""

    def made() -> Capacity:
        nodes = cycle.nodes.values()
        ready = (one.with_all_taking_work() for one in nodes)
        return Capacity.of(ready if all_usable else nodes, (), ())

    return cycle.memo.remember(_EMPTY, all_usable, made)


# --- quota -----------------------------------------------------------------------------------


def is_beyond_quota(cycle: CycleState, workload: Workload) -> bool:
    """It may not borrow and asks for more than the whole guarantee: nothing that ends helps it."""
    spec, need = workload.spec, milli_gpu(must_have(workload.spec))
    found = _quotas(cycle, spec)
    if not need or (spec.over_quota and any(one.over_quota_weight for one in found)):
        return False
    return guarantee_at_most(cycle, workload) < need


def guarantee_at_most(cycle: CycleState, workload: Workload) -> int:
    """The largest guarantee that it may use in one of its pools; 0 where it may use none."""
    if not unused_quota.entitled(cycle, workload):
        return 0
    found = _quotas(cycle, workload.spec)
    return max((one.guaranteed_milli_gpu for one in found), default=0)


def waits_for_budget(cycle: CycleState, workload: Workload) -> bool:
    """It asks for more than the whole guarantee, and a used-up budget alone keeps it from borrowing."""
    spec, need = workload.spec, milli_gpu(must_have(workload.spec))
    found = _quotas(cycle, spec)
    if not need or not any(borrows_but_for_budget(cycle, workload, one) for one in found):
        return False
    return max(one.guaranteed_milli_gpu for one in found) < need


def _quotas(cycle: CycleState, spec: Spec) -> list[Quota]:
    """Its team's, pool by pool."""
    return [cycle.quota_of(spec.team, pool) for pool in cycle.pools_of(spec)]


def borrows_but_for_budget(cycle: CycleState, workload: Workload, found: Quota) -> bool:
    """Its team's budget alone keeps it from borrowing by a quota."""
    team = cycle.teams.get(workload.spec.team)
    if team is None or team.may_borrow or not found.over_quota_weight:
        return False
    return workload.spec.over_quota
