"""Memory limits by control group, as driver r615 keeps them: the calls, apart from who makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import LimitNotInForce


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryLimit:
    """What the driver says of one group on one device."""

    soft_mib: int
    hard_mib: int
    used_mib: int


class MemoryLimits(Protocol):
    """The driver's limits."""

    def set(self, device_id: DeviceId, group: str, *, soft_mib: int, hard_mib: int) -> None:
        """Limit all processes of a group on a device; ``soft_mib`` is reserved for them.

        Raises
        ------
        LimitNotInForce
            When the driver refuses.
        """
        ...

    def get(self, device_id: DeviceId, group: str) -> MemoryLimit:
        """What is in force.

        Raises
        ------
        LimitNotInForce
            When the group has no limit or the driver cannot say.
        """
        ...


class FakeMemoryLimits:
    """The driver's rules without a driver: for tests and simulations."""

    def __init__(
        self, used_mib: Callable[[DeviceId, str], int] = lambda _device, _group: 0
    ) -> None:
        self._used_mib = used_mib
        self._limits: dict[tuple[DeviceId, str], tuple[int, int]] = {}
        #: What the driver answers instead of obeying.
        self.trouble = ""

    def set(self, device_id: DeviceId, group: str, *, soft_mib: int, hard_mib: int) -> None:
        """See the protocol."""
        self._complain(device_id)
        used_mib = self._used_mib(device_id, group)
        if hard_mib < used_mib or soft_mib > hard_mib:
            message = f"Device {device_id}: Invalid Argument ({used_mib} MiB are in use)."
            raise LimitNotInForce(message)
        self._limits[device_id, group] = (soft_mib, hard_mib)

    def get(self, device_id: DeviceId, group: str) -> MemoryLimit:
        """See the protocol."""
        self._complain(device_id)
        if (device_id, group) not in self._limits:
            message = f"Device {device_id}: Not Found (no limit on {group})."
            raise LimitNotInForce(message)
        soft_mib, hard_mib = self._limits[device_id, group]
        return MemoryLimit(
            soft_mib=soft_mib, hard_mib=hard_mib, used_mib=self._used_mib(device_id, group)
        )

    def _complain(self, device_id: DeviceId) -> None:
        if self.trouble:
            message = f"Device {device_id}: {self.trouble}."
            raise LimitNotInForce(message)
