"""KAI-Scheduler: fractions by annotations, placed by its own scheduler and paid by its queues.

With its fractioning operator ready on the nodes (NvFractions, driver r615) the driver holds each
container to its memory. Without it KAI only plans: nothing stops a pod at its share, and the
isolation says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.providers.base import Capability, Grant, Injection, PodParts
from gpucommons.gpu.providers.cluster.cluster import (
    ClusterTraits,
    PodWish,
    is_fraction,
    label_value,
    memory_each_mib,
)
from gpucommons.gpu.slices.memory_of_share import usable_share_mib
from gpucommons.gpu.slices.slices import GpuSlice

SCHEDULER = "kai-scheduler"
QUEUE_LABEL = "kai.scheduler/queue"
#: What KAI itself must have, and its queues.
CRDS = frozenset({"queues.scheduling.run.ai", "bindrequests.scheduling.run.ai"})
#: A node says so when memory limits are enforced there; the operator was renamed.
READY_CONDITIONS = ("gpu-fractioning.nvidia.com/Ready", "gpu-sharing.nvidia.com/Ready")
#: Where KAI's own pods hold the GPUs of which it hands out parts.
RESERVATIONS = "kai-resource-reservation"
_GPU = "nvidia.com/gpu"
_PARTS = ("gpu-fraction", "gpu-memory")
_SEVERAL = "gpu-fraction-num-devices"
_PART_OF_CONTAINER = "nvidia.com/container."


class KaiProvider:
    """Slices that KAI places."""

    name = "kai"

    def probe(self, traits: ClusterTraits) -> Capability:
        """Works where KAI's resources are defined."""
        missing = sorted(CRDS - traits.crds)
        if missing:
            return Capability(
                usable=False, reason=f"KAI is not installed: no {', '.join(missing)}."
            )
        if enforces(traits):
            return Capability(usable=True, reason="KAI places pods, the driver holds their memory.")
        return Capability(usable=True, reason="KAI places pods; their memory is not enforced.")

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
        shared = "kernel" if enforces(traits) else "none"
        return Grant(
            provider=self.name,
            milli_gpu=milli_gpu,
            memory_mib=memory_mib,
            isolation=shared if milli_gpu < WHOLE_MILLI_GPU else "hardware",
        )

    def injection(self, gpu_slice: GpuSlice, devices: Sequence[Device], wish: PodWish) -> Injection:
        """KAI's scheduler, queue, and the share; which device it is, KAI decides."""
        queue = label_value(wish.queue)
        labels = {QUEUE_LABEL: queue} if queue else {}
        parts = PodParts(labels=labels, scheduler_name=SCHEDULER)
        if not is_fraction(gpu_slice):
            # A fraction and whole GPUs in one pod are refused, so it is one or the other.
            limits = {_GPU: str(len(gpu_slice.shares))}
            return Injection(pod=PodParts(limits=limits).over(parts))
        return Injection(pod=PodParts(annotations=_annotations(gpu_slice, wish)).over(parts))


def enforces(traits: ClusterTraits) -> bool:
    """Whether every node of the pool holds containers to their memory."""
    return any(condition in traits.node_conditions for condition in READY_CONDITIONS)


def gpus_taken(namespace: str, annotations: Mapping[str, str], gpus: int) -> int:
    """How many GPUs a pod takes where KAI hands them out; ``gpus`` it asks of the device plugin.

    A part counts as a whole GPU: on which one it lies, its pod does not say. What KAI holds for parts
    is counted with those.
    """
    if namespace == RESERVATIONS:
        return 0
    parts = any(
        key in _PARTS or (key.startswith(_PART_OF_CONTAINER) and ".gpu-memory." in key)
        for key in annotations
    )
    several = annotations.get(_SEVERAL, "")
    return gpus + (int(several) if parts and several.isdecimal() else int(parts))


def _annotations(gpu_slice: GpuSlice, wish: PodWish) -> dict[str, str]:
    memory_mib = memory_each_mib(gpu_slice)
    several = (
        {"gpu-fraction-num-devices": str(len(gpu_slice.shares))}
        if len(gpu_slice.shares) > 1
        else {}
    )
    if wish.isolation == "kernel":
        own = f"nvidia.com/container.{wish.container}"
        return {
            f"{own}.gpu-memory.request": f"{memory_mib}Mi",
            f"{own}.gpu-memory.limit": f"{memory_mib}Mi",
            f"{own}.gpu-compute.mode": "time-slicing",
            **several,
        }
    return {
        "gpu-memory": str(memory_mib),
        "gpu-fraction-container-name": wish.container,
        **several,
    }
