"""Whole devices that somebody else chooses: the device plugin, when the pod that gets them starts.

The scheduler then knows how many devices a slice has and not which; the agent hears it from the
kubelet when the pod's volume is mounted. Only whole devices: a fraction must know whose it is part of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.gpu.errors import LimitNotInForce
from gpucommons.gpu.slices.slices import CHOSEN_LATER, DeviceShare, GpuSlice


def is_chosen_later(share: DeviceShare) -> bool:
    """Whether a share is of a device that is not known yet."""
    return share.device_id.startswith(CHOSEN_LATER) and share.milli_gpu == WHOLE_MILLI_GPU


def are_same(known: Sequence[DeviceShare], wanted: Sequence[DeviceShare]) -> bool:
    """Whether a slice is the one that is asked for again.

    Whoever asks may not know yet what was chosen, or know it before the pod's volume is mounted.
    """
    return len(known) == len(wanted) and all(
        one == other
        or (one.milli_gpu == other.milli_gpu and (is_chosen_later(one) or is_chosen_later(other)))
        for one, other in zip(known, wanted, strict=True)
    )


def without_devices(gpu_slice: GpuSlice) -> GpuSlice:
    """The slice before its pod was given devices."""
    shares = tuple(
        replace(share, device_id=DeviceId(f"{CHOSEN_LATER}{index}"))
        for index, share in enumerate(gpu_slice.shares)
    )
    return replace(gpu_slice, shares=shares)


def with_devices(
    gpu_slice: GpuSlice, given: Sequence[DeviceId], here: Collection[DeviceId]
) -> GpuSlice:
    """The slice with the devices that its pod was given.

    Raises
    ------
    LimitNotInForce
        When these are not as many as it has, or not of this node.
    """
    if len(given) != len(gpu_slice.shares) or not all(one in here for one in given):
        message = (
            f"Slice {gpu_slice.slice_id} has {len(gpu_slice.shares)} whole GPUs and its pod was "
            f"given {', '.join(given) or 'none'}: the pod must ask for as many."
        )
        raise LimitNotInForce(message)
    shares = tuple(
        replace(share, device_id=device_id)
        for share, device_id in zip(gpu_slice.shares, given, strict=True)
    )
    return replace(gpu_slice, shares=shares)
