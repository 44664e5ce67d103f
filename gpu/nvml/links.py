"""Which cards are near each other, as the driver tells it when the agent starts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pynvml

from gpucommons.gpu.devices.topology import DeviceLink, LinkKind
from gpucommons.gpu.nvml.calls import ask
from gpucommons.gpu.nvml.cards import Card

_NO_NVLINK = frozenset({
    pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED,
    pynvml.NVML_P2P_STATUS_GPU_NOT_SUPPORTED,
    pynvml.NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED,
    pynvml.NVML_P2P_STATUS_DISABLED_BY_REGKEY,
    pynvml.NVML_P2P_STATUS_NOT_SUPPORTED,
})  # fmt: skip
_BY_ANCESTOR = {
    pynvml.NVML_TOPOLOGY_INTERNAL: LinkKind.SWITCH,
    pynvml.NVML_TOPOLOGY_SINGLE: LinkKind.SWITCH,
    pynvml.NVML_TOPOLOGY_MULTIPLE: LinkKind.SWITCH,
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: LinkKind.SOCKET,
    pynvml.NVML_TOPOLOGY_NODE: LinkKind.SOCKET,
    pynvml.NVML_TOPOLOGY_SYSTEM: LinkKind.NODE,
}


def find_links(cards: Sequence[Card]) -> tuple[DeviceLink, ...]:
    """Each pair of whole cards of which the driver is sure; instances of a card are no pair."""
    whole = [card for card in cards if not card.device.device_id.startswith("MIG-")]
    found = []
    for one, other in combinations(whole, 2):
        kind = _between(one.handle, other.handle)
        if kind is not None:
            first, second = sorted((one.device.device_id, other.device.device_id))
            found.append(DeviceLink(first=first, second=second, kind=kind))
    return tuple(found)


def _between(one: object, other: object) -> LinkKind | None:
    """What joins two cards; None where the driver leaves anything open."""
    status = ask(pynvml.nvmlDeviceGetP2PStatus, one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK).value
    if status == pynvml.NVML_P2P_STATUS_OK:
        return LinkKind.NVLINK
    if status not in _NO_NVLINK:
        # Near by PCIe, they may be nearer by what it does not tell.
        return None
    return _BY_ANCESTOR.get(ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, one, other).value)
