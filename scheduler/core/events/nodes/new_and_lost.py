"""What an executor says of its nodes: new ones, changed ones, lost ones, and those that are gone."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events import fixed_blocks
from gpucommons.scheduler.core.events.nodes import spot_notice, unhealthy_devices
from gpucommons.scheduler.core.events.nodes.cordon_and_fence import cordoned_here
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.lifecycle import with_attempt
from gpucommons.scheduler.core.model.resources import Node, NodeState
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import NodeId
from gpucommons.scheduler.core.stopping import grace

#: A node that its executor has no more is kept for so long: a machine in repair comes back, and its
#: history is looked at. An autoscaler's nodes have new names each time.
FORGOTTEN_AFTER_MS = 24 * 3_600_000


def observe_nodes(cycle: CycleState, seen: NodesObserved) -> None:
    """Take over what an executor says of its nodes; a missing one is lost, an admin's word stays."""
    present = {node.node_id: node for node in seen.nodes}
    changed = False
    for node_id, node in sorted(present.items()):
        changed |= _put_node(cycle, node, cycle.nodes.get(node_id))
    for node_id, node in sorted(cycle.nodes.items()):
        pool = cycle.pools.get(node.pool)
        ours = pool is not None and pool.executor == seen.executor
        if ours and node_id not in present:
            changed |= _miss_node(cycle, node)
    if changed:
        fixed_blocks.relay_out(cycle)


def _miss_node(cycle: CycleState, node: Node) -> bool:
    """A node that its executor has no more: lost at first, forgotten when nothing is left of it."""
    node_id = node.node_id
    if node.missing_since_ms is None:
        node = cycle.nodes[node_id] = replace(node, missing_since_ms=cycle.now_ms)
    if node.state in {NodeState.READY, NodeState.CORDONED}:
        here = cordoned_here(node)
        cycle.nodes[node_id] = replace(node, state=NodeState.LOST, cordoned_here=here)
        cycle.tell(
            "node-lost",
            f"{node_id} is not heard of: what ran there counts as live until it is fenced.",
            data={"node": node_id},
        )
        return True
    missing_ms = cycle.now_ms - (node.missing_since_ms or cycle.now_ms)
    if missing_ms < FORGOTTEN_AFTER_MS or _is_in_use(cycle, node_id):
        return False
    del cycle.nodes[node_id]
    cycle.tell("node-forgotten", f"{node_id} is gone for good.", data={"node": node_id})
    return True


def _is_in_use(cycle: CycleState, node_id: NodeId) -> bool:
    """Somebody holds a place on it, was promised one, or has fixed quota there."""
    attempts = (attempt for _, attempt in cycle.holders(cycle.index.holding))
    promises = (w.nomination for w in cycle.among(cycle.index.nominated))
    held = (one for holder in (*attempts, *promises) if holder for one in holder.placements)
    return any(one.node_id == node_id for one in held) or any(
        block.node_id == node_id for block in cycle.blocks
    )


def _put_node(cycle: CycleState, node: Node, known: Node | None) -> bool:
    node = unhealthy_devices.settled(node, known, cycle.now_ms)
    node = _with_state(spot_notice.settled(node, known, cycle.now_ms), known)
    if known is not None and (known.slow is not None or known.slow_pairs):
        node = replace(node, slow=known.slow, slow_pairs=known.slow_pairs)
    if node == known:
        return False
    cycle.nodes[node.node_id] = node
    if node.leaves_ms is not None and (known is None or known.leaves_ms != node.leaves_ms):
        spot_notice.begin(cycle, node)
    if known is not None:
        _end_on_lost_devices(cycle, known, node)
        unhealthy_devices.tell_recovered(cycle, known, node)
        _follow_speed(cycle, known, node)
    unhealthy_devices.tell(cycle, known, node)
    if known is None:
        cycle.tell("node-added", f"{node.node_id} joined {node.pool}.", data={"node": node.node_id})
    elif known.state is NodeState.LOST:
        cycle.tell("node-back", f"{node.node_id} is back.", data={"node": node.node_id})
    else:
        cycle.tell("node-changed", f"{node.node_id} changed.", data={"node": node.node_id})
    return True


def _with_state(node: Node, known: Node | None) -> Node:
    """An admin's word stays; a cordon of the cluster comes and goes with the report."""
    if known is not None and known.state is NodeState.FENCED:
        return replace(node, state=NodeState.FENCED, state_text=known.state_text)
    here = known is not None and cordoned_here(known)
    outside = node.state is NodeState.CORDONED
    closed = here or outside or node.leaves_ms is not None
    state = NodeState.CORDONED if closed else NodeState.READY
    text = known.state_text if known is not None and here else ""
    return replace(node, state=state, cordoned_outside=outside, cordoned_here=here, state_text=text)


def _follow_speed(cycle: CycleState, before: Node, now: Node) -> None:
    """What saves have taught of a node's disk holds for what runs there, too."""
    told, said = before.hibernation, now.hibernation
    if told is None or said is None or not said.save_mib_per_s:
        return
    if said.save_mib_per_s == told.save_mib_per_s:
        return
    for workload, attempt in cycle.holders(cycle.index.holding):
        known = attempt.hibernation
        if known is None or known.hindrance or not known.save_mib_per_s:
            continue
        if attempt.placements[0].node_id == now.node_id:
            known = replace(known, save_mib_per_s=said.save_mib_per_s)
            cycle.put(with_attempt(workload, evolve(attempt, hibernation=known)))


def _end_on_lost_devices(cycle: CycleState, before: Node, now: Node) -> None:
    """A device that a live node no longer has: who held it computes on nothing, and is ended."""
    gone = {d.device_id for d in before.all_devices} - {d.device_id for d in now.all_devices}
    if not gone:
        return
    for workload, attempt in cycle.holders(cycle.index.holding):
        if attempt.stop is not None and attempt.stop.signalled:
            continue
        lost = [d for one in attempt.placements for d in one.device_ids if d in gone]
        if lost:
            text = f"Its GPU {', '.join(sorted(lost))} is gone from {now.node_id}"
            grace.stop_without_notice(cycle, workload, why=StopCause.LOST, text=text)
