"""Real GPUs, read through NVML.

A driver fails in many ways: no library, a card that fell off the bus, a call that MIG or the
model does not support, a library older than the bindings. Each becomes an absent value with a
reason, never a zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pynvml

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.topology import DeviceLink
from gpucommons.gpu.node.telemetry import DeviceReading, Holding, ProcessReading
from gpucommons.gpu.nvml.calls import BYTES_PER_MIB, ERRORS, ask, driver_version, memory_mib, words
from gpucommons.gpu.nvml.cards import Card, find_cards
from gpucommons.gpu.nvml.limits import NvmlMemoryLimits
from gpucommons.gpu.nvml.links import find_links
from gpucommons.gpu.providers.base import MigProfile

#: Utilisation samples this old are still news: drivers take one every second at most.
_WINDOW_US = 2_000_000
#: Larger values are the driver's way to say "no number".
_MAX_PERCENT = 100
_MILLI_PER_PERCENT = 10
_PROCESS_LISTS = (
    pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
    pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
)


class NvmlTelemetry:
    """The GPUs that NVML finds when this is made; none where there is no driver."""

    def __init__(self) -> None:
        self._cards: tuple[Card, ...] = ()
        #: Version of the driver; None where there is none.
        self.driver: str | None = None
        #: Sizes that each card can be cut into.
        self.mig_profiles: Mapping[DeviceId, tuple[MigProfile, ...]] = {}
        #: Which cards are near each other; a pair that is not among them is unknown.
        self.links: tuple[DeviceLink, ...] = ()
        #: One sentence on what was found.
        self.greeting = ""
        try:
            pynvml.nvmlInit()
        except ERRORS as error:
            self._initialised = False
            self.greeting = f"No real GPU: {words(error)}."
            return
        self._initialised = True
        found = find_cards()
        self._cards = found.cards
        self.mig_profiles = found.profiles
        self.links = find_links(found.cards)
        self.driver = driver_version()
        version = self.driver or "of unknown version"
        self.greeting = f"{len(self._cards)} real GPUs, driver {version}."

    def devices(self) -> tuple[Device, ...]:
        """The devices found at start."""
        return tuple(card.device for card in self._cards)

    def read(
        self,
        holdings: Sequence[Holding],
        *,
        now_ms: int,
    ) -> Mapping[DeviceId, DeviceReading]:
        """Look at every card once."""
        return {card.device.device_id: _read(card.handle, now_ms) for card in self._cards}

    def limits(self) -> NvmlMemoryLimits:
        """The driver's memory limits, for the cards found."""
        return NvmlMemoryLimits({card.device.device_id: card.handle for card in self._cards})

    def close(self) -> None:
        """Let go of the driver."""
        if self._initialised:
            self._initialised = False
            ask(pynvml.nvmlShutdown)


def _read(handle: object, now_ms: int) -> DeviceReading:
    lists = [ask(call, handle) for call in _PROCESS_LISTS]
    compute_list = lists[0]
    trouble = None
    if isinstance(compute_list.error, (pynvml.NVMLError_GpuIsLost, pynvml.NVMLError_ResetRequired)):
        trouble = words(compute_list.error)
    used_by = _utilisation(handle, now_ms)
    processes = None
    # Graphics and MPS are missing on some cards; without the compute list nobody is known.
    if compute_list.error is None:
        processes = _processes([answer.value or [] for answer in lists], used_by)
    rates = ask(pynvml.nvmlDeviceGetUtilizationRates, handle).value
    return DeviceReading(
        compute_percent=_percent(rates.gpu) if rates is not None else None,
        memory_used_mib=memory_mib(handle, "used"),
        processes=processes,
        trouble=trouble,
        is_unhealthy=trouble is not None,
    )


def _utilisation(handle: object, now_ms: int) -> Mapping[int, int | None] | None:
    """Compute of each process that used the card lately; None where the driver cannot say."""
    answer = ask(pynvml.nvmlDeviceGetProcessUtilization, handle, max(0, now_ms * 1000 - _WINDOW_US))
    if isinstance(answer.error, pynvml.NVMLError):
        # Not found: nobody used it. Success without a list: the same, of an empty buffer.
        if answer.error.value in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS):
            return {}
        return None
    if answer.error is not None:
        return None
    newest: dict[int, tuple[int, int | None]] = {}
    for sample in answer.value:
        if sample.pid and sample.timeStamp >= newest.get(sample.pid, (0, None))[0]:
            newest[sample.pid] = (sample.timeStamp, _percent(sample.smUtil))
    return {pid: percent for pid, (_, percent) in newest.items()}


def _processes(
    lists: Sequence[Sequence[Any]], used_by: Mapping[int, int | None] | None
) -> tuple[ProcessReading, ...]:
    """One entry per process, whatever kinds of context it holds."""
    memory: dict[int, int | None] = {}
    for process in (process for listed in lists for process in listed):
        if not process.pid:
            continue
        used = process.usedGpuMemory
        mib = None if used is None else int(used) // BYTES_PER_MIB
        # Listed twice (compute and graphics) is one process with one number for both.
        known = memory.get(process.pid, 0)
        memory[process.pid] = None if mib is None or known is None else max(known, mib)
    return tuple(
        ProcessReading(
            pid=pid,
            memory_mib=mib,
            compute_milli_gpu=None if used_by is None else _milli(used_by.get(pid, 0)),
        )
        for pid, mib in memory.items()
    )


def _percent(value: int) -> int | None:
    return int(value) if 0 <= value <= _MAX_PERCENT else None


def _milli(percent: int | None) -> int | None:
    return None if percent is None else percent * _MILLI_PER_PERCENT
