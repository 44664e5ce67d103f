"""Dynamic resource allocation: devices as claims, which the cluster's own scheduler allocates.

A claim says what is needed; nothing of it is enforced on the device. Whole devices and instances are
apart by hardware, shares of a device by nothing: NVIDIA's driver slices time and limits no memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.providers.base import Capability, Grant, Injection, PodParts
from gpucommons.gpu.providers.cluster.cluster import (
    ClusterTraits,
    Manifest,
    PodWish,
    is_fraction,
    memory_each_mib,
)
from gpucommons.gpu.slices.memory_of_share import usable_share_mib
from gpucommons.gpu.slices.slices import GpuSlice

API_VERSION = "resource.k8s.io/v1"
#: NVIDIA's driver; its attributes and capacities belong to this name.
DRIVER = "gpu.nvidia.com"
_CLAIM = "gpu"


class DraProvider:
    """Slices that are allocated to claims."""

    name = "dra"

    def probe(self, traits: ClusterTraits) -> Capability:
        """Works where the API is served and somebody defined a class of GPUs."""
        if "v1" not in traits.resource_api:
            return Capability(usable=False, reason=f"This cluster does not serve {API_VERSION}.")
        if not traits.device_classes:
            return Capability(usable=False, reason="There is no DeviceClass: no driver of devices.")
        if traits.shared_memory:
            return Capability(usable=True, reason="Whole devices, and shares of their memory.")
        return Capability(usable=True, reason="Whole devices; their memory is not shared out.")

    def quantize(self, device: Device, milli_gpu: int, traits: ClusterTraits) -> Grant | None:
        """Whole devices, and shares where the driver offers memory to several claims.

        Raises
        ------
        SliceTooSmall
            When the share's memory is below the least that is useful.
        """
        whole = milli_gpu == WHOLE_MILLI_GPU
        memory_mib = usable_share_mib(device, milli_gpu)
        if memory_mib is None or not (whole or traits.shared_memory):
            return None
        return Grant(
            provider=self.name,
            milli_gpu=milli_gpu,
            memory_mib=memory_mib,
            isolation="hardware" if whole else "none",
        )

    def injection(self, gpu_slice: GpuSlice, devices: Sequence[Device], wish: PodWish) -> Injection:
        """The claim, and the pod's use of it; the claim must be there before the pod."""
        claim = claim_of(gpu_slice, devices, wish)
        return Injection(
            pod=PodParts(
                resource_claims=({"name": _CLAIM, "resourceClaimName": wish.claim},),
                objects=(claim,),
            )
        )


def claim_of(gpu_slice: GpuSlice, devices: Sequence[Device], wish: PodWish) -> Manifest:
    """The ResourceClaim of a slice: one request for each device, by UUID where we chose it."""
    shared = is_fraction(gpu_slice)
    known = {device.device_id for device in devices}
    requests: list[dict[str, Any]] = []
    for index, share in enumerate(gpu_slice.shares):
        exactly: dict[str, Any] = {"deviceClassName": wish.device_class}
        if share.device_id in known and share.device_id.startswith(("GPU-", "MIG-")):
            # A UUID is letters, digits and dashes: it ends no string in the expression.
            expression = f'device.attributes["{DRIVER}"].uuid == "{_plain(share.device_id)}"'
            exactly["selectors"] = [{"cel": {"expression": expression}}]
        if shared:
            exactly["capacity"] = {"requests": {"memory": f"{memory_each_mib(gpu_slice)}Mi"}}
        requests.append({"name": f"gpu-{index}", "exactly": exactly})
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": wish.claim},
        "spec": {"devices": {"requests": requests}},
    }


def _plain(uuid: str) -> str:
    return "".join(one for one in uuid if one.isascii() and (one.isalnum() or one in "-/"))
