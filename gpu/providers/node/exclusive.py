"""Whole devices for one slice alone, and for every slice the sight of its own devices only.

Hiding the other cards is a convention that CUDA follows. It is isolation only where the workload
cannot open the other device files.
"""

from __future__ import annotations

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.providers.base import (
    Capability,
    Grant,
    Held,
    Injection,
    NodeTraits,
    NothingOutside,
)
from gpucommons.gpu.slices.memory_of_share import MIN_SLICE_MIB, share_memory_mib

#: For the container toolkit: no device and no driver files at all.
NO_DEVICE = "void"


class ExclusiveProvider(NothingOutside):
    """A whole card, nobody else on it."""

    name = "exclusive"

    def probe(self, traits: NodeTraits) -> Capability:
        """Works everywhere; what differs is how much it isolates."""
        if _isolated(traits):
            return Capability(usable=True, reason="Other device files cannot be opened.")
        return Capability(usable=True, reason="Other devices are hidden, not locked.")

    def quantize(self, device: Device, milli_gpu: int, traits: NodeTraits) -> Grant | None:
        """A whole card or nothing."""
        memory_mib = share_memory_mib(device, milli_gpu)
        if milli_gpu != WHOLE_MILLI_GPU or memory_mib < MIN_SLICE_MIB:
            return None
        return Grant(
            provider=self.name,
            milli_gpu=milli_gpu,
            memory_mib=memory_mib,
            isolation="hardware" if _isolated(traits) else "none",
        )

    def prepare(self, held: Held, traits: NodeTraits) -> Injection:
        """The slice's devices, by UUID, in the order of the bus."""
        index = {device.device_id: device.index for device in held.devices}
        ids = sorted(
            (share.device_id for share in held.slice.shares),
            key=lambda device_id: (index.get(device_id, len(index)), device_id),
        )
        visible = ",".join(ids)
        # The container toolkit fails on a device that it cannot find; CUDA finds nothing.
        real = bool(ids) and not traits.simulated
        return Injection(
            env={
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": visible,
                "NVIDIA_VISIBLE_DEVICES": visible if real else NO_DEVICE,
            }
        )


def _isolated(traits: NodeTraits) -> bool:
    return traits.devices_confined and not traits.simulated
