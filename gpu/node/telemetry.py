"""What the node agent asks of whatever stands behind the GPUs: one shape for NVML and simulation.

An unknown number is ``None`` and stays ``None``; zero is said only by a driver that answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.memory_limits import MemoryLimits
from gpucommons.gpu.devices.topology import DeviceLink
from gpucommons.gpu.linux.processes import ProcessStat
from gpucommons.gpu.providers.base import MigProfile
from gpucommons.gpu.slices.slices import DeviceShare


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessReading:
    """One process on one device."""

    pid: int
    #: None where the driver cannot say.
    memory_mib: int | None
    #: Part of the whole device's compute, 1000 = all of it; None where the driver cannot say.
    compute_milli_gpu: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceReading:
    """One look at one device."""

    #: Use of the whole device by anybody, 0…100; None where the driver cannot say.
    compute_percent: int | None = None
    memory_used_mib: int | None = None
    #: Processes that hold the device; None where the driver cannot list them.
    processes: tuple[ProcessReading, ...] | None = None
    #: The driver's word for what is wrong, for people; None when all is well.
    trouble: str | None = None
    #: That word is of the device itself: it computes for nobody until it is well.
    is_unhealthy: bool = False


#: What is known of a device that answered nothing.
NOTHING_KNOWN = DeviceReading()


@dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """The processes of one open slice: what a simulation measures; real hardware knows better."""

    shares: tuple[DeviceShare, ...]
    processes: tuple[ProcessStat, ...]


class Telemetry(Protocol):
    """Reads the devices of one node. Never raises for a device that is ill."""

    @property
    def driver(self) -> str | None:
        """Version of the driver, or who plays one; None where there is none."""
        ...

    @property
    def mig_profiles(self) -> Mapping[DeviceId, tuple[MigProfile, ...]]:
        """Sizes that each card can be cut into."""
        ...

    @property
    def links(self) -> tuple[DeviceLink, ...]:
        """Pairs of devices of which it is known how near they are to each other."""
        ...

    def limits(self) -> MemoryLimits | None:
        """The driver's memory limits by control group; None where there is no driver."""
        ...

    def devices(self) -> tuple[Device, ...]:
        """The devices found at start, in the order of ``nvidia-smi``."""
        ...

    def read(self, holdings: Sequence[Holding], *, now_ms: int) -> Mapping[DeviceId, DeviceReading]:
        """Look at every device once."""
        ...

    def close(self) -> None:
        """Let go of the driver."""
        ...
