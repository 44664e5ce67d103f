"""What a machine offers: physical devices, and how much of each may be handed out.

The numbers here are the only place where the driver reserve is taken off, so the scheduler and
the sharing providers cannot disagree about the size of a slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

#: A GPU's UUID as NVML prints it (``GPU-…`` or ``MIG-…``), or ``sim-…`` for a simulated one.
DeviceId = NewType("DeviceId", str)

#: One whole GPU.
WHOLE_MILLI_GPU = 1000
#: The least memory kept back for the driver on each card.
MIN_RESERVE_MIB = 256
#: The share of the card kept back for the driver, in percent.
RESERVE_PERCENT = 3
#: A slice below this cannot hold a CUDA context and libraries.
MIN_SLICE_MIB = 2048


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One physical (or simulated) GPU."""

    #: UUID.
    device_id: DeviceId
    #: Position on its node, as ``nvidia-smi`` counts.
    index: int
    #: Short name of the model, for example ``A100-40``.
    kind: str
    #: Memory of the whole card, before the driver reserve.
    memory_mib: int
    #: True where no hardware stands behind it.
    simulated: bool = False

    @property
    def reserve_mib(self) -> int:
        """Memory never handed out: max(3 %, 256 MiB), for the driver's own use."""
        return max(MIN_RESERVE_MIB, self.memory_mib * RESERVE_PERCENT // 100)

    def slice_memory_mib(self, milli_gpu: int) -> int:
        """Memory that belongs to a share of this card."""
        return (self.memory_mib - self.reserve_mib) * milli_gpu // WHOLE_MILLI_GPU
