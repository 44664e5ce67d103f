"""Memory limits by control group, as driver r615 and newer take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pynvml

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.devices.memory_limits import MemoryLimit
from gpucommons.gpu.errors import LimitNotInForce
from gpucommons.gpu.nvml.calls import BYTES_PER_MIB, Answer, ask, words


class NvmlMemoryLimits:
    """See :class:`gpucommons.gpu.devices.memory_limits.MemoryLimits`."""

    def __init__(self, handles: Mapping[DeviceId, Any]) -> None:
        self._handles = handles

    def set(self, device_id: DeviceId, group: str, *, soft_mib: int, hard_mib: int) -> None:
        """See the protocol."""
        limits = pynvml.c_nvmlSetMemoryLimits_v1_t()
        limits.nameSpace = group.encode()
        limits.softLimit = soft_mib * BYTES_PER_MIB
        limits.hardLimit = hard_mib * BYTES_PER_MIB
        _done(device_id, ask(pynvml.nvmlDeviceSetMemoryLimits_v1, self._handle(device_id), limits))

    def get(self, device_id: DeviceId, group: str) -> MemoryLimit:
        """See the protocol."""
        limits = pynvml.c_nvmlGetMemoryLimits_v1_t()
        limits.nameSpace = group.encode()
        _done(device_id, ask(pynvml.nvmlDeviceGetMemoryLimits_v1, self._handle(device_id), limits))
        return MemoryLimit(
            soft_mib=limits.softLimit // BYTES_PER_MIB,
            hard_mib=limits.hardLimit // BYTES_PER_MIB,
            used_mib=limits.currentUsed // BYTES_PER_MIB,
        )

    def _handle(self, device_id: DeviceId) -> object:
        if device_id not in self._handles:
            message = f"There is no device {device_id} on this node."
            raise LimitNotInForce(message)
        return self._handles[device_id]


def _done(device_id: DeviceId, answer: Answer) -> None:
    if answer.error is not None:
        message = f"The driver refuses the memory limit on {device_id}: {words(answer.error)}."
        raise LimitNotInForce(message) from answer.error
