"""How GPUs of one machine reach each other, as its driver tells it.

Only pairs that the driver is sure of are listed: a pair that is not there is unknown, which is neither
near nor far.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from gpucommons.gpu.devices.devices import Device, DeviceId

#: Links of more GPUs than an agent may have are no answer of an agent.
_MAX_LINKS = 64 * 63 // 2
_MAX_ID_CHARACTERS = 128


class LinkKind(StrEnum):
    """The best way between two GPUs."""

    #: Directly, or through switches of NVLink.
    NVLINK = "nvlink"
    #: Through PCIe switches alone (or on one board).
    SWITCH = "switch"
    #: Through a host bridge of one NUMA node: mostly one CPU socket.
    SOCKET = "socket"
    #: From one NUMA node of the machine to another.
    NODE = "node"


#: Which of two kinds is nearer: for all who ask.
FROM_NEAR_TO_FAR = (LinkKind.NVLINK, LinkKind.SWITCH, LinkKind.SOCKET, LinkKind.NODE)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceLink:
    """Two GPUs of a machine and what is between them."""

    first: DeviceId
    second: DeviceId
    kind: LinkKind


_KINDS = frozenset(kind.value for kind in LinkKind)


class SimulatedTopology(StrEnum):
    """How simulated GPUs say that they are linked."""

    #: They say nothing.
    UNKNOWN = "unknown"
    #: Pairs by NVLink; the first half of the GPUs on one socket, the rest on the other.
    PAIRS = "pairs"
    #: All by switches of NVLink.
    ALL = "all"


def simulated_links(
    devices: Sequence[Device], topology: SimulatedTopology
) -> tuple[DeviceLink, ...]:
    """What a machine with these devices would tell."""
    if topology is SimulatedTopology.UNKNOWN:
        return ()
    return tuple(
        DeviceLink(
            first=devices[one].device_id,
            second=devices[other].device_id,
            kind=LinkKind.NVLINK
            if topology is SimulatedTopology.ALL
            else _of_pairs(one, other, len(devices)),
        )
        for one, other in combinations(range(len(devices)), 2)
    )


def _of_pairs(one: int, other: int, count: int) -> LinkKind:
    if one // 2 == other // 2:
        return LinkKind.NVLINK
    # Rounded up to a pair: no pair lies on two sockets.
    half = (count + 3) // 4 * 2
    return LinkKind.SOCKET if (one < half) == (other < half) else LinkKind.NODE


def links_among(
    links: Iterable[DeviceLink], device_ids: Iterable[DeviceId]
) -> tuple[DeviceLink, ...]:
    """Those that join two of these devices."""
    found = frozenset(device_ids)
    return tuple(one for one in links if one.first in found and one.second in found)


def links_json(links: Iterable[DeviceLink]) -> list[list[str]]:
    """As an agent tells them: a list of two GPUs and a kind for each."""
    return [[one.first, one.second, one.kind.value] for one in links]


def links_from(told: object) -> tuple[DeviceLink, ...]:
    """As an agent told them; what can be no link is left out, and so is a kind that is new here."""
    if not isinstance(told, list) or len(told) > _MAX_LINKS:
        return ()
    found = {link.first + " " + link.second: link for link in map(_link_from, told) if link}
    return tuple(found.values())


def _link_from(told: object) -> DeviceLink | None:
    if not isinstance(told, list) or len(told) != 3:  # noqa: PLR2004 - two GPUs and a kind
        return None
    if not all(isinstance(one, str) and 0 < len(one) <= _MAX_ID_CHARACTERS for one in told):
        return None
    one, other, kind = told
    if kind not in _KINDS or one == other:
        return None
    first, second = sorted((one, other))
    return DeviceLink(first=DeviceId(first), second=DeviceId(second), kind=LinkKind(kind))
