"""What the agent says about its machine besides the devices: processors, memory, isolation."""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path

from gpucommons.gpu.agent.control.requests import NodeFacts
from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.errors import SliceTooSmall
from gpucommons.gpu.node.telemetry import Telemetry
from gpucommons.gpu.providers.stack import ProviderStack
from gpucommons.gpu.slices.usage import ISOLATION_MODES

_KIB_PER_MIB = 1024
_BYTES_PER_MIB = 1 << 20
_MILLI = 1000


def node_facts(name: str | None, stack: ProviderStack, telemetry: Telemetry) -> NodeFacts:
    """Facts of this machine, or of the container that the agent is in."""
    isolations = {one.device_id: isolation_of(stack, one) for one in telemetry.devices()}
    return NodeFacts(
        name=name or socket.gethostname(),
        cpu_milli=cpu_milli(),
        memory_mib=memory_mib(),
        isolation=max(isolations.values(), key=ISOLATION_MODES.index, default="none"),
        isolations=isolations,
        driver=telemetry.driver or "",
        links=telemetry.links,
    )


def isolation_of(stack: ProviderStack, device: Device) -> str:
    """What a slice of this device has: of a fraction where it is shared at all."""
    is_instance = device.device_id.startswith("MIG-")
    sizes = (WHOLE_MILLI_GPU,) if is_instance else (WHOLE_MILLI_GPU // 2, WHOLE_MILLI_GPU)
    for milli_gpu in sizes:
        try:
            return stack.quantize(device, milli_gpu).isolation
        except SliceTooSmall:
            continue
    return "none"


def has_nvml() -> bool:
    """Whether NVIDIA's library can be loaded at all.

    Asked before the bindings are imported: they take 17 MiB, as much as the rest of the agent.
    """
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def cpu_milli(cpu_max: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Processors that this process may use, in thousandths."""
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ) * _MILLI
    try:
        quota, period = cpu_max.read_text(encoding="ascii").split()
        return min(available, int(quota) * _MILLI // int(period))
    except (OSError, ValueError):
        return available


def memory_mib(
    meminfo: Path = Path("/proc/meminfo"), memory_max: Path = Path("/sys/fs/cgroup/memory.max")
) -> int:
    """Memory that this process may use."""
    total = _total_memory_mib(meminfo)
    try:
        return min(total, int(memory_max.read_text(encoding="ascii")) // _BYTES_PER_MIB)
    except (OSError, ValueError):
        return total


def _total_memory_mib(meminfo: Path) -> int:
    try:
        for line in meminfo.read_text(encoding="ascii").splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) // _KIB_PER_MIB
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _BYTES_PER_MIB
