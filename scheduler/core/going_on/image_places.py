"""Where a job can go on whose processes were saved: its image lies on one machine's disk.

An executor reaches what its own nodes saved, so any of its pools can wake it whose nodes can, and no
other. While there is such a pool the job is kept to those of its pools, also if another has a place
free. When there is none any more (the node is gone, or fenced, or cannot do it now), nothing is
waited for: the job may start in all its pools, the next weaker way, and that is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpucommons.scheduler.core.going_on.drill_verdict import as_asked
from gpucommons.scheduler.core.going_on.hibernating import (
    can_be_hibernated,
    hindrance_of,
    kept_image,
    most_mib_saved,
    node_hindrance,
    switched_off,
    too_long_to_save,
)
from gpucommons.scheduler.core.model.resources import Node, NodeState, Pool
from gpucommons.scheduler.core.model.types import NodeId, PoolName, Spec, Workload

Pools = Mapping[PoolName, Pool]
Nodes = Mapping[NodeId, Node]


def for_all_pools(workload: Workload) -> Spec:
    """What it asks for, with all that it was submitted for: its pools, and that it may borrow."""
    asked, spec = workload.submitted_pools, as_asked(workload)
    return replace(spec, pools=asked) if asked else spec


def able_pools(
    workload: Workload, names: tuple[PoolName, ...], pools: Pools, nodes: Nodes
) -> tuple[PoolName, ...]:
    """Those of these pools that can wake what is saved of it; none where none can, or nothing is."""
    return tuple(name for name in names if nodes_that_wake(workload, name, pools, nodes))


def nodes_that_wake(
    workload: Workload, name: PoolName, pools: Pools, nodes: Nodes
) -> tuple[Node, ...]:
    """Nodes of a pool that may wake what is saved of it, also those that take nothing now."""
    kept, pool = kept_image(workload), pools.get(name)
    if kept is None or pool is None or hindrance_of(workload.spec, pool):
        return ()
    place = kept[0].placements[0]
    home = _pool_unless_fenced(place.node_id, pools, nodes)
    if home is None or home.executor != pool.executor:
        return ()
    return tuple(
        node
        for node in nodes.values()
        if node.pool == name
        and node.state is not NodeState.FENCED
        and _may_wake(node, gpus=bool(place.device_ids))
    )


def why_not_woken(workload: Workload, pools: Pools, nodes: Nodes) -> str:
    """Why what is saved of a job that waits is woken nowhere; empty where it may be, or is not there."""
    kept = kept_image(workload)
    submitted = workload.submitted_pools or workload.spec.pools
    if kept is None or any(nodes_that_wake(workload, one, pools, nodes) for one in submitted):
        return ""
    place = kept[0].placements[0]
    node = nodes.get(place.node_id)
    if node is None:
        return f"{place.node_id}, on which its memory was saved, is gone"
    if node.state is NodeState.FENCED:
        return f"{place.node_id}, on which its memory was saved, was lost and fenced"
    pool = pools.get(node.pool)
    if pool is None:
        return f"the pool {node.pool}, in which its memory was saved, is gone"
    hindrance = hindrance_of(workload.spec, pool)
    return hindrance or node_hindrance(node, gpus=bool(place.device_ids))


def hindered_since(workload: Workload, pools: Pools, nodes: Nodes) -> str:
    """Why what could be saved or woken when its last attempt began can't be any more; empty = it can."""
    current = workload.current
    if current is None:
        return why_not_woken(workload, pools, nodes)
    place = current.placements[0]
    node = nodes.get(place.node_id)
    pool = None if node is None else pools.get(node.pool)
    if node is None or pool is None:
        return ""
    if current.started_ms is None and kept_image(workload) is not None:
        # It is on its way to that place, and is woken there or nowhere.
        hindrance = hindrance_of(workload.spec, pool)
        gpus = bool(place.device_ids)
        return hindrance or ("" if _may_wake(node, gpus=gpus) else node_hindrance(node, gpus=gpus))
    if not can_be_hibernated(workload, current):
        return ""
    return switched_off(pool) or too_long_to_save(workload, current, pool.grace_ms)


def most_mib_saved_of(workload: Workload, pools: Pools, nodes: Nodes) -> int | None:
    """Up to how much memory what runs would be saved, where its own was not seen yet; else None."""
    current = workload.current
    if current is None or not can_be_hibernated(workload, current):
        return None
    pool = _pool_unless_fenced(current.placements[0].node_id, pools, nodes)
    return None if pool is None else most_mib_saved(workload, current, pool.grace_ms)


def _may_wake(node: Node, *, gpus: bool) -> bool:
    """A node of which it is not known (yet) still may: its executor starts nothing before it is."""
    return node.hibernation is None or not node_hindrance(node, gpus=gpus)


def _pool_unless_fenced(node_id: NodeId, pools: Pools, nodes: Nodes) -> Pool | None:
    node = nodes.get(node_id)
    return None if node is None or node.state is NodeState.FENCED else pools.get(node.pool)
