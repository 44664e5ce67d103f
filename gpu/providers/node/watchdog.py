"""The watchdog as a provider: nothing in the workload, eyes outside of it.

The agent reads each slice's memory once a second; who stays over their share is warned, then
stopped (``gpu.agent.limits.watchdog_policy``). That is a reaction after seconds, not a limit.
"""

from __future__ import annotations

from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.providers.base import (
    Capability,
    Grant,
    Held,
    Injection,
    NodeTraits,
    NothingOutside,
)
from gpucommons.gpu.slices.memory_of_share import usable_share_mib


class WatchdogProvider(NothingOutside):
    """Memory by consequence."""

    name = "watchdog"

    def probe(self, traits: NodeTraits) -> Capability:
        """Works where an agent watches and may stop the processes it watches."""
        if traits.simulated:
            return Capability(usable=False, reason="Simulated memory is not policed.")
        if not traits.watched:
            return Capability(usable=False, reason="No node agent watches here.")
        return Capability(usable=True, reason="Who stays over their share is warned, then stopped.")

    def quantize(self, device: Device, milli_gpu: int, traits: NodeTraits) -> Grant | None:
        """Any share that can hold a CUDA context.

        Raises
        ------
        SliceTooSmall
            When the share's memory is below the least that is useful.
        """
        memory_mib = usable_share_mib(device, milli_gpu)
        if memory_mib is None:
            return None
        return Grant(
            provider=self.name, milli_gpu=milli_gpu, memory_mib=memory_mib, isolation="watched"
        )

    def prepare(self, held: Held, traits: NodeTraits) -> Injection:
        """The workload gets nothing."""
        return Injection()
