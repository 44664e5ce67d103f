"""Which cards run work of ours, and whether the reservations that should hold them still do. Pure.

A reservation that is made anew may be given another card than the one that its slot's pods run on. That
card is then free for anybody whom the device plugin gives it to, and the new one is nobody's whom we told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.types import NodeId

#: A slot, and the UUID that a pod there was told.
Use = tuple[DeviceId, str]
_KNOWN = ("GPU-", "MIG-")


def uses_of(slots: str, cards: str) -> tuple[Use, ...]:
    """The cards that a pod was told, by slot; none where the device plugin chose them."""
    told = [card for card in cards.split(",") if card.startswith(_KNOWN)]
    places = [DeviceId(slot) for slot in slots.split(",") if slot]
    return tuple(zip(places, told, strict=True)) if len(places) == len(told) else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CardsInUse:
    """What runs where, against what is reserved."""

    #: By slot, what its pods were told.
    used: Mapping[DeviceId, frozenset[str]] = field(default_factory=dict)
    #: By slot, what its reservation says that it holds.
    reserved: Mapping[DeviceId, str] = field(default_factory=dict)
    #: Slots whose reservation holds another card than what runs on them, or one of another slot's.
    at_odds: Mapping[DeviceId, frozenset[str]] = field(default_factory=dict)
    #: Nodes where a card in use is held by no reservation: the device plugin may give it away.
    open_nodes: frozenset[NodeId] = frozenset()


def cards_in_use(
    uses: Iterable[Use], reserved: Mapping[DeviceId, str], *, unasked: Container[DeviceId] = ()
) -> CardsInUse:
    """Put together what the pods were told; ``unasked`` reservations have not said yet what they hold."""
    used, users = defaultdict[DeviceId, set[str]](set), defaultdict[str, set[DeviceId]](set)
    for slot, card in uses:
        used[slot].add(card)
        users[card].add(slot)
    at_odds = {}
    for slot, card in reserved.items():
        other = used.get(slot, set()) - {card}
        if other or users.get(card, set()) - {slot}:
            at_odds[slot] = frozenset(other or {card})
    held = set(reserved.values())
    return CardsInUse(
        used={slot: frozenset(cards) for slot, cards in used.items()},
        reserved=reserved,
        at_odds=at_odds,
        open_nodes=frozenset(
            NodeId(slot.rpartition("/")[0])
            for slot, cards in used.items()
            if not cards <= held and slot not in unasked
        ),
    )
