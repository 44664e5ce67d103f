"""HAMi: fractions as resources of a container, kept by a library that it puts into each process.

Its library is as cooperative as ours: a program can get around it.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.providers.base import Capability, Grant, Injection, PodParts
from gpucommons.gpu.providers.cluster.cluster import (
    ClusterTraits,
    PodWish,
    is_fraction,
    memory_each_mib,
)
from gpucommons.gpu.slices.memory_of_share import usable_share_mib
from gpucommons.gpu.slices.slices import GpuSlice

SCHEDULER = "hami-scheduler"
_GPU, _MEMORY, _CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
_USE_UUID = "nvidia.com/use-gpuuuid"
#: Annotation of a node on which its plugin registered devices.
REGISTERED = "hami.io/node-nvidia-register"
_WHOLE_PERCENT = 100


class HamiProvider:
    """Slices that HAMi makes."""

    name = "hami"

    def probe(self, traits: ClusterTraits) -> Capability:
        """Works where its plugin registered the pool's devices."""
        if REGISTERED not in traits.node_annotations:
            return Capability(
                usable=False,
                reason=f"HAMi is not installed: the pool's nodes have no {REGISTERED}.",
            )
        return Capability(
            usable=True, reason="HAMi's library in each process keeps the slice's memory."
        )

    def quantize(self, device: Device, milli_gpu: int, traits: ClusterTraits) -> Grant | None:
        """Any share that can hold a CUDA context.

        Raises
        ------
        SliceTooSmall
            When the share's memory is below the least that is useful.
        """
        memory_mib = usable_share_mib(device, milli_gpu)
        if memory_mib is None or not 0 < milli_gpu <= WHOLE_MILLI_GPU:
            return None
        whole = milli_gpu == WHOLE_MILLI_GPU
        return Grant(
            provider=self.name,
            milli_gpu=milli_gpu,
            memory_mib=memory_mib,
            isolation="hardware" if whole else "cooperative",
        )

    def injection(self, gpu_slice: GpuSlice, devices: Sequence[Device], wish: PodWish) -> Injection:
        """Its scheduler, the share as resources, and the devices that we chose."""
        limits = {_GPU: str(len(gpu_slice.shares))}
        if is_fraction(gpu_slice):
            # Computing time is planned by memory alone: its limit of cores is said to be rough.
            limits |= {_MEMORY: str(memory_each_mib(gpu_slice))}
        else:
            # All of its cores: nobody else is put on the device.
            limits |= {_CORES: str(_WHOLE_PERCENT)}
        uuids = [device.device_id for device in devices if device.device_id.startswith("GPU-")]
        annotations = {_USE_UUID: ",".join(uuids)} if uuids else {}
        return Injection(
            pod=PodParts(limits=limits, annotations=annotations, scheduler_name=SCHEDULER)
        )
