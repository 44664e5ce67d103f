"""Hints for frameworks: how much memory is theirs, and not to take all of the card at start.

They are advice. A program that ignores them meets no limit, and the isolation mode says so.
"""

from __future__ import annotations

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.linux.processes import SLICE_VARIABLE
from gpucommons.gpu.providers.base import (
    Capability,
    Grant,
    Held,
    Injection,
    NodeTraits,
    NothingOutside,
)
from gpucommons.gpu.slices.memory_of_share import usable_share_mib

#: Memory of a slice in MiB, for programs that size themselves.
MEMORY_VARIABLE = "GPUCOMMONS_SLICE_MEMORY_MIB"

#: The rest of a slice is for the CUDA context and libraries, which no framework counts.
_FRAMEWORK_PERCENT = 95
#: Earlier versions refuse to start with an option that they do not know.
_TORCH_WITH_FRACTION = (2, 10)


class HintsProvider(NothingOutside):
    """A fraction of a card, by good manners."""

    name = "hints"

    def probe(self, traits: NodeTraits) -> Capability:
        """Works everywhere, limits nobody."""
        return Capability(usable=True, reason="Advice to frameworks; nothing is enforced.")

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
            provider=self.name, milli_gpu=milli_gpu, memory_mib=memory_mib, isolation="none"
        )

    def prepare(self, held: Held, traits: NodeTraits) -> Injection:
        """Name and size of the slice; for a fraction also how frameworks keep to it."""
        env = {
            SLICE_VARIABLE: str(held.slice.slice_id),
            MEMORY_VARIABLE: str(held.slice.memory_mib),
        }
        fractions = [s.milli_gpu for s in held.slice.shares if s.milli_gpu < WHOLE_MILLI_GPU]
        if fractions:
            # Frameworks count in parts of the card that they see: the whole card, or the slice
            # itself where the driver or the interposer shows the slice as if it were the card.
            seen = WHOLE_MILLI_GPU if not shows_slice(traits) else min(fractions)
            part = f"{min(fractions) * _FRAMEWORK_PERCENT / (seen * 100):.3f}"
            env |= {
                "TF_FORCE_GPU_ALLOW_GROWTH": "true",
                # JAX has a newer name, reads this one too, and refuses both together.
                "XLA_PYTHON_CLIENT_MEM_FRACTION": part,
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            }
            if traits.torch is not None and traits.torch >= _TORCH_WITH_FRACTION:
                env["PYTORCH_ALLOC_CONF"] = f"per_process_memory_fraction:{part}"
        return Injection(env=env)


def shows_slice(traits: NodeTraits) -> bool:
    """Whether programs see the slice's memory as the card's."""
    return not traits.simulated and (traits.memory_limits or traits.shim)
