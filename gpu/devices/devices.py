"""What a machine offers: physical devices, and how much memory of each is kept back for the driver.

How much a share of one has is said in `gpu.slices.memory_of_share`.
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
