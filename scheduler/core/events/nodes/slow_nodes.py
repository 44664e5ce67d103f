"""Nodes, and pairs of nodes, on which the same steps take longer than elsewhere.

They are noted from outside, as the core keeps no step times, and are over at a time that is noted with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.intents import NoteSlowNodes
from gpucommons.scheduler.core.model.resources import Node, SlowNode, SlowPair
from gpucommons.scheduler.core.model.types import Millis, NodeId


def note_slow_nodes(cycle: CycleState, action: NoteSlowNodes, by: str) -> None:
    """Which are slow now; all others are not."""
    for node_id, node in sorted(cycle.nodes.items()):
        _put(cycle, node, action.slow.get(node_id), action.slow_pairs.get(node_id, ()), by)


def expire(cycle: CycleState) -> None:
    """Try again what was avoided for long enough."""
    for node in [one for one in cycle.nodes.values() if _until(one)]:
        slow = node.slow
        if slow is not None and slow.until_ms <= cycle.now_ms:
            slow = None
        pairs = tuple(one for one in node.slow_pairs if one.slow.until_ms > cycle.now_ms)
        _put(cycle, node, slow, pairs, "scheduler")


def next_times(cycle: CycleState) -> Iterator[Millis]:
    """When one of them is tried again."""
    for node in cycle.nodes.values():
        yield from _until(node)


def _until(node: Node) -> list[Millis]:
    slow = () if node.slow is None else (node.slow,)
    return [one.until_ms for one in (*slow, *(pair.slow for pair in node.slow_pairs))]


def _put(
    cycle: CycleState, node: Node, slow: SlowNode | None, pairs: tuple[SlowPair, ...], by: str
) -> None:
    if (slow, pairs) == (node.slow, node.slow_pairs):
        return
    cycle.nodes[node.node_id] = replace(node, slow=slow, slow_pairs=pairs)
    if (slow is None) != (node.slow is None):
        text = _over(node, cycle.now_ms) if slow is None else _of_node(node, slow)
        cycle.tell("node-slow", text, by=by, data={"node": node.node_id})
    before, now = _by_other(node.slow_pairs), _by_other(pairs)
    for other in sorted(before.keys() ^ now.keys()):
        # Both nodes of a pair have it: one of them tells.
        if node.node_id < other:
            names = f"{node.node_id} and {other}"
            text = (
                _of_pair(names, now[other])
                if other in now
                else _pair_over(names, before[other], cycle.now_ms)
            )
            data = {"node": node.node_id, "other": other}
            cycle.tell("pair-slow", text, by=by, data=data)


def _by_other(pairs: Iterable[SlowPair]) -> dict[NodeId, SlowNode]:
    return {one.other: one.slow for one in pairs}


def _over(node: Node, now_ms: Millis) -> str:
    """At its time nothing shows that it has become faster."""
    if node.slow is not None and node.slow.until_ms <= now_ms:
        return f"{node.node_id} is avoided no more: its time is over, and it is tried again."
    return f"{node.node_id} is avoided no more: it is not known to be slow."


def _pair_over(names: str, before: SlowNode, now_ms: Millis) -> str:
    if before.until_ms <= now_ms:
        return (
            f"{names} are avoided together no more: their time is over, and they are tried again."
        )
    return f"{names} are avoided together no more: they are not known to be slow."


def _of_node(node: Node, slow: SlowNode) -> str:
    return (
        f"Steps take {slow.percent} % longer on {node.node_id} than the same steps elsewhere"
        f" ({_runs(slow)}): of equal nodes another is taken."
    )


def _of_pair(names: str, slow: SlowNode) -> str:
    return (
        f"Steps take {slow.percent} % longer on {names} together than the same steps on other pairs of nodes"
        f" ({_runs(slow)}): a job on several nodes first looks for others."
    )


def _runs(slow: SlowNode) -> str:
    jobs = "1 job" if slow.jobs == 1 else f"{slow.jobs} jobs"
    return f"{slow.runs} runs of {jobs}"
