"""Nodes, and pairs of nodes, on which the same steps take longer than elsewhere.

They are noted from outside, as the core keeps no step times, and are over at a time that is noted with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.intents import NoteSlowNodes
from gpucommons.scheduler.core.model.resources import Node, SlowLink, SlowNode
from gpucommons.scheduler.core.model.types import Millis, NodeId


def note_slow_nodes(cycle: CycleState, action: NoteSlowNodes, by: str) -> None:
    """Which are slow now; all others are not."""
    for node_id, node in sorted(cycle.nodes.items()):
        _put(cycle, node, action.slow.get(node_id), action.links.get(node_id, ()), by)


def expire(cycle: CycleState) -> None:
    """Try again what was avoided for long enough."""
    for node in [one for one in cycle.nodes.values() if _until(one)]:
        slow = node.slow
        if slow is not None and slow.until_ms <= cycle.now_ms:
            slow = None
        links = tuple(one for one in node.slow_links if one.until_ms > cycle.now_ms)
        _put(cycle, node, slow, links, "scheduler")


def next_times(cycle: CycleState) -> Iterator[Millis]:
    """When one of them is tried again."""
    for node in cycle.nodes.values():
        yield from _until(node)


def _until(node: Node) -> list[Millis]:
    slow = () if node.slow is None else (node.slow,)
    return [one.until_ms for one in (*slow, *node.slow_links)]


def _put(
    cycle: CycleState, node: Node, slow: SlowNode | None, links: tuple[SlowLink, ...], by: str
) -> None:
    if (slow, links) == (node.slow, node.slow_links):
        return
    cycle.nodes[node.node_id] = replace(node, slow=slow, slow_links=links)
    if (slow is None) != (node.slow is None):
        cycle.tell("node-slow", _text(node, slow), by=by, data={"node": node.node_id})
    before, now = _others(node.slow_links), _others(links)
    for other in sorted(before ^ now):
        # Both nodes of a pair have it: one of them tells.
        if node.node_id < other:
            data = {"node": node.node_id, "other": other}
            cycle.tell("link-slow", _of_link(node, other, links), by=by, data=data)


def _others(links: Iterable[SlowLink]) -> set[NodeId]:
    return {one.other for one in links}


def _text(node: Node, slow: SlowNode | None) -> str:
    if slow is None:
        return f"{node.node_id} is avoided no more: it is not known to be slow."
    return (
        f"Steps take {slow.percent} % longer on {node.node_id} than the same steps elsewhere"
        f" ({_runs(slow)}): of equal nodes another is taken."
    )


def _of_link(node: Node, other: NodeId, links: Iterable[SlowLink]) -> str:
    link = next((one for one in links if one.other == other), None)
    pair = f"{node.node_id} and {other}"
    if link is None:
        return f"{pair} are avoided together no more: they are not known to be slow."
    return (
        f"Steps take {link.percent} % longer on {pair} together than the same steps on other pairs of nodes"
        f" ({_runs(link)}): a job on several nodes takes others where it can."
    )


def _runs(slow: SlowNode | SlowLink) -> str:
    jobs = "1 job" if slow.jobs == 1 else f"{slow.jobs} jobs"
    return f"{slow.runs} runs of {jobs}"
