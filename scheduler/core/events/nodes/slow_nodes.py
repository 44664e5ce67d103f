"""Nodes on which the same steps take longer than elsewhere: noted from outside, as the core keeps no step times."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.intents import NoteSlowNodes
from gpucommons.scheduler.core.model.resources import Node, SlowNode


def note_slow_nodes(cycle: CycleState, action: NoteSlowNodes, by: str) -> None:
    """Which nodes are slow now; all others are not."""
    for node_id, node in sorted(cycle.nodes.items()):
        slow = action.slow.get(node_id)
        if slow == node.slow:
            continue
        cycle.nodes[node_id] = replace(node, slow=slow)
        if (slow is None) != (node.slow is None):
            cycle.tell("node-slow", _text(node, slow), by=by, data={"node": node_id})


def _text(node: Node, slow: SlowNode | None) -> str:
    if slow is None:
        return f"{node.node_id} is avoided no more: it is not known to be slow."
    jobs = "1 job" if slow.jobs == 1 else f"{slow.jobs} jobs"
    return (
        f"Steps take {slow.percent} % longer on {node.node_id} than the same steps elsewhere"
        f" ({slow.runs} runs of {jobs}): of equal nodes another is taken."
    )
