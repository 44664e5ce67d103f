"""Hints for frameworks: how much memory is theirs, and not to take all of the card at start.

They are advice. A program that ignores them meets no limit, and the isolation mode says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.gpu.devices import MIN_SLICE_MIB, WHOLE_MILLI_GPU, Device
from gpucommons.gpu.errors import SliceTooSmall
from gpucommons.gpu.processes import SLICE_VARIABLE
from gpucommons.gpu.providers.base import Capability, Grant, Injection, NodeTraits
from gpucommons.gpu.slices import GpuSlice, SliceId, format_milli_gpu

#: Memory of a slice in MiB, for programs that size themselves.
MEMORY_VARIABLE = "GPUCOMMONS_SLICE_MEMORY_MIB"

#: The rest of a slice is for the CUDA context and libraries, which no framework counts.
_FRAMEWORK_PERCENT = 95
#: Earlier versions refuse to start with an option that they do not know.
_TORCH_WITH_FRACTION = (2, 10)
_MIB_PER_GIB = 1024


class HintsProvider:
    """A fraction of a card, by good manners."""

    name = "hints"

    def probe(self, traits: NodeTraits) -> Capability:
        """Works everywhere, limits nobody."""
        return Capability(usable=True, reason="Advice to frameworks; nothing is enforced.")

    def quantize(
        self,
        device: Device,
        milli_gpu: int,
        traits: NodeTraits,
    ) -> Grant | None:
        """Any share that can hold a CUDA context.

        Raises
        ------
        SliceTooSmall
            When the share's memory is below the least that is useful.
        """
        if not 0 < milli_gpu <= WHOLE_MILLI_GPU:
            return None
        memory_mib = device.slice_memory_mib(milli_gpu)
        if memory_mib < MIN_SLICE_MIB:
            raise SliceTooSmall(_too_small(device, milli_gpu, memory_mib))
        return Grant(
            provider=self.name, milli_gpu=milli_gpu, memory_mib=memory_mib, isolation="none"
        )

    def injection(
        self,
        gpu_slice: GpuSlice,
        devices: Sequence[Device],
        traits: NodeTraits,
    ) -> Injection:
        """Name and size of the slice; for a fraction also how frameworks keep to it."""
        env = {
            SLICE_VARIABLE: gpu_slice.slice_id,
            MEMORY_VARIABLE: str(gpu_slice.memory_mib),
        }
        fractions = [s.milli_gpu for s in gpu_slice.shares if s.milli_gpu < WHOLE_MILLI_GPU]
        if fractions:
            # Frameworks count in parts of the card that they see, which is the whole card.
            part = f"{min(fractions) * _FRAMEWORK_PERCENT / (WHOLE_MILLI_GPU * 100):.3f}"
            env |= {
                "TF_FORCE_GPU_ALLOW_GROWTH": "true",
                # JAX has a newer name, reads this one too, and refuses both together.
                "XLA_PYTHON_CLIENT_MEM_FRACTION": part,
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            }
            if traits.torch is not None and traits.torch >= _TORCH_WITH_FRACTION:
                env["PYTORCH_ALLOC_CONF"] = f"per_process_memory_fraction:{part}"
        return Injection(env=env)

    def release(self, slice_id: SliceId) -> None:
        """Nothing was made outside the workload."""


def _too_small(device: Device, milli_gpu: int, memory_mib: int) -> str:
    needed = next(
        (
            milli
            for milli in (125, 250, 500, WHOLE_MILLI_GPU)
            if device.slice_memory_mib(milli) >= MIN_SLICE_MIB
        ),
        None,
    )
    advice = (
        f"ask for {format_milli_gpu(needed)} or more"
        if needed is not None
        else "this card is too small for any slice"
    )
    return (
        f"{format_milli_gpu(milli_gpu)} of {device.kind} has {memory_mib / _MIB_PER_GIB:.1f} GiB, "
        f"and a slice needs {MIN_SLICE_MIB // _MIB_PER_GIB} GiB: {advice}."
    )
