"""What one worker asks of one node, as the packing arrays see it."""

from __future__ import annotations

from typing import NamedTuple

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU


class Ask(NamedTuple):
    """A shape: equal asks fit the same places and get the same scores."""

    #: Devices it needs on one node; 0 for work without a GPU.
    devices: int
    #: Milli-GPU it takes of each of them.
    milli: int
    cpu_milli: int
    memory_mib: int
    #: GPU kinds it accepts, sorted; empty for any.
    kinds: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, milli_gpu: int, cpu_milli: int, memory_mib: int, kinds: tuple[str, ...] = ()
    ) -> Ask:
        """Return the ask of a worker that wants so many milli-GPU: a share, or whole devices."""
        if milli_gpu < WHOLE_MILLI_GPU:
            return cls(min(1, milli_gpu), milli_gpu, cpu_milli, memory_mib, kinds)
        whole = milli_gpu // WHOLE_MILLI_GPU
        return cls(whole, WHOLE_MILLI_GPU, cpu_milli, memory_mib, kinds)

    @property
    def milli_gpu(self) -> int:
        """Milli-GPU of all its devices together."""
        return self.devices * self.milli

    @property
    def shared(self) -> bool:
        """It takes part of a device that others may share."""
        return 0 < self.milli < WHOLE_MILLI_GPU

    def accepts(self, kind: str) -> bool:
        """It runs on GPUs of this kind."""
        return not self.kinds or kind in self.kinds
