"""Which nodes a job on several nodes first tries to do without: one of each slow pair.

A wish, and no rule: where what is left has no room for the whole job, it takes what there is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import NodeId


def ways_around(nodes: Collection[Node]) -> Iterator[frozenset[NodeId]]:
    """Sets of nodes without which no slow pair is left; none where there is no slow pair.

    Those in most slow pairs go first; of equals the last by name, then the first, so that either end of
    a single pair is tried. A node that takes none of the job is in nobody's way: leave it out of `nodes`.
    """
    here = {one.node_id for one in nodes}
    others: defaultdict[NodeId, set[NodeId]] = defaultdict(set)
    for node in nodes:
        for other in {pair.other for pair in node.slow_pairs} & here:
            others[node.node_id].add(other)
            others[other].add(node.node_id)
    if not others:
        return
    found = [_cover(others, last=True), _cover(others, last=False)]
    yield from dict.fromkeys(found)


def _cover(others: Mapping[NodeId, Collection[NodeId]], *, last: bool) -> frozenset[NodeId]:
    left = {node_id: set(found) for node_id, found in others.items()}
    taken = set[NodeId]()
    while left:
        most = max(map(len, left.values()))
        chosen = (max if last else min)(one for one, found in left.items() if len(found) == most)
        taken.add(chosen)
        for other in left.pop(chosen):
            left[other].discard(chosen)
            if not left[other]:
                del left[other]
    return frozenset(taken)
