"""Other systems that make slices on a cluster: what is known of the cluster, and the contract with each.

Where one of them is installed and a pool names it, it makes the slice and our agent does not. A
provider only writes what that system reads; it reserves nothing and enforces nothing itself, and
its isolation is what the system is known to enforce, never more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.providers.base import Capability, Grant, Injection
from gpucommons.gpu.slices.slices import GpuSlice


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterTraits:
    """What a provider must know about a cluster and the nodes of a pool."""

    #: Names of the custom resources there are, for example ``queues.scheduling.run.ai``.
    crds: frozenset[str] = frozenset()
    #: Annotations that every node of the pool has.
    node_annotations: frozenset[str] = frozenset()
    #: Conditions that are true on every node of the pool.
    node_conditions: frozenset[str] = frozenset()
    #: Versions of ``resource.k8s.io`` that the API server serves.
    resource_api: frozenset[str] = frozenset()
    #: Names of the DeviceClasses.
    device_classes: frozenset[str] = frozenset()
    #: The pool's ResourceSlices offer memory of one device to several claims.
    shared_memory: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PodWish:
    """The pod that a slice is for."""

    #: Of its containers, the one that uses the slice.
    container: str
    #: Queue that pays, where the system has queues.
    queue: str = ""
    #: Name of the claim, where there is one; the pod's own name will do.
    claim: str = ""
    #: DeviceClass, where the system is asked by one.
    device_class: str = "gpu.nvidia.com"
    #: What is in force on its node, one of ``usage.ISOLATION_MODES``, as the grant says.
    isolation: str = "none"


class PodProvider(Protocol):
    """One system that makes slices for pods. Pure."""

    @property
    def name(self) -> str:
        """Word for it in settings and records."""
        ...

    def probe(self, traits: ClusterTraits) -> Capability:
        """Whether it is installed."""
        ...

    def quantize(self, device: Device, milli_gpu: int, traits: ClusterTraits) -> Grant | None:
        """What this share of the device comes to; None where it makes no such slices.

        Raises
        ------
        SliceTooSmall
            When the share's memory is below the least that is useful.
        """
        ...

    def injection(self, gpu_slice: GpuSlice, devices: Sequence[Device], wish: PodWish) -> Injection:
        """What the pod says so that the system makes the slice."""
        ...


def memory_each_mib(gpu_slice: GpuSlice) -> int:
    """The slice's memory on each of its devices."""
    return gpu_slice.memory_mib // max(1, len(gpu_slice.shares))


def is_fraction(gpu_slice: GpuSlice) -> bool:
    """Whether the slice is less than whole devices."""
    return any(share.milli_gpu < WHOLE_MILLI_GPU for share in gpu_slice.shares)


def label_value(text: str) -> str:
    """The text where it can be a label's value; empty otherwise."""
    fits = len(text) <= 63 and text[:1].isalnum() and text[-1:].isalnum()  # noqa: PLR2004 - RFC 1123
    return text if fits and all(one.isalnum() or one in "-_." for one in text) else ""


#: An object of the Kubernetes API, as JSON has it.
Manifest = Mapping[str, Any]
