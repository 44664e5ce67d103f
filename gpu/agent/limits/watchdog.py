"""The watchdog's hands: from a look to the policy, and from its decisions to signals and words."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpucommons.gpu.agent.limits import watchdog_policy
from gpucommons.gpu.agent.limits.audit import AuditLog
from gpucommons.gpu.agent.limits.watchdog_policy import Decision, Portion, Room, Step, Usage
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.linux.pidfd import signal_process
from gpucommons.gpu.linux.processes import Processes, ProcessStat
from gpucommons.gpu.linux.servers import is_server
from gpucommons.gpu.node.telemetry import NOTHING_KNOWN, DeviceReading
from gpucommons.gpu.providers.base import Held
from gpucommons.gpu.slices.slices import GpuSlice, SliceId

logger = logging.getLogger(__name__)

_MIB_PER_GIB = 1024
#: What happened to a process is shown so long.
_SHOWN_MS = 10 * 60_000

Signal = Callable[[int, int, signal.Signals, Callable[[int], ProcessStat | None]], bool]
Members = Mapping[SliceId, Sequence[ProcessStat]]
Readings = Mapping[DeviceId, DeviceReading]


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """What a slice's user should know."""

    text: str
    #: When a process will be stopped; None = none will.
    stops_ms: int | None
    at_ms: int


class Watchdog:
    """Holds slices to their memory, by consequence."""

    def __init__(
        self,
        devices: Sequence[Device],
        processes: Processes,
        audit: AuditLog,
        *,
        send: Signal = signal_process,
    ) -> None:
        self._devices = {device.device_id: device for device in devices}
        self._processes = processes
        self._audit = audit
        self._send = send
        self._cases: watchdog_policy.Cases = {}
        self._notices: dict[SliceId, Notice] = {}
        self._servers: dict[tuple[int, int], bool] = {}

    def look(
        self, slices: Sequence[GpuSlice], members: Members, readings: Readings, *, now_ms: int
    ) -> None:
        """Judge one look, and do what is due."""
        portions = self._portions(slices, members, readings)
        rooms = {
            device_id: Room(free_mib=_free_mib(device, readings.get(device_id, NOTHING_KNOWN)))
            for device_id, device in self._devices.items()
        }
        self._cases, decisions = watchdog_policy.judge(self._cases, portions, rooms, now_ms=now_ms)
        for decision in decisions:
            self._act(decision, now_ms)
        open_ids = {gpu_slice.slice_id for gpu_slice in slices}
        self._notices = {
            slice_id: notice
            for slice_id, notice in self._notices.items()
            if slice_id in open_ids
            and (notice.stops_ms is not None or now_ms - notice.at_ms < _SHOWN_MS)
        }

    def notice(self, slice_id: SliceId) -> Notice | None:
        """What the slice's user should know now."""
        return self._notices.get(slice_id)

    def _portions(
        self, slices: Sequence[GpuSlice], members: Members, readings: Readings
    ) -> list[Portion]:
        portions: list[Portion] = []
        seen: dict[tuple[int, int], bool] = {}
        for gpu_slice in slices:
            stats = {stat.pid: stat for stat in members.get(gpu_slice.slice_id, ())}
            limits = self._limits(gpu_slice)
            for device_id in self._devices:
                reading = readings.get(device_id, NOTHING_KNOWN)
                usage = self._usage(reading, stats, seen)
                limit_mib = limits.get(device_id)
                if limit_mib is None and not usage:
                    continue
                portions.append(
                    Portion(
                        slice_id=gpu_slice.slice_id,
                        device_id=device_id,
                        limit_mib=limit_mib or 0,
                        processes=usage,
                    )
                )
        self._servers = seen
        return portions

    def _limits(self, gpu_slice: GpuSlice) -> Mapping[DeviceId, int]:
        known = tuple(
            self._devices[s.device_id] for s in gpu_slice.shares if s.device_id in self._devices
        )
        held = Held(slice=gpu_slice, devices=known)
        whole = {device.device_id: device.memory_mib for device in known}
        return whole | dict(held.fractions)

    def _usage(
        self,
        reading: DeviceReading,
        stats: Mapping[int, ProcessStat],
        seen: dict[tuple[int, int], bool],
    ) -> tuple[Usage, ...] | None:
        if reading.processes is None:
            return None
        found = []
        for process in reading.processes:
            stat = stats.get(process.pid)
            if stat is None:
                continue
            if process.memory_mib is None:
                return None
            key = (stat.pid, stat.start)
            if key not in seen:
                known = self._servers.get(key)
                seen[key] = is_server(self._processes.command(stat.pid)) if known is None else known
            found.append(
                Usage(
                    pid=stat.pid,
                    start=stat.start,
                    memory_mib=process.memory_mib,
                    is_server=seen[key],
                )
            )
        return tuple(found)

    def _act(self, decision: Decision, now_ms: int) -> None:
        sent: bool | None = None
        if decision.step in (Step.TERMINATE, Step.KILL):
            number = signal.SIGTERM if decision.step is Step.TERMINATE else signal.SIGKILL
            try:
                sent = self._send(decision.pid, decision.start, number, self._processes.stat)
            except OSError as error:
                logger.warning("process %d cannot be stopped: %s", decision.pid, error)
                sent = False
        if decision.step is Step.CLEAR:
            self._clear(decision, now_ms)
        else:
            self._notices[decision.slice_id] = Notice(
                text=_sentence(decision, now_ms), stops_ms=decision.next_ms, at_ms=now_ms
            )
        self._audit.write(
            now_ms,
            f"memory-{decision.step.value}",
            _record(decision),
            slice_id=decision.slice_id,
            device_id=decision.device_id,
            used_mib=decision.used_mib,
            limit_mib=decision.limit_mib,
            pid=decision.pid or None,
            urgent=decision.urgent,
            sent=sent,
        )

    def _clear(self, decision: Decision, now_ms: int) -> None:
        """A warning that came to nothing goes; that a process was stopped stays a while."""
        notice = self._notices.get(decision.slice_id)
        if notice is None:
            return
        if notice.text.startswith(_STOPPED):
            self._notices[decision.slice_id] = Notice(text=notice.text, stops_ms=None, at_ms=now_ms)
        else:
            del self._notices[decision.slice_id]


