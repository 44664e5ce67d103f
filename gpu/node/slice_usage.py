"""From readings of devices to the sample of one slice.

Numbers are normalised to the slice's own share. About the neighbours a sample carries one word,
never their numbers. One unknown addend makes a sum unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.gpu.node.telemetry import NOTHING_KNOWN, DeviceReading
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice
from gpucommons.gpu.slices.usage import UsageSample

#: From here on the neighbours' use is ``medium``, in percent of the device.
_MEDIUM_PERCENT = 30
_HIGH_PERCENT = 70


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """All that was read at one instant."""

    at_ms: int
    readings: Mapping[DeviceId, DeviceReading]
    #: Devices on which more than one slice is open.
    shared: frozenset[DeviceId] = frozenset()
    #: Devices without hardware behind them.
    simulated: frozenset[DeviceId] = frozenset()


def sample_of(gpu_slice: GpuSlice, pids: Iterable[int], look: Look) -> UsageSample:
    """What one slice did, by one look at its devices and the pids that are its own."""
    own = frozenset(pids)
    looks = [
        (share, look.readings.get(share.device_id, NOTHING_KNOWN)) for share in gpu_slice.shares
    ]
    compute = _total(_compute_milli(share, reading, own) for share, reading in looks)
    return UsageSample(
        slice_id=gpu_slice.slice_id,
        at_ms=look.at_ms,
        compute_percent=_percent(compute, gpu_slice.milli_gpu),
        memory_used_mib=_total(_memory_mib(reading, own) for _, reading in looks),
        memory_limit_mib=gpu_slice.memory_mib,
        processes=_holders(looks, own),
        contention=_contention(looks, own, look.shared),
        simulated=all(share.device_id in look.simulated for share in gpu_slice.shares),
    )


def _total(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def _percent(compute_milli: int | None, milli_gpu: int) -> int | None:
    if compute_milli is None or not milli_gpu:
        return None
    return min(100, compute_milli * 100 // milli_gpu)


def _compute_milli(share: DeviceShare, reading: DeviceReading, own: frozenset[int]) -> int | None:
    """Compute of a slice on one device, in thousandths of the device."""
    if reading.processes is not None:
        used = _total(p.compute_milli_gpu for p in reading.processes if p.pid in own)
        if used is not None:
            return used
    # A driver without numbers per process still knows the device, and a whole one is all ours.
    if share.milli_gpu == WHOLE_MILLI_GPU and reading.compute_percent is not None:
        return reading.compute_percent * WHOLE_MILLI_GPU // 100
    return None


def _memory_mib(reading: DeviceReading, own: frozenset[int]) -> int | None:
    if reading.processes is None:
        return None
    return _total(p.memory_mib for p in reading.processes if p.pid in own)


def _holders(looks: Iterable[tuple[DeviceShare, DeviceReading]], own: frozenset[int]) -> int | None:
    holders: set[int] = set()
    for _, reading in looks:
        if reading.processes is None:
            return None
        holders.update(p.pid for p in reading.processes if p.pid in own)
    return len(holders)


def _contention(
    looks: Iterable[tuple[DeviceShare, DeviceReading]],
    own: frozenset[int],
    shared: frozenset[DeviceId],
) -> str:
    busiest = -1
    for share, reading in looks:
        if reading.processes is None:
            if share.device_id in shared:
                return "unknown"
            continue
        others = [p for p in reading.processes if p.pid not in own]
        if not others and share.device_id not in shared:
            continue
        used = _total(p.compute_milli_gpu for p in others)
        if used is None:
            return "unknown"
        busiest = max(busiest, used * 100 // WHOLE_MILLI_GPU)
    if busiest < 0:
        return "alone"
    if busiest < _MEDIUM_PERCENT:
        return "low"
    return "medium" if busiest < _HIGH_PERCENT else "high"
