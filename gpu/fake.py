"""Simulated GPUs for machines without one: same code path, labelled "simulated" everywhere.

Their use is that of the slice's process tree. Computing is the CPU time its processes *asked
for* (had, or stood in line for), so a busy neighbour on a crowded machine changes nothing; memory
is their private memory above that of a bare interpreter, scaled to the size of a card.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from gpucommons.gpu.devices import WHOLE_MILLI_GPU, Device, DeviceId
from gpucommons.gpu.kinds import memory_mib_of
from gpucommons.gpu.processes import Processes, ProcessLoad, ProcessStat
from gpucommons.gpu.telemetry import DeviceReading, Holding, ProcessReading

#: What a simulated machine has where nobody says otherwise.
DEFAULT_KIND = "A100-40"
#: A driver serves no more cards on one machine.
MAX_DEVICES = 64

#: One MiB of a process reads as so many on the card.
_MEMORY_SCALE = 8
#: A bare interpreter with a kernel in it holds nothing on a card.
_BARE_PROCESS_MIB = 96
#: Housekeeping threads of an idle kernel stay below this, in percent of a core.
_NOISE_PERCENT = 3
#: The notebook server serves pages; only its kernels compute.
_SERVER_NAMES = frozenset({
    "jupyterhub-singleuser", "jupyter-lab", "jupyter-labhub", "jupyter-notebook",
    "jupyter-server", "jupyterhub.singleuser", "jupyter_server", "jupyterlab", "notebook",
})  # fmt: skip


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


class SimulatedGpus:
    """Telemetry of devices that do not exist, from processes that do."""

    def __init__(
        self,
        devices: Sequence[Device],
        processes: Processes,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._devices = tuple(devices)
        self._processes = processes
        self._monotonic_ns = monotonic_ns
        #: Last look at each process, by pid and start.
        self._before: dict[tuple[int, int], ProcessLoad] = {}
        self._servers: dict[tuple[int, int], bool] = {}
        self._looked_ns: int | None = None

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
        loads: dict[tuple[int, int], ProcessLoad] = {}
        found: dict[DeviceId, list[ProcessReading]] = {d.device_id: [] for d in self._devices}
        for holding in holdings:
            for pid in holding.pids:
                measured = self._measure(pid, elapsed_ms, loads)
                if measured is not None:
                    _spread(pid, measured, holding, found)
        self._before = loads
        self._servers = {key: self._servers[key] for key in loads if key in self._servers}
        return {
            device.device_id: _device_reading(device, found[device.device_id])
            for device in self._devices
        }

    def close(self) -> None:
        """Nothing is held."""

    def _measure(
        self, pid: int, elapsed_ms: int, loads: dict[tuple[int, int], ProcessLoad]
    ) -> tuple[int | None, int] | None:
        """Use (percent of a slice) and memory of one process; None when it is gone."""
        stat = self._processes.stat(pid)
        load = None if stat is None else self._processes.load(stat)
        if stat is None or load is None:
            return None
        key = (pid, stat.start)
        loads[key] = load
        if self._is_server(key, stat):
            return (0, 0)
        memory_mib = max(0, load.private_mib - _BARE_PROCESS_MIB) * _MEMORY_SCALE
        before = self._before.get(key)
        if not elapsed_ms:
            return (None, memory_mib)
        if before is None:
            # Born since the last look: all it had was in this interval. Older: not measured yet.
            if load.demand_ms > elapsed_ms:
                return (None, memory_mib)
            before_ms = 0
        else:
            before_ms = before.demand_ms
        percent = (load.demand_ms - before_ms) * 100 // elapsed_ms
        return (min(100, percent) if percent >= _NOISE_PERCENT else 0, memory_mib)

    def _is_server(self, key: tuple[int, int], stat: ProcessStat) -> bool:
        known = self._servers.get(key)
        if known is None:
            words = self._processes.command(stat.pid)[:4]
            known = any(word.rsplit("/", 1)[-1] in _SERVER_NAMES for word in words)
            # A process still on its way to exec shows its parent's command: look again.
            if key in self._before:
                self._servers[key] = known
        return known


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
