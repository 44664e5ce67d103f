"""Slots whose card the agent of its node calls lost or in need of a reset. Pure.

Which card a free slot of whole GPUs will be, the device plugin decides: there its word counts, which
takes an unhealthy card from what the node offers. A slot that is held has a known card, and so has a
reservation of which nobody has a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.resources import Node, UnhealthyDevice
from gpucommons.scheduler.core.model.types import NodeId


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What is known of unhealthy cards."""

    #: Of nodes whose agent has said: by the UUID of each, with the driver's word.
    by_agents: Mapping[NodeId, Mapping[DeviceId, str]]
    #: Slots that were so when it was last known.
    on_record: Mapping[NodeId, tuple[UnhealthyDevice, ...]]
    #: The UUID of every slot that is held.
    cards: Mapping[DeviceId, DeviceId]


def with_unhealthy(nodes: Iterable[Node], told: Told) -> tuple[Node, ...]:
    """The same nodes; slots of unhealthy cards take nothing new."""
    return tuple(node.with_unhealthy(_said_of(node, told)) for node in nodes)


def _said_of(node: Node, told: Told) -> Mapping[DeviceId, str]:
    """The driver's word by slot. Where the agent is away, what was so counts: nobody says it is over."""
    said = told.by_agents.get(node.node_id)
    if said is None:
        return {one.device.device_id: one.text for one in told.on_record.get(node.node_id, ())}
    slots = (one.device_id for one in node.devices)
    return {one: said[told.cards[one]] for one in slots if told.cards.get(one) in said}
