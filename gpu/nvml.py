"""Real GPUs, read through NVML. The only module that imports ``pynvml``.

A driver fails in many ways: no library, a card that fell off the bus, a call that MIG or the
model does not support, a library older than the bindings. Each becomes an absent value with a
reason, never a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml

from gpucommons.gpu.devices import Device, DeviceId
from gpucommons.gpu.kinds import kind_of
from gpucommons.gpu.telemetry import DeviceReading, Holding, ProcessReading

_BYTES_PER_MIB = 1 << 20
#: Utilisation samples this old are still news: drivers take one every second at most.
_WINDOW_US = 2_000_000
#: Larger values are the driver's way to say "no number".
_MAX_PERCENT = 100
_MILLI_PER_PERCENT = 10
_ERRORS = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)
_PROCESS_LISTS = (
    pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
    pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Card:
    device: Device
    handle: Any


class NvmlTelemetry:
    """The GPUs that NVML finds when this is made; none where there is no driver."""

    def __init__(self) -> None:
        self._cards: tuple[_Card, ...] = ()
        #: One sentence on what was found.
        self.greeting = ""
        try:
            pynvml.nvmlInit()
        except _ERRORS as error:
            self._initialised = False
            self.greeting = f"No real GPU: {_words(error)}."
            return
        self._initialised = True
        self._cards = tuple(_cards())
        self.greeting = f"{len(self._cards)} real GPUs, driver {_driver_version()}."

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

    def close(self) -> None:
        """Let go of the driver."""
        if self._initialised:
            self._initialised = False
            _ask(pynvml.nvmlShutdown)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    """What a call gave: a value, or the reason why there is none."""

    value: Any = None
    error: Exception | None = None


def _ask(call: Callable[..., Any], *arguments: Any) -> _Answer:
    try:
        return _Answer(value=call(*arguments))
    except _ERRORS as error:
        return _Answer(error=error)


def _words(error: Exception) -> str:
    # Text of an error asks the library for it, which may be the thing that is missing.
    try:
        return str(error) or type(error).__name__
    except _ERRORS:
        return type(error).__name__


def _driver_version() -> str:
    return str(_ask(pynvml.nvmlSystemGetDriverVersion).value or "of unknown version")


def _cards() -> list[_Card]:
    cards = []
    for index in range(_ask(pynvml.nvmlDeviceGetCount).value or 0):
        handle = _ask(pynvml.nvmlDeviceGetHandleByIndex, index).value
        if handle is None:
            continue
        uuid = _ask(pynvml.nvmlDeviceGetUUID, handle).value
        memory_mib = _memory(handle, "total")
        # Without a name or a size nothing can be handed out; a card lost before the start is that.
        if uuid is None or memory_mib is None:
            continue
        name = _ask(pynvml.nvmlDeviceGetName, handle).value or "GPU"
        device = Device(
            device_id=DeviceId(str(uuid)),
            index=index,
            kind=kind_of(str(name), memory_mib),
            memory_mib=memory_mib,
        )
        cards.append(_Card(device=device, handle=handle))
    return cards


def _memory(handle: object, field: str) -> int | None:
    """A field of the memory information: version 2 where the driver has it."""
    answer = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    if answer.error is not None:
        answer = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return None if answer.value is None else int(getattr(answer.value, field)) // _BYTES_PER_MIB


def _read(handle: object, now_ms: int) -> DeviceReading:
    lists = [_ask(call, handle) for call in _PROCESS_LISTS]
    compute_list = lists[0]
    trouble = None
    if isinstance(compute_list.error, (pynvml.NVMLError_GpuIsLost, pynvml.NVMLError_ResetRequired)):
        trouble = _words(compute_list.error)
    used_by = _utilisation(handle, now_ms)
    processes = None
    # Graphics and MPS are missing on some cards; without the compute list nobody is known.
    if compute_list.error is None:
        processes = _processes([answer.value or [] for answer in lists], used_by)
    rates = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle).value
    return DeviceReading(
        compute_percent=_percent(rates.gpu) if rates is not None else None,
        memory_used_mib=_memory(handle, "used"),
        processes=processes,
        trouble=trouble,
    )


def _utilisation(handle: object, now_ms: int) -> Mapping[int, int | None] | None:
    """Compute of each process that used the card lately; None where the driver cannot say."""
    answer = _ask(
        pynvml.nvmlDeviceGetProcessUtilization, handle, max(0, now_ms * 1000 - _WINDOW_US)
    )
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
        mib = None if used is None else int(used) // _BYTES_PER_MIB
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
