"""The agent's numbers for Prometheus: of devices and slices, for admins, on loopback alone.

A number that is unknown is left out; Prometheus then shows a gap, which is the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.node.telemetry import DeviceReading
from gpucommons.gpu.slices.usage import UsageSample

_BYTES_PER_MIB = 1 << 20
_PER_CENT = 100

_Rows = Iterable[tuple[dict[str, str], float | None]]


def metrics_text(
    devices: Sequence[tuple[Device, DeviceReading]], samples: Sequence[UsageSample]
) -> bytes:
    """The whole page."""
    of_device = [({"device": device.device_id, "kind": device.kind}, device, reading)
                 for device, reading in devices]  # fmt: skip
    of_slice = [({"slice": str(sample.slice_id)}, sample) for sample in samples]
    pages = [
        _gauge("gpucommons_device_memory_bytes", "Memory of the whole device.",
               [(labels, device.memory_mib * _BYTES_PER_MIB) for labels, device, _ in of_device]),
        _gauge("gpucommons_device_memory_used_bytes", "Memory in use on the device, by anybody.",
               [(labels, _bytes(reading.memory_used_mib)) for labels, _, reading in of_device]),
        _gauge("gpucommons_device_compute_ratio", "Use of the device by anybody, 0 to 1.",
               [(labels, _ratio(reading.compute_percent)) for labels, _, reading in of_device]),
        _gauge("gpucommons_device_ok", "1 when the device answers.",
               [(labels, float(reading.trouble is None)) for labels, _, reading in of_device]),
        _gauge("gpucommons_slice_memory_limit_bytes", "What the slice may use.",
               [(labels, _bytes(sample.memory_limit_mib)) for labels, sample in of_slice]),
        _gauge("gpucommons_slice_memory_used_bytes", "Memory of the slice's own processes.",
               [(labels, _bytes(sample.memory_used_mib)) for labels, sample in of_slice]),
        _gauge("gpucommons_slice_compute_ratio", "Use of the slice's own share, 0 to 1.",
               [(labels, _ratio(sample.compute_percent)) for labels, sample in of_slice]),
        _gauge("gpucommons_slice_processes", "Processes of the slice on the device.",
               [(labels, sample.processes) for labels, sample in of_slice]),
    ]  # fmt: skip
    return "".join(pages).encode()


def _bytes(memory_mib: int | None) -> int | None:
    return None if memory_mib is None else memory_mib * _BYTES_PER_MIB


def _ratio(percent: int | None) -> float | None:
    return None if percent is None else percent / _PER_CENT


def _gauge(name: str, help_text: str, rows: _Rows) -> str:
    lines = [f"# HELP {name} {help_text}", f"# TYPE {name} gauge"]
    for labels, value in rows:
        if value is not None:
            pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"{name}{{{pairs}}} {value}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
