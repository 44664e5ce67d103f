"""Limits of the driver on one control group: what groups of ours and groups of pods share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.memory_limits import MemoryLimits
from gpucommons.gpu.errors import CannotShrink, GpuError
from gpucommons.gpu.providers.base import Grant, Held
from gpucommons.gpu.slices.memory_of_share import fraction_mib

logger = logging.getLogger(__name__)

#: The provider's name, whoever owns the group.
NAME = "cgroup_mem"


def kernel_share(device: Device, milli_gpu: int) -> Grant | None:
    """Any fraction that can hold a CUDA context; the driver refuses limits on instances.

    Raises
    ------
    SliceTooSmall
        When the share's memory is below the least that is useful.
    """
    memory_mib = fraction_mib(device, milli_gpu)
    if memory_mib is None or device.device_id.startswith("MIG-"):
        return None
    return Grant(provider=NAME, milli_gpu=milli_gpu, memory_mib=memory_mib, isolation="kernel")


class GroupLimits:
    """The fractions of a slice, as limits on a control group."""

    def __init__(self, limits: MemoryLimits) -> None:
        self._limits = limits

    def put(self, held: Held, group: str) -> None:
        """Limit the group on every device that the slice shares."""
        for device_id, memory_mib in held.fractions:
            if self._hard_mib(device_id, group) != memory_mib:
                self._limits.set(device_id, group, soft_mib=memory_mib, hard_mib=memory_mib)

    def wrong(self, held: Held, group: str) -> Iterator[tuple[DeviceId, int, str]]:
        """Devices with another limit: which, how much it should be in MiB, and what there is."""
        for device_id, memory_mib in held.fractions:
            found = self._hard_mib(device_id, group)
            if found != memory_mib:
                words = "no limit" if found is None else f"a limit of {found} MiB"
                yield device_id, memory_mib, words

    def resize(self, held: Held, group: str, memory_mib: int) -> None:
        """Set another limit: more at any time, less only down to what is in use.

        Raises
        ------
        CannotShrink
            When more is in use, with the numbers.
        LimitNotInForce
            When the driver refuses.
        """
        for device_id, _ in held.fractions:
            used_mib = self._limits.get(device_id, group).used_mib
            if memory_mib < used_mib:
                raise CannotShrink(used_mib=used_mib, wanted_mib=memory_mib)
            self._limits.set(device_id, group, soft_mib=memory_mib, hard_mib=memory_mib)

    def give_back(self, held: Held, group: str) -> None:
        """Take the reservation back."""
        for device_id, memory_mib in held.fractions:
            try:
                self._limits.set(device_id, group, soft_mib=0, hard_mib=memory_mib)
            except GpuError as error:
                # A card that is gone keeps no reservation.
                logger.warning("slice %s: %s", held.slice.slice_id, error)

    def _hard_mib(self, device_id: DeviceId, group: str) -> int | None:
        try:
            return self._limits.get(device_id, group).hard_mib
        except GpuError:
            # A group that never had a limit answers with an error: there is none.
            return None
