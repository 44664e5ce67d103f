"""Scale-up: which nodes an autoscaler is to bring to each pool, decided by a real cycle as if they were there.

So quotas, budgets, prices and the order of the line hold for template nodes as for those that are there: no
node is brought for work that would not get it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.model.demand import bounds, elastic, on_cpu_only
from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES, is_lease
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, NodeId, PoolName, Workload
from gpucommons.scheduler.core.quota.template_nodes import has_arrived, template_nodes


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleUp:
    """What was found, and for which nodes: one that has come since is not to be brought again."""

    nodes: Mapping[PoolName, tuple[Node, ...]] = field(default_factory=dict)
    known: frozenset[NodeId] = frozenset()


def plan_scale_up(cluster: Cluster, now_ms: Millis) -> ScaleUp:
    """The nodes on which work that waits would start, were all there that may still come.

    An elastic job has nodes brought for its fewest workers; it takes more where there are more.
    """
    known = arrived_nodes(cluster)
    templates = {
        name: found
        for name, pool in cluster.pools.items()
        if (found := template_nodes(pool, cluster.nodes.values()))
    }
    waiting = [one for one in cluster.workloads.values() if _waits(one, templates)]
    if not waiting:
        return ScaleUp(known=known)
    used = _used(cluster, waiting, templates, now_ms)
    nodes = {
        name: taken
        for name, found in templates.items()
        if (taken := tuple(node for node in found if node.node_id in used))
    }
    return ScaleUp(nodes=nodes, known=known)


def arrived_nodes(cluster: Cluster) -> frozenset[NodeId]:
    """Nodes that nobody waits for any more."""
    return frozenset(name for name in cluster.nodes if takes_work(cluster, name))


def takes_work(cluster: Cluster, node_id: NodeId) -> bool:
    """Whether a node is there and offers what it was brought for."""
    node = cluster.nodes.get(node_id)
    pool = None if node is None else cluster.pools.get(node.pool)
    return node is not None and has_arrived(node, None if pool is None else pool.growth)


def _waits(workload: Workload, templates: Mapping[PoolName, tuple[Node, ...]]) -> bool:
    """A job for one of these pools, to which nothing is promised yet.

    Quotas, budgets and prices are of GPUs: work without them is held by none, so it brings no node that has
    some.
    """
    spec = workload.spec
    return (
        workload.state in WAITING_STATES
        and workload.nomination is None
        and not is_lease(workload)
        and any(
            pool in spec.pools and not (on_cpu_only(spec) and found[0].devices)
            for pool, found in templates.items()
        )
    )


def _used(
    cluster: Cluster,
    waiting: Iterable[Workload],
    templates: Mapping[PoolName, tuple[Node, ...]],
    now_ms: Millis,
) -> set[NodeId]:
    """Nodes that jobs which wait would get something of."""
    asked = {one.workload_id: _smallest(one) for one in waiting}
    more = {node.node_id: node for found in templates.values() for node in found}
    outcome = advance(
        replace(
            cluster.apart(),
            nodes={**cluster.nodes, **more},
            workloads={**cluster.workloads, **asked},
        ),
        (),
        (),
        now_ms=now_ms,
        new_ids=(f"scale-up-{number}" for number in count(1)),
        explain=False,
    )
    started = (outcome.cluster.workloads.get(one) for one in asked)
    return {
        placement.node_id
        for one in started
        if one is not None and one.current is not None
        for placement in one.current.placements
    }


def _smallest(workload: Workload) -> Workload:
    spec = workload.spec
    if not elastic(spec):
        return workload
    low, _ = bounds(spec)
    first, *others = spec.roles
    roles = (replace(first, count=low), *others)
    return replace(workload, spec=replace(spec, roles=roles, min_workers=None, max_workers=None))
