"""The one contract with what makes a slice out of a device.

``quantize`` is pure, so whoever plans and whoever grants cannot disagree about sizes. A provider
says how strong its isolation is, in the words of ``gpu.usage.ISOLATION_MODES``, and never claims
more than what is in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpucommons.gpu.devices import Device
from gpucommons.gpu.slices import GpuSlice, SliceId


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeTraits:
    """What a provider must know about the place where a slice is used."""

    #: The devices are simulated.
    simulated: bool = False
    #: The workload cannot open other device files (a container with a device cgroup).
    devices_confined: bool = False
    #: Version of PyTorch in the workload's environment; None = none or unknown.
    torch: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Capability:
    """Whether a provider works here, and why not."""

    usable: bool
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """What a share of a device comes to, as the user is told."""

    provider: str
    #: May be more than was asked where the hardware knows only some sizes.
    milli_gpu: int
    memory_mib: int
    #: One of ``gpu.usage.ISOLATION_MODES``.
    isolation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection:
    """What a workload gets to use its slice and nothing else."""

    env: Mapping[str, str] = field(default_factory=dict)


class SharingProvider(Protocol):
    """One way to share a device."""

    @property
    def name(self) -> str:
        """Word for it in settings and records."""
        ...

    def probe(self, traits: NodeTraits) -> Capability:
        """Whether it works on such a node."""
        ...

    def quantize(self, device: Device, milli_gpu: int, traits: NodeTraits) -> Grant | None:
        """What this share of the device comes to; None where it makes no such slices. Pure."""
        ...

    def injection(
        self, gpu_slice: GpuSlice, devices: Sequence[Device], traits: NodeTraits
    ) -> Injection:
        """What the workload gets; the same for the same slice, however often it is asked."""
        ...

    def release(self, slice_id: SliceId) -> None:
        """Undo whatever ``injection`` made outside the workload; again is harmless."""
        ...
