"""The one contract with what makes a slice out of a device.

``quantize`` is pure, so whoever plans and whoever grants cannot disagree about sizes. A provider
says how strong its isolation is, in the words of ``gpu.usage.ISOLATION_MODES``, and never claims
more than what is in force: what cannot be verified raises :class:`LimitNotInForce`, and a slice
that raises does not start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device, DeviceId
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, MpsDaemon


@dataclass(frozen=True, kw_only=True, slots=True)
class MigProfile:
    """A size of instance that a card can be cut into, as the driver lists it."""

    #: For example ``2g.20gb``.
    name: str
    #: Of the card's compute slices, so many; the card has :attr:`of_slices`.
    slices: int
    of_slices: int
    memory_mib: int
    #: Instances of this size that fit on an empty card.
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeTraits:
    """What a provider must know about the place where a slice is used."""

    #: The devices are simulated.
    simulated: bool = False
    #: The workload cannot open other device files (a container with a device cgroup).
    devices_confined: bool = False
    #: Version of PyTorch in the workload's environment; None = none or unknown.
    torch: tuple[int, int] | None = None
    #: Version of the driver, for example ``580.95.05``; None = none or unknown.
    driver: str | None = None
    #: Folder of cgroup v2 below which this process may make groups; None = it may not.
    cgroup_parent: str | None = None
    #: The driver took a memory limit on a group made for the question.
    memory_limits: bool = False
    #: The interposer is built and this machine has a driver for it…
    shim: bool = False
    #: …or why not.
    shim_reason: str = "The interposer was not looked for."
    #: A node agent watches the slices and may stop their processes.
    watched: bool = False
    #: The daemon of the slice's pool, where that opted in to MPS.
    mps: MpsDaemon | None = None
    #: Sizes that each card can be cut into; cards without MIG are missing.
    mig_profiles: Mapping[DeviceId, tuple[MigProfile, ...]] = field(default_factory=dict)

    @property
    def driver_branch(self) -> int:
        """The first number of the driver's version; 0 where it is unknown."""
        first = (self.driver or "").split(".", 1)[0]
        return int(first) if first.isdigit() else 0


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
class Held:
    """A slice with everything that a provider needs to make it real, or to undo it.

    It is persisted as it is, so a provider that was killed in between can still release.
    """

    slice: GpuSlice
    #: The devices of the slice.
    devices: tuple[Device, ...]
    #: The account that will use it; None = the one that asks.
    uid: int | None = None
    #: The pod that will use it, by its uid; None = none, or not known yet.
    pod: str | None = None

    def limit_mib(self, share: DeviceShare) -> int | None:
        """Memory of a fraction; None for a whole device, which needs no limit."""
        if share.milli_gpu >= WHOLE_MILLI_GPU or share.device_id.startswith("MIG-"):
            return None
        if len(self.slice.shares) == 1:
            return self.slice.memory_mib
        known = {device.device_id: device for device in self.devices}
        device = known.get(share.device_id)
        return None if device is None else share_memory_mib(device, share.milli_gpu)

    @property
    def fractions(self) -> tuple[tuple[DeviceId, int], ...]:
        """Each device that is shared, with the slice's memory on it in MiB."""
        limits = ((share.device_id, self.limit_mib(share)) for share in self.slice.shares)
        return tuple((device_id, mib) for device_id, mib in limits if mib is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class PodParts:
    """What a pod needs besides its environment, in the words of the Kubernetes API.

    Nested values are as JSON has them (``volumeAttributes``, not ``volume_attributes``).
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: Limits of the workload's container besides CPU and memory, by resource name.
    limits: Mapping[str, str] = field(default_factory=dict)
    #: Entries of the pod's ``resourceClaims``; the workload's container uses each of them.
    resource_claims: tuple[Mapping[str, Any], ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    #: Of the workload's container.
    volume_mounts: tuple[Mapping[str, Any], ...] = ()
    scheduler_name: str | None = None
    runtime_class: str | None = None
    #: Objects that must be there before the pod, in its namespace, and end with it.
    objects: tuple[Mapping[str, Any], ...] = ()

    def over(self, weaker: PodParts) -> PodParts:
        """Both; where they differ, this has the last word."""
        return PodParts(
            labels={**weaker.labels, **self.labels},
            annotations={**weaker.annotations, **self.annotations},
            limits={**weaker.limits, **self.limits},
            resource_claims=_named((*weaker.resource_claims, *self.resource_claims), "name"),
            volumes=_named((*weaker.volumes, *self.volumes), "name"),
            volume_mounts=_named((*weaker.volume_mounts, *self.volume_mounts), "mountPath"),
            scheduler_name=self.scheduler_name or weaker.scheduler_name,
            runtime_class=self.runtime_class or weaker.runtime_class,
            objects=(*weaker.objects, *self.objects),
        )


def _named(parts: Sequence[Mapping[str, Any]], key: str) -> tuple[Mapping[str, Any], ...]:
    """The last of each name."""
    return tuple({part[key]: part for part in parts}.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection:
    """What a workload gets to use its slice and nothing else."""

    env: Mapping[str, str] = field(default_factory=dict)
    #: Search paths, by variable, that come before whatever the workload sets itself.
    prepend: Mapping[str, str] = field(default_factory=dict)
    #: Folder of the control group that the workload must be in before its first instruction.
    cgroup: str | None = None
    #: Where the workload is a pod.
    pod: PodParts = field(default_factory=PodParts)

    def apply(self, env: Mapping[str, str]) -> dict[str, str]:
        """The environment with everything of this in it."""
        paths = {
            name: os.pathsep.join(filter(None, (first, env.get(name, ""))))
            for name, first in self.prepend.items()
        }
        return {**env, **self.env, **paths}

    def over(self, weaker: Injection) -> Injection:
        """Both; where they differ, this has the last word."""
        return Injection(
            env={**weaker.env, **self.env},
            prepend={**weaker.prepend, **self.prepend},
            cgroup=self.cgroup or weaker.cgroup,
            pod=self.pod.over(weaker.pod),
        )


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

    def prepare(self, held: Held, traits: NodeTraits) -> Injection:
        """Make the slice; the same for the same slice, however often it is asked.

        Raises
        ------
        LimitNotInForce
            When the limit cannot be set.
        """
        ...

    def verify(self, held: Held) -> None:
        """Read back what ``prepare`` set.

        Raises
        ------
        LimitNotInForce
            When it is not in force.
        """
        ...

    def attach(self, held: Held, pid: int) -> None:
        """Put a process under the limit.

        Raises
        ------
        LimitNotInForce
            When it cannot be.
        """
        ...

    def strays(self, held: Held, pids: Sequence[int]) -> frozenset[int]:
        """Of these live processes of the slice, those that the limit does not bind."""
        ...

    def measured(self, held: Held, used_mib: int) -> None:
        """Hear what the driver measured of the slice's processes together."""
        ...

    def resize(self, held: Held, memory_mib: int) -> None:
        """Change the memory of a fraction of one device while it is in use.

        Raises
        ------
        CannotShrink
            When more than that is in use.
        """
        ...

    def release(self, held: Held) -> None:
        """Undo whatever ``prepare`` made outside the workload; again is harmless."""
        ...


class NothingOutside:
    """For providers that make nothing outside the workload: there is nothing to undo or verify."""

    def verify(self, held: Held) -> None:
        """Nothing was claimed."""

    def attach(self, held: Held, pid: int) -> None:
        """Every process is where it should be."""

    def strays(self, held: Held, pids: Sequence[int]) -> frozenset[int]:
        """Nobody can be outside."""
        return frozenset()

    def measured(self, held: Held, used_mib: int) -> None:
        """The driver's own number needs no correction."""

    def resize(self, held: Held, memory_mib: int) -> None:
        """A running process keeps the advice it got at its start."""

    def release(self, held: Held) -> None:
        """Nothing was made."""
