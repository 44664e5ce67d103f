"""Simulated GPUs for machines without one: same code path, labelled "simulated" everywhere.

Their use is that of the slice's process tree. Computing is the CPU time its processes *asked
for* (had, or stood in line for), so a busy neighbour on a crowded machine changes nothing; memory
is their private memory above that of a bare interpreter, scaled to the size of a card.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device, DeviceId
from gpucommons.gpu.devices.kinds import memory_mib_of
from gpucommons.gpu.devices.memory_limits import MemoryLimits
from gpucommons.gpu.devices.topology import DeviceLink
from gpucommons.gpu.linux.processes import Processes, ProcessLoad, ProcessStat
from gpucommons.gpu.linux.servers import editor_folders, is_editors_own, is_server
from gpucommons.gpu.node.telemetry import DeviceReading, Holding, ProcessReading
from gpucommons.gpu.providers.base import MigProfile

#: A simulated machine where nobody says otherwise.
DEFAULT_KIND = "A100-40"
DEFAULT_DEVICES = 4
#: A driver serves no more cards on one machine.
MAX_DEVICES = 64

#: One MiB of a process reads as so many on the card.
_MEMORY_SCALE = 8
#: A bare interpreter with a kernel in it holds nothing on a card.
_BARE_PROCESS_MIB = 96
#: Housekeeping threads of an idle kernel stay below this, in percent of a core.
_NOISE_PERCENT = 3


def simulated_devices(count: int, kind: str = DEFAULT_KIND) -> tuple[Device, ...]:
    """So many equal devices, named ``sim-0`` and up.

    Raises
    ------
    ValueError
        When the kind names no memory or the count makes no sense.
    """
    if not 0 <= count <= MAX_DEVICES:
        message = f"{count} simulated GPUs are not possible: ask for 0 to {MAX_DEVICES}."
        raise ValueError(message)
    memory_mib = memory_mib_of(kind)
    return tuple(
        Device(
            device_id=DeviceId(f"sim-{index}"),
            index=index,
            kind=kind,
            memory_mib=memory_mib,
            simulated=True,
        )
        for index in range(count)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Measured:
    """What the last look found of one process."""

    cpu_ms: int
    load: ProcessLoad
    is_server: bool | None


class SimulatedGpus:
    """Telemetry of devices that do not exist, from processes that do."""

    #: Named, so that what is kept by driver is kept on a machine without one too.
    driver: str | None = "simulated"
    mig_profiles: Mapping[DeviceId, tuple[MigProfile, ...]] = MappingProxyType({})

    def __init__(
        self,
        devices: Sequence[Device],
        processes: Processes,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        *,
        links: Sequence[DeviceLink] = (),
    ) -> None:
        """``links`` are what these devices say of how they are linked."""
        self.links = tuple(links)
        self._devices = tuple(devices)
        self._processes = processes
        self._monotonic_ns = monotonic_ns
        self._editors = editor_folders(os.environ)
        #: Last look at each process, by pid and start.
        self._before: dict[tuple[int, int], _Measured] = {}
        self._looked_ns: int | None = None

    def limits(self) -> MemoryLimits | None:
        """There is no driver."""
        return None

    def devices(self) -> tuple[Device, ...]:
        """The devices asked for at start."""
        return self._devices

    def read(
        self,
        holdings: Sequence[Holding],
        *,
        now_ms: int,  # rates need a clock that nobody sets
    ) -> Mapping[DeviceId, DeviceReading]:
        """Measure the processes of every holding."""
        looked_ns = self._monotonic_ns()
        elapsed_ms = (
            0 if self._looked_ns is None else max(1, (looked_ns - self._looked_ns) // 1_000_000)
        )
        self._looked_ns = looked_ns
        before, self._before = self._before, {}
        found: dict[DeviceId, list[ProcessReading]] = {d.device_id: [] for d in self._devices}
        for holding in holdings:
            for stat in holding.processes:
                measured = self._measure(stat, before.get((stat.pid, stat.start)), elapsed_ms)
                if measured is not None:
                    _spread(stat.pid, measured, holding, found)
        return {
            device.device_id: _device_reading(device, found[device.device_id])
            for device in self._devices
        }

    def close(self) -> None:
        """Nothing is held."""

    def _measure(
        self, stat: ProcessStat, before: _Measured | None, elapsed_ms: int
    ) -> tuple[int | None, int] | None:
        """Use (percent of a slice) and memory of one process; None when it is gone."""
        still = before is not None and stat.cpu_ms == before.cpu_ms and not stat.runnable
        # A process that slept all the time is what it was: most are, and reading costs.
        load = before.load if before is not None and still else self._processes.load(stat)
        if load is None:
            return None
        serves = self._is_server(stat, before)
        if before is not None and still and before.is_server is not None:
            self._before[stat.pid, stat.start] = before
        else:
            self._before[stat.pid, stat.start] = _Measured(
                cpu_ms=stat.cpu_ms,
                load=load,
                # A process on its way to exec shows its parent's command at first: look twice.
                is_server=serves if before is not None else None,
            )
        if serves:
            return (0, 0)
        memory_mib = max(0, load.private_mib - _BARE_PROCESS_MIB) * _MEMORY_SCALE
        return (_percent(load, before, elapsed_ms), memory_mib)

    def _is_server(self, stat: ProcessStat, before: _Measured | None) -> bool:
        if before is not None and before.is_server is not None:
            return before.is_server
        command = self._processes.command(stat.pid)
        return is_server(command) or is_editors_own(command, self._editors)


def _percent(load: ProcessLoad, before: _Measured | None, elapsed_ms: int) -> int | None:
    """Use since the last look; None for a process that nobody measured before."""
    # One born since the last look had all its time in this interval; an older one had not.
    if not elapsed_ms or (before is None and load.demand_ms > elapsed_ms):
        return None
    demand_ms = load.demand_ms - (0 if before is None else before.load.demand_ms)
    percent = min(100, demand_ms * 100 // elapsed_ms)
    return percent if percent >= _NOISE_PERCENT else 0


def _spread(
    pid: int,
    measured: tuple[int | None, int],
    holding: Holding,
    found: Mapping[DeviceId, list[ProcessReading]],
) -> None:
    """Book one process on the devices of its slice, by share."""
    percent, memory_mib = measured
    if percent == 0 and memory_mib == 0:
        return
    total = sum(share.milli_gpu for share in holding.shares)
    for share in holding.shares:
        if share.device_id in found:
            found[share.device_id].append(
                ProcessReading(
                    pid=pid,
                    memory_mib=memory_mib * share.milli_gpu // total,
                    compute_milli_gpu=None if percent is None else percent * share.milli_gpu // 100,
                )
            )


def _device_reading(device: Device, processes: Sequence[ProcessReading]) -> DeviceReading:
    used = [p.compute_milli_gpu for p in processes if p.compute_milli_gpu is not None]
    known = len(used) == len(processes)
    memory = sum(p.memory_mib or 0 for p in processes)
    return DeviceReading(
        compute_percent=min(100, sum(used) * 100 // WHOLE_MILLI_GPU) if known else None,
        memory_used_mib=min(device.memory_mib, memory),
        processes=tuple(processes),
    )
