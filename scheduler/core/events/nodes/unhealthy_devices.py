"""GPUs whose driver calls them lost or in need of a reset: one takes nothing new until it is well again.

What runs on it is told, and not stopped: it may need that GPU no more, or save what it has. A GPU that
is well again waits a moment before it takes work, as one that comes and goes would end each job anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events import fixed_blocks
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.resources import Node, UnhealthyDevice
from gpucommons.scheduler.core.model.types import Attempt, Millis, NodeId
from gpucommons.scheduler.core.stopping import grace

#: Well for so long, it takes work again.
WELL_FOR_MS = 60_000


def settled(node: Node, known: Node | None, now_ms: Millis) -> Node:
    """A node as its executor sees it, with what is known of its GPUs: since when, and who has to wait."""
    before = {} if known is None else {one.device.device_id: one for one in known.unhealthy}
    if not before and not node.unhealthy:
        return node
    ill = [_still(one, before.get(one.device.device_id), now_ms) for one in node.unhealthy]
    for device in node.devices:
        was = before.get(device.device_id)
        if was is not None:
            well_since_ms = now_ms if was.well_since_ms is None else was.well_since_ms
            ill.append(replace(was, device=device, well_since_ms=well_since_ms))
    return _without_recovered(node, tuple(ill), now_ms)


def _still(one: UnhealthyDevice, before: UnhealthyDevice | None, now_ms: Millis) -> UnhealthyDevice:
    return replace(one, since_ms=now_ms if before is None else before.since_ms)


def _without_recovered(node: Node, ill: tuple[UnhealthyDevice, ...], now_ms: Millis) -> Node:
    """The node on which these are ill, without those that were well for long enough."""
    left = tuple(one for one in ill if _recovers_ms(one, now_ms) > now_ms)
    waits = {one.device.device_id for one in left}
    there = {one.device_id: one for one in (*node.devices, *(one.device for one in ill))}
    devices = sorted(there.values(), key=lambda one: one.index)
    return replace(
        node,
        devices=tuple(one for one in devices if one.device_id not in waits),
        unhealthy=tuple(sorted(left, key=lambda one: one.device.index)),
    )


def _recovers_ms(one: UnhealthyDevice, now_ms: Millis) -> int:
    """When it takes work again, should it stay well; later than now while it is ill."""
    return now_ms + 1 if one.well_since_ms is None else one.well_since_ms + WELL_FOR_MS


def tell(cycle: CycleState, known: Node | None, node: Node) -> None:
    """Say which GPUs of a node became ill, and to whom; what has not started on one starts elsewhere."""
    before = set() if known is None else {one.device.device_id for one in known.unhealthy}
    for one in node.unhealthy:
        if one.device.device_id not in before:
            _tell_one(cycle, node, one)


def _tell_one(cycle: CycleState, node: Node, ill: UnhealthyDevice) -> None:
    device = ill.device
    which = f"GPU {device.index} of {node.node_id}"
    data = {"node": node.node_id, "device": device.device_id, "index": device.index}
    text = f'{which} takes nothing new: its driver says "{ill.text}".'
    cycle.tell("device-unhealthy", text, data=data)
    for workload, attempt in cycle.holders(cycle.index.holding):
        if not any(device.device_id in one.device_ids for one in attempt.placements):
            continue
        if attempt.started_ms is None and (attempt.stop is None or not attempt.stop.signalled):
            why = f"{which} became unhealthy before it ran there ({ill.text})"
            grace.stop_without_notice(cycle, workload, why=StopCause.LOST, text=why)
        else:
            cycle.tell("device-unhealthy", _said(node, ill), workload, data=data)


def _said(node: Node, ill: UnhealthyDevice) -> str:
    which = f"GPU {ill.device.index} of {node.node_id}"
    return f'{which}, which it has, is unhealthy: its driver says "{ill.text}". It is not stopped.'


def told_to(attempt: Attempt | None, nodes: Mapping[NodeId, Node]) -> list[str]:
    """What whoever runs is told of GPUs that it has, for as long as they are unhealthy."""
    placements = () if attempt is None else attempt.placements
    return list(
        dict.fromkeys(
            _said(nodes[each.node_id], one)
            for each in placements
            if each.node_id in nodes
            for one in nodes[each.node_id].unhealthy
            if one.device.device_id in each.device_ids and one.well_since_ms is None
        )
    )


def come_back(cycle: CycleState) -> None:
    """Let GPUs take work again that were well for long enough."""
    changed = False
    for node in [one for one in cycle.nodes.values() if one.unhealthy]:
        now = _without_recovered(node, node.unhealthy, cycle.now_ms)
        if now.unhealthy == node.unhealthy:
            continue
        cycle.nodes[node.node_id], changed = now, True
        tell_recovered(cycle, node, now)
    if changed:
        fixed_blocks.relay_out(cycle)


def tell_recovered(cycle: CycleState, known: Node, node: Node) -> None:
    """Say which GPUs of a node take work again."""
    there = {one.device_id for one in node.devices}
    for one in known.unhealthy:
        if one.device.device_id in there:
            text = f"GPU {one.device.index} of {node.node_id} is well again and takes work."
            data = {"node": node.node_id, "device": one.device.device_id}
            cycle.tell("device-back", text, data=data)


def next_times(cycle: CycleState) -> Iterator[Millis]:
    """When one that is well now takes work again."""
    for node in cycle.nodes.values():
        for one in node.unhealthy:
            if one.well_since_ms is not None:
                yield Millis(one.well_since_ms + WELL_FOR_MS)
