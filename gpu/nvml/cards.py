"""What NVML finds at start: cards, or the instances that an admin cut a card into.

A card in MIG mode cannot be used itself: its instances are the devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pynvml

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.kinds import kind_of
from gpucommons.gpu.nvml.calls import ask, memory_mib
from gpucommons.gpu.providers.base import MigProfile

#: Numbers of profiles are few; drivers answer "not supported" for those they do not know.
_PROFILES = pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """A device and the driver's handle of it."""

    device: Device
    handle: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """All devices of a node."""

    cards: tuple[Card, ...]
    #: Of cards that can be cut, whether they are or not.
    profiles: Mapping[DeviceId, tuple[MigProfile, ...]]


def find_cards() -> Found:
    """Look once; what does not tell its name or size cannot be handed out."""
    cards: list[Card] = []
    profiles: dict[DeviceId, tuple[MigProfile, ...]] = {}
    for index in range(ask(pynvml.nvmlDeviceGetCount).value or 0):
        handle = ask(pynvml.nvmlDeviceGetHandleByIndex, index).value
        card = None if handle is None else _card(handle, index)
        if card is None:
            continue
        listed = _profiles(handle)
        if listed:
            profiles[card.device.device_id] = listed
        mode = ask(pynvml.nvmlDeviceGetMigMode, handle).value
        cards.extend(_instances(card) if mode is not None and mode[0] else [card])
    return Found(cards=tuple(cards), profiles=profiles)


def _card(handle: object, index: int) -> Card | None:
    uuid = ask(pynvml.nvmlDeviceGetUUID, handle).value
    total_mib = memory_mib(handle, "total")
    if uuid is None or total_mib is None:
        return None
    name = ask(pynvml.nvmlDeviceGetName, handle).value or "GPU"
    device = Device(
        device_id=DeviceId(str(uuid)),
        index=index,
        kind=kind_of(str(name), total_mib),
        memory_mib=total_mib,
    )
    return Card(device=device, handle=handle)


def _instances(card: Card) -> list[Card]:
    """The instances of a card in MIG mode, as devices of their own kind."""
    found = []
    for place in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, card.handle).value or 0):
        handle = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, card.handle, place).value
        instance = None if handle is None else _card(handle, card.device.index)
        if instance is None:
            continue
        name = str(ask(pynvml.nvmlDeviceGetName, handle).value or "")
        # "NVIDIA H200 MIG 1g.18gb": the profile is what tells one size from another.
        profile = name.rsplit(" ", 1)[-1] if " MIG " in name else instance.device.kind
        model = card.device.kind.rsplit("-", 1)[0]
        device = Device(
            device_id=instance.device.device_id,
            index=card.device.index,
            kind=f"{model}-{profile}",
            memory_mib=instance.device.memory_mib,
        )
        found.append(Card(device=device, handle=handle))
    return found


def _profiles(handle: object) -> tuple[MigProfile, ...]:
    """The driver's live list."""
    listed = []
    for number in range(_PROFILES):
        info = ask(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, number).value
        if info is not None:
            listed.append(info)
    most = max((info.sliceCount for info in listed), default=0)
    return tuple(
        MigProfile(
            name=str(info.name).removeprefix("MIG "),
            slices=info.sliceCount,
            of_slices=most,
            memory_mib=info.memorySizeMB,
            count=info.instanceCount,
        )
        for info in listed
    )
