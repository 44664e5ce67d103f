"""Where a job would rather run: near other jobs, and where the data lies that it reads.

Wishes never decide whether a job starts, or in how tight a part of the pool its gang lies; among
places that are equal in that they go before what packing would like best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import NodeId, Spec, Workload, WorkloadId

#: How much each node is wished for; nodes that are left out are not.
Affinity = Mapping[NodeId, int]
NONE: Affinity = {}
#: On the very node, or only in its rack.
_HERE, _CLOSE = 2, 1
#: Slow together with them: after any other.
_SLOW = -1


def affinity_of(
    spec: Spec, nodes: Mapping[NodeId, Node], workloads: Mapping[WorkloadId, Workload]
) -> Affinity:
    """How much a job wishes for each node: each job it wants to be near and each set of data count
    alike, on the node itself twice as much as in the same rack.
    """
    if not spec.near and not spec.data:
        return NONE
    found: Counter[NodeId] = Counter()
    for workload_id in spec.near:
        workload = workloads.get(workload_id)
        attempt = None if workload is None else workload.current
        if attempt is not None:
            _add(found, {one.node_id for one in attempt.placements}, nodes)
    for name in spec.data:
        _add(found, {node.node_id for node in nodes.values() if name in node.data}, nodes)
    return found


def beside(affinity: Affinity, there: Iterable[NodeId], nodes: Mapping[NodeId, Node]) -> Affinity:
    """The same for more workers of a job that has some on these nodes: what is near to them goes before
    any wish, and what is slow together with them after all else.
    """
    near: Counter[NodeId] = Counter()
    have = set(there)
    _add(near, have, nodes)
    for node_id in have & nodes.keys():
        for pair in nodes[node_id].slow_pairs:
            if pair.other not in have:
                near[pair.other] = _SLOW
    most = 1 + max(affinity.values(), default=0)
    return {
        one: most * near.get(one, 0) + affinity.get(one, 0) for one in near.keys() | affinity.keys()
    }


def _add(found: Counter[NodeId], there: Iterable[NodeId], nodes: Mapping[NodeId, Node]) -> None:
    here = {node_id for node_id in there if node_id in nodes}
    racks = {nodes[node_id].rack for node_id in here} - {None}
    for node_id, node in nodes.items():
        if node_id in here:
            found[node_id] += _HERE
        elif node.rack in racks:
            found[node_id] += _CLOSE


def in_order(node_ids: Iterable[NodeId], affinity: Affinity) -> list[int]:
    """The different amounts of wishing among these nodes, the most first."""
    return sorted({affinity.get(node_id, 0) for node_id in node_ids}, reverse=True)