_STOPPED = "Stopped"


def _sentence(decision: Decision, now_ms: int) -> str:
    used, limit = _gib(decision.used_mib), _gib(decision.limit_mib)
    where = f"it used {used} of your {limit} GiB"
    if decision.limit_mib == 0:
        where = f"it used {used} GiB of a GPU that is not yours"
    if decision.step is Step.WARN:
        return (
            f"Your slice uses {used} of {limit} GiB. Free memory now, or the process that grew "
            "most is stopped."
        )
    # Who reads it sits elsewhere than the node.
    clock = time.strftime("%H:%M:%S UTC", time.gmtime(now_ms / 1000))
    why = ", and your neighbours needed theirs at once" if decision.urgent else ""
    return f"{_STOPPED} process {decision.pid} at {clock}: {where}{why}."


_DONE = {
    Step.WARN: "warned",
    Step.TERMINATE: "process {pid} asked to end",
    Step.KILL: "process {pid} killed",
    Step.CLEAR: "within its memory again",
}


def _record(decision: Decision) -> str:
    """The same for admins."""
    done = _DONE[decision.step].format(pid=decision.pid)
    used, limit = _gib(decision.used_mib), _gib(decision.limit_mib)
    urgent = "; its neighbours needed theirs at once" if decision.urgent else ""
    return f"{used} of {limit} GiB on {decision.device_id}: {done}{urgent}."


def _gib(mib: int) -> str:
    return f"{mib / _MIB_PER_GIB:.1f}"


def _free_mib(device: Device, reading: DeviceReading) -> int | None:
    if reading.memory_used_mib is None:
        return None
    return max(0, device.memory_mib - reading.memory_used_mib)
