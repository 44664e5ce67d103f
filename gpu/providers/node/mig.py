"""MIG: instances that the hardware keeps apart, cut by an admin before any slice is asked for.

An instance is a device of its own, with a UUID, a size and a kind that names its profile; a slice
holds it whole. It is apart from the others only where a program cannot open their device files:
elsewhere one that names a neighbour's instance gets in. Cutting needs an empty card and root, so it is never done here. What the card could
be cut into comes from the driver's live list, not from a table.
"""

from __future__ import annotations

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.providers.base import (
    Capability,
    Grant,
    Held,
    Injection,
    MigProfile,
    NodeTraits,
    NothingOutside,
)
from gpucommons.gpu.slices.memory_of_share import MIN_SLICE_MIB, share_memory_mib


class MigProvider(NothingOutside):
    """Whole instances."""

    name = "mig"

    def probe(self, traits: NodeTraits) -> Capability:
        """Works where the cards know instances."""
        if traits.simulated:
            return Capability(usable=False, reason="Simulated devices cannot be cut.")
        if not traits.mig_profiles:
            return Capability(usable=False, reason="No card here can be cut into instances.")
        if not traits.devices_confined:
            return Capability(
                usable=True,
                reason="Instances are shown one by one, but a program may open its neighbours'.",
            )
        return Capability(usable=True, reason="The hardware keeps instances apart, once cut.")

    def quantize(self, device: Device, milli_gpu: int, traits: NodeTraits) -> Grant | None:
        """A whole instance. A card that is offered as a device is not cut: it has none."""
        memory_mib = share_memory_mib(device, milli_gpu)
        if not device.device_id.startswith("MIG-") or milli_gpu != WHOLE_MILLI_GPU:
            return None
        if memory_mib < MIN_SLICE_MIB:
            return None
        return Grant(
            provider=self.name,
            milli_gpu=milli_gpu,
            memory_mib=memory_mib,
            isolation="hardware" if traits.devices_confined else "cooperative",
        )

    def prepare(self, held: Held, traits: NodeTraits) -> Injection:
        """The instance is seen by its UUID like any device."""
        return Injection()


def smallest_profile(
    profiles: tuple[MigProfile, ...], device: Device, milli_gpu: int
) -> MigProfile | None:
    """What a share would need the card to be cut into: at least its compute and its memory."""
    if not 0 < milli_gpu < WHOLE_MILLI_GPU:
        return None
    needed_mib = device.memory_mib * milli_gpu // WHOLE_MILLI_GPU - device.reserve_mib
    fitting = [
        profile
        for profile in profiles
        if profile.slices * WHOLE_MILLI_GPU >= milli_gpu * profile.of_slices
        and profile.memory_mib >= max(MIN_SLICE_MIB, needed_mib)
        and profile.count > 0
    ]
    return min(fitting, key=lambda one: (one.memory_mib, one.slices), default=None)
