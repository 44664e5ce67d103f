"""How much memory a share of a device has, and which shares have too little to be of use.

The driver's reserve is taken off here alone, so the scheduler and the sharing providers cannot
disagree about the size of a slice.
"""

from __future__ import annotations

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.errors import SliceTooSmall
from gpucommons.gpu.slices.slices import format_milli_gpu

#: A slice below this cannot hold a CUDA context and libraries.
MIN_SLICE_MIB = 2048
_MIB_PER_GIB = 1024


def share_memory_mib(device: Device, milli_gpu: int) -> int:
    """Memory that belongs to a share of this card."""
    return (device.memory_mib - device.reserve_mib) * milli_gpu // WHOLE_MILLI_GPU


def bounds_mib(device: Device) -> tuple[int, int]:
    """The least and the most memory that a share of this card may have."""
    return MIN_SLICE_MIB, share_memory_mib(device, WHOLE_MILLI_GPU)


def fraction_mib(device: Device, milli_gpu: int) -> int | None:
    """Memory of a share that leaves room for others; None for a whole card or no share at all.

    Raises
    ------
    SliceTooSmall
        When the share's memory is below the least that is useful.
    """
    if not 0 < milli_gpu < WHOLE_MILLI_GPU:
        return None
    memory_mib = share_memory_mib(device, milli_gpu)
    if memory_mib < MIN_SLICE_MIB:
        raise SliceTooSmall(_too_small(device, milli_gpu, memory_mib))
    return memory_mib


def usable_share_mib(device: Device, milli_gpu: int) -> int | None:
    """Memory of a fraction or of the whole card; None where nothing useful would be left.

    Raises
    ------
    SliceTooSmall
        When a fraction's memory is below the least that is useful.
    """
    if milli_gpu != WHOLE_MILLI_GPU:
        return fraction_mib(device, milli_gpu)
    memory_mib = share_memory_mib(device, milli_gpu)
    return memory_mib if memory_mib >= MIN_SLICE_MIB else None


def _too_small(device: Device, milli_gpu: int, memory_mib: int) -> str:
    needed = next(
        (
            milli
            for milli in (125, 250, 500, WHOLE_MILLI_GPU)
            if share_memory_mib(device, milli) >= MIN_SLICE_MIB
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
