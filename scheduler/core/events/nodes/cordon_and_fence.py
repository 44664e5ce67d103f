"""Cordon, uncordon and fence a node, and what an admin's word that a node is fenced ends."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events import fixed_blocks, parking
from gpucommons.scheduler.core.events.endings import end_unseen
from gpucommons.scheduler.core.events.known import known_node
from gpucommons.scheduler.core.model.eviction_cause import StopCause, stop_cause
from gpucommons.scheduler.core.model.intents import SetNodeState
from gpucommons.scheduler.core.model.resources import Node, NodeState
from gpucommons.scheduler.core.model.state_words import node_words
from gpucommons.scheduler.core.stopping import grace
from gpucommons.scheduler.errors import Conflict


def set_node_state(cycle: CycleState, action: SetNodeState, by: str) -> None:
    """Cordon, uncordon or fence a node."""
    node = known_node(cycle, action.node_id)
    to_cordon = action.state is NodeState.CORDONED
    if node.state is action.state and (not to_cordon or cordoned_here(node)):
        return
    if action.state is NodeState.READY and node.cordoned_outside:
        message = f"{node.node_id} is cordoned in its cluster: lift that there (kubectl uncordon)."
        raise Conflict(message)
    cycle.nodes[node.node_id] = replace(
        node,
        state=action.state,
        cordoned_outside=False,
        cordoned_here=to_cordon,
        state_text="" if action.state is NodeState.READY else action.text,
        leaves_ms=None if action.state is NodeState.READY else node.leaves_ms,
    )
    cycle.tell(
        "node-" + action.state,
        f"{node.node_id} was: {node_words(node.state)}; is: {node_words(action.state)}. {action.text}".rstrip(),
        by=by,
        data={"node": node.node_id, "old": node.state, "new": action.state},
    )
    fixed_blocks.relay_out(cycle)


def end_on_fenced_nodes(cycle: CycleState) -> None:
    """An admin has stated that nothing runs on a fenced node: what ran only there has ended."""
    fenced = {n.node_id for n in cycle.nodes.values() if n.state is NodeState.FENCED}
    if not fenced:
        return
    parking.end_on(cycle, fenced)
    for workload, attempt in cycle.holders(cycle.index.holding):
        nodes = {one.node_id for one in attempt.placements}
        lost = ", ".join(sorted(nodes & fenced))
        if nodes <= fenced:
            end_unseen(cycle, workload, f"Its node {lost} was lost and fenced")
        elif nodes & fenced and stop_cause(attempt) != StopCause.LOST:
            grace.stop_without_notice(
                cycle, workload, why=StopCause.LOST, text=f"A node of its gang, {lost}, was lost"
            )


def cordoned_here(node: Node) -> bool:
    """An admin's word: of what an earlier version stored, a cordon that is not the cluster's."""
    unsaid = node.cordoned_outside or node.leaves_ms is not None
    return node.cordoned_here or (node.state is NodeState.CORDONED and not unsaid)
