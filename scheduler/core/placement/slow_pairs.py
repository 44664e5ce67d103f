"""Which nodes a job on several nodes first tries to do without: one of each slow pair.

A wish, and no rule: where what is left has no room for the whole job, it takes what there is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import NodeId


def ways_around(nodes: Collection[Node]) -> Iterator[frozenset[NodeId]]:
    """Sets of nodes without which no slow pair is left; none where there is no slow pair.

    Those in most slow pairs go first; of equals the last by name, then the first, so that either end of
    a single pair is tried.
    """
    here = {one.node_id for one in nodes}
    pairs = {
        frozenset((node.node_id, link.other))
        for node in nodes
        for link in node.slow_pairs
        if link.other in here
    }
    if not pairs:
        return
    found = [_cover(pairs, last=True), _cover(pairs, last=False)]
    yield from dict.fromkeys(found)


def _cover(pairs: Collection[frozenset[NodeId]], *, last: bool) -> frozenset[NodeId]:
    left, taken = set(pairs), set[NodeId]()
    while left:
        links = {one: sum(one in pair for pair in left) for pair in left for one in pair}
        most = max(links.values())
        chosen = (max if last else min)(one for one, count in links.items() if count == most)
        taken.add(chosen)
        left = {pair for pair in left if chosen not in pair}
    return frozenset(taken)
