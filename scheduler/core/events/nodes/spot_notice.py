"""A node that its cloud takes back: it takes nothing new, and what runs there goes on elsewhere.

Each second is for saving. So all are told at once, and have until shortly before the node goes: by
SIGTERM, or by the signal that they ask for with a notice, and SIGTERM later. Processes are saved whole
where that fits. Notebooks save what they can of their kernels, as at every stop.
"""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events import fixed_blocks, leases
from gpucommons.scheduler.core.events.known import known_node
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.intents import Cancel, NoticeNode
from gpucommons.scheduler.core.model.lifecycle import is_lease, with_attempt
from gpucommons.scheduler.core.model.resources import Node, NodeState
from gpucommons.scheduler.core.model.types import Attempt, Millis, Workload
from gpucommons.scheduler.core.stopping import notice

#: Before the node goes, for the last reports to come through.
MARGIN_MS = 5_000


def notice_node(cycle: CycleState, action: NoticeNode, by: str) -> None:
    """A node's cloud takes it back: it takes nothing new, and what runs there ends."""
    node = known_node(cycle, action.node_id)
    if node.leaves_ms == action.leaves_ms:
        return
    state = NodeState.CORDONED if node.state is NodeState.READY else node.state
    node = cycle.nodes[node.node_id] = replace(node, state=state, leaves_ms=action.leaves_ms)
    begin(cycle, node, by)
    fixed_blocks.relay_out(cycle)


def begin(cycle: CycleState, node: Node, by: str = "scheduler") -> None:
    """A node is to be taken back, or sooner than was known: end all that runs on it."""
    text = in_words(node, cycle.now_ms)
    data = {"node": node.node_id, "leaves_ms": node.leaves_ms}
    cycle.tell("node-leaves", f"{text[:1].upper()}{text[1:]}.", by=by, data=data)
    for workload, attempt in cycle.holders(cycle.index.holding):
        if all(one.node_id != node.node_id for one in attempt.placements):
            continue
        if is_lease(workload):
            cancel = Cancel(
                workload_id=workload.workload_id, why=StopCause.SPOT, text=text.capitalize()
            )
            leases.end(cycle, workload, cancel, by)
        else:
            _end(cycle, workload, attempt, node)


def in_words(node: Node, now_ms: int) -> str:
    """As a clause: ``the cloud takes node-3 back in 120 s``."""
    seconds = max(0, (node.leaves_ms or now_ms) - now_ms) // 1000
    return f"the cloud takes {node.node_id} back in {seconds} s"


def _end(cycle: CycleState, workload: Workload, attempt: Attempt, node: Node) -> None:
    by_ms = Millis(max(cycle.now_ms, (node.leaves_ms or cycle.now_ms) - MARGIN_MS))
    stop = attempt.stop
    if stop is not None and stop.signalled:
        # It ends for another reason, and has less time for that.
        sooner = evolve(stop, kill_ms=Millis(min(stop.kill_ms, by_ms)))
        cycle.put(with_attempt(workload, evolve(attempt, stop=sooner)))
        return
    text = f"because {in_words(node, cycle.now_ms)}"
    if stop is not None and stop.why == StopCause.SPOT:
        by_ms = Millis(min(by_ms, stop.kill_ms))  # another of its nodes may go sooner
    notice.end_soon(cycle, workload, why=StopCause.SPOT, text=text, by_ms=by_ms)


def settled(node: Node, known: Node | None, now_ms: Millis) -> Node:
    """What is known of its leaving: a notice stands until the node has been away, or an admin lifts it."""
    if known is None or known.missing_since_ms is not None:
        return replace(node, told_leaves_ms=node.leaves_ms)
    if node.leaves_ms is not None:
        # An executor that was started anew counts from then; what it told before stands.
        told_ms = min(one for one in (node.leaves_ms, known.told_leaves_ms) if one is not None)
        node = replace(node, leaves_ms=told_ms, told_leaves_ms=told_ms)
    if known.leaves_ms is None and node.leaves_ms is not None and node.leaves_ms <= now_ms:
        # It was lifted, and the node has outlived it: what has started since stays.
        return replace(node, leaves_ms=None)
    times = [one.leaves_ms for one in (node, known) if one.leaves_ms is not None]
    return replace(node, leaves_ms=min(times, default=None))
