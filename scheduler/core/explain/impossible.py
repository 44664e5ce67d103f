"""What would not start even on empty nodes, and what of it is missing there.

Nodes that take nothing new may do so again: what would fit on them is not asked to be smaller, it
waits for them.
"""

from __future__ import annotations

from datetime import UTC, datetime

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.explain import host_resources
from gpucommons.scheduler.core.model.demand import must_have
from gpucommons.scheduler.core.model.resources import Node, NodeState
from gpucommons.scheduler.core.model.types import (
    PoolName,
    Reason,
    ReasonClass,
    Workload,
)
from gpucommons.scheduler.core.placement.can_start import fits_empty, has_block

#: So many nodes are named.
_NAMED = 3
#: Why each of them takes nothing new, told of several at once.
_OUT = {
    NodeState.CORDONED: "takes nothing new",
    NodeState.LOST: "is away",
    NodeState.FENCED: "is fenced by an admin",
}


def fits_nowhere(cycle: CycleState, workload: Workload) -> Reason | None:
    """It would not even fit if nothing ran."""
    spec, pools = workload.spec, cycle.pools_of(workload.spec)
    if any(fits_empty(cycle, must_have(spec), pool, all_usable=False) for pool in pools):
        return None
    back = [p for p in pools if fits_empty(cycle, must_have(spec), p, all_usable=True)]
    if back:
        return waits_for_nodes(cycle, workload, back[0])
    kinds = sorted({role.gpu_kind for role in spec.roles if role.gpu_kind})
    nodes = [node for node in cycle.nodes.values() if node.pool in pools]
    there = {device.kind for node in nodes for device in node.devices}
    where = f"pool{'s' if len(pools) > 1 else ''} {', '.join(pools)}"
    missing = [kind for kind in kinds if kind not in there]
    if missing:
        text = f"There is no {missing[0]} in {where}; there is: {', '.join(sorted(there)) or 'no GPU'}."
        return Reason(code=ReasonClass.KIND, text=text)
    most = max((len(node.devices) for node in nodes), default=0)
    cpu = max((node.cpu_milli for node in nodes), default=0)
    memory = max((node.memory_mib for node in nodes), default=0)
    text = (
        f"Needs {host_resources.ask_in_words(workload)}, which {where} cannot give even when empty: its nodes have at"
        f" most {format_gpus(most * WHOLE_MILLI_GPU)}, {cpu / 1000:g} cores and {memory / 1024:.3g} GiB each."
    )
    return Reason(code=ReasonClass.MISCONFIGURED, text=text, unblock="Submit it smaller.")


def has_its_block_out(cycle: CycleState, workload: Workload, pool: PoolName) -> bool:
    """A notebook's part of fixed quota lies nowhere, as nodes take nothing new: blocks leave those."""
    return (
        not has_block(cycle, workload, pool)
        and any(n.pool == pool and _is_out(n) for n in cycle.nodes.values())
        and fits_empty(cycle, must_have(workload.spec), pool, all_usable=True)
    )


def _is_out(node: Node) -> bool:
    """It takes nothing new, or does not on all of its GPUs."""
    return node.state is not NodeState.READY or bool(node.unhealthy)


def waits_for_nodes(cycle: CycleState, workload: Workload, pool: PoolName) -> Reason:
    """It would fit, were it not for nodes that take nothing new."""
    nodes = [one for one in cycle.nodes.values() if one.pool == pool]
    out = sorted((one for one in nodes if _is_out(one)), key=lambda one: one.node_id)
    said = [f"{one.node_id} {_why_out(one)}" for one in out[:_NAMED]]
    if len(out) > _NAMED:
        said.append(f"{len(out) - _NAMED} more of its nodes take nothing new either")
    text = f"Needs {host_resources.ask_in_words(workload)}, and in pool {pool} {'; '.join(said)}."
    cordoned = [one for one in out if one.state is NodeState.CORDONED and not one.cordoned_outside]
    by_hand = any(one.leaves_ms is None for one in cordoned)
    ill = all(one.state is NodeState.READY for one in out)
    unblock = f"Wait until a {'GPU' if ill else 'node'} takes work again"
    if by_hand or ill:
        unblock += f", or ask an admin to {'look at it' if ill else 'uncordon it'}"
    unblock += "."
    return Reason(code=ReasonClass.NODES, text=text, unblock=unblock)


def _why_out(node: Node) -> str:
    """``takes nothing new: an admin cordoned it``."""
    if node.state is NodeState.READY:
        ill = "; ".join(f"GPU {one.device.index}: {one.text}" for one in node.unhealthy)
        return f"gives out {len(node.devices)} of its {len(node.all_devices)} GPUs ({ill})"
    words = _OUT[node.state]
    if node.state is not NodeState.CORDONED:
        return words
    if node.leaves_ms is not None:
        at = datetime.fromtimestamp(node.leaves_ms / 1000, UTC)
        return f"{words}: the cloud takes it back at {at:%H:%M} UTC"
    return f"{words}: {'its cluster' if node.cordoned_outside else 'an admin'} cordoned it"
