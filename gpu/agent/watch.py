"""The agent's knowledge: open slices, their processes, their samples. No sockets, no clock.

``now_ms`` is always an argument, so ten minutes of a slice pass in a test in no time.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpucommons.gpu import idle_signals, wire
from gpucommons.gpu.agent.grants import Granted
from gpucommons.gpu.agent.guard import Guard
from gpucommons.gpu.agent.state_file import SavedSlice, StateFile
from gpucommons.gpu.agent.unseen import Unseen
from gpucommons.gpu.devices import MIN_SLICE_MIB, WHOLE_MILLI_GPU, Device, DeviceId
from gpucommons.gpu.errors import (
    BadAgentRequest,
    GpuError,
    LimitNotInForce,
    SliceInUse,
    UnknownDevice,
    UnknownSlice,
)
from gpucommons.gpu.processes import ProcessStat
from gpucommons.gpu.slice_processes import SliceProcesses
from gpucommons.gpu.slice_usage import Look, sample_of
from gpucommons.gpu.slices import GpuSlice, SliceId
from gpucommons.gpu.telemetry import DeviceReading, Holding, Telemetry
from gpucommons.gpu.usage import UsageMinute, UsageSample
from gpucommons.gpu.usage_minutes import UsageMinutes

logger = logging.getLogger(__name__)

#: Samples kept per slice: ten minutes at one a second.
RING_SAMPLES = 600
#: A reading asked for so soon after the last look repeats its numbers: rates need an interval.
_FRESH_MS = 500


@dataclass(kw_only=True, slots=True)
class _Open:
    slice: GpuSlice
    #: Encoded samples: they are only ever sent.
    ring: deque[bytes] = field(default_factory=lambda: deque(maxlen=RING_SAMPLES))
    activity: idle_signals.Activity = field(default_factory=idle_signals.Activity)
    newest: UsageSample | None = None


class Watch:
    """Everything that the agent knows about its node."""

    def __init__(
        self,
        telemetry: Telemetry,
        processes: SliceProcesses,
        state_file: StateFile,
        guard: Guard | None = None,
    ) -> None:
        self._guard = guard
        self._telemetry = telemetry
        self._processes = processes
        self._state_file = state_file
        self._devices = {device.device_id: device for device in telemetry.devices()}
        self._simulated = frozenset(d.device_id for d in telemetry.devices() if d.simulated)
        self._open: dict[SliceId, _Open] = {}
        self._members: Mapping[SliceId, tuple[ProcessStat, ...]] = {}
        self._minutes = UsageMinutes()
        self._readings: Mapping[DeviceId, DeviceReading] = {}
        self._looked_ms: int | None = None
        self._unseen = Unseen(self._processes.is_live)

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices of this node."""
        return tuple(self._devices.values())

    @property
    def troubles(self) -> Mapping[DeviceId, str]:
        """What the driver says is wrong, for each device that is ill."""
        return {
            device_id: reading.trouble
            for device_id, reading in self._readings.items()
            if reading.trouble is not None
        }

    @property
    def slices(self) -> tuple[GpuSlice, ...]:
        """The open slices."""
        return tuple(held.slice for held in self._open.values())

    def restore(self, *, now_ms: int) -> None:
        """Know again what was open before a restart."""
        for saved in self._state_file.load():
            slice_id = saved.slice.slice_id
            # Nobody looked while we were away: that is not idle.
            activity = idle_signals.Activity(active_ms=now_ms)
            self._open[slice_id] = _Open(slice=saved.slice, activity=activity)
            self._processes.open(slice_id, saved.roots)
        if self._guard is not None:
            self._guard.grants.restore(self._open)

    def open(self, gpu_slice: GpuSlice) -> None:
        """Begin to watch a slice; the same one again changes nothing."""
        known = self._open.get(gpu_slice.slice_id)
        if known is not None:
            # The memory may have been changed since: that is no other slice.
            if known.slice.shares != gpu_slice.shares:
                message = (
                    f"Slice {gpu_slice.slice_id} is open with other shares: close it first, "
                    "or choose another name."
                )
                raise SliceInUse(message)
            return
        for share in gpu_slice.shares:
            if share.device_id not in self._devices:
                here = ", ".join(self._devices) or "none"
                message = f"There is no device {share.device_id} on this node; it has: {here}."
                raise UnknownDevice(message)
        self._open[gpu_slice.slice_id] = _Open(slice=gpu_slice)
        self._processes.open(gpu_slice.slice_id)
        try:
            self._save()
        except OSError:
            # What a restart would not know is not open.
            del self._open[gpu_slice.slice_id]
            self._processes.close(gpu_slice.slice_id)
            raise

    def prepare(self, gpu_slice: GpuSlice, uid: int | None) -> Granted:
        """Open a slice and put its limits in force.

        Raises
        ------
        LimitNotInForce
            When they are not: nothing may start on the slice.
        """
        was_open = gpu_slice.slice_id in self._open
        self.open(gpu_slice)
        try:
            if self._guard is None:
                raise LimitNotInForce("This agent only watches; it makes no slices.")
            return self._guard.grants.grant(gpu_slice, uid)
        except (GpuError, OSError):
            if not was_open:
                self.close(gpu_slice.slice_id)
            raise

    def resize(self, slice_id: SliceId, memory_mib: int) -> None:
        """Change the memory of a slice that is one fraction of one device.

        Raises
        ------
        CannotShrink
            When more is in use.
        """
        held = self._known(slice_id)
        share, *others = held.slice.shares
        if others or share.milli_gpu >= WHOLE_MILLI_GPU:
            raise BadAgentRequest("Only a fraction of one device can be resized.")
        room_mib = self._devices[share.device_id].slice_memory_mib(WHOLE_MILLI_GPU)
        if not MIN_SLICE_MIB <= memory_mib <= room_mib:
            raise BadAgentRequest(f"memory_mib must be from {MIN_SLICE_MIB} to {room_mib}.")
        if self._guard is not None:
            self._guard.grants.resize(slice_id, memory_mib)
        held.slice = replace(held.slice, memory_mib=memory_mib)
        self._save()

    def bind(self, slice_id: SliceId, pid: int) -> bool:
        """Make a process a root of the slice; False when it has ended already."""
        self._known(slice_id)
        if self._guard is not None:
            wanted = self._guard.grants.uid(slice_id)
            if wanted is not None and not self._processes.is_of(pid, wanted):
                # The process that was meant is gone, and its pid is somebody else's by now.
                return False
            self._guard.grants.attach(slice_id, pid)
        bound = self._processes.bind(slice_id, pid)
        if bound:
            self._save()
        return bound

    def close(self, slice_id: SliceId) -> None:
        """Stop watching; an unknown slice is closed already."""
        if self._open.pop(slice_id, None) is None:
            return
        self._processes.close(slice_id)
        if self._guard is not None:
            self._guard.grants.release(slice_id)
        # Last: on a full disk the limits are undone all the same.
        self._save()

    def uids(self, slice_id: SliceId) -> frozenset[int]:
        """The users of the slice: for whom it was prepared, whose processes were bound to it."""
        self._known(slice_id)
        uid = None if self._guard is None else self._guard.grants.uid(slice_id)
        prepared_for = frozenset() if uid is None else frozenset({uid})
        return prepared_for | self._processes.roots(slice_id).uids

    def slice_of(self, pid: int) -> SliceId | None:
        """The slice that a process belongs to, as of now."""
        return self._processes.owner(pid)

    def look(self, *, now_ms: int) -> Mapping[SliceId, bytes]:
        """Take one sample of every open slice; returns them encoded, one line each."""
        self._members = self._processes.refresh()
        holdings = [
            Holding(shares=held.slice.shares, processes=self._members.get(slice_id, ()))
            for slice_id, held in self._open.items()
        ]
        self._note(self._seen(self._telemetry.read(holdings, now_ms=now_ms)))
        # From the next look on they are counted, and stopped, with their slice.
        for reading in self._readings.values():
            self._processes.adopt(process.pid for process in reading.processes or ())
        if self._guard is not None:
            self._guard.look(self.slices, self._members, self._readings, now_ms=now_ms)
        self._looked_ms = now_ms
        tenants = Counter(
            share.device_id for held in self._open.values() for share in held.slice.shares
        )
        look = Look(
            at_ms=now_ms,
            readings=self._readings,
            shared=frozenset(device_id for device_id, count in tenants.items() if count > 1),
            simulated=self._simulated,
        )
        return {slice_id: self._sample(held, look) for slice_id, held in self._open.items()}

    def history(self, slice_id: SliceId) -> bytes:
        """The ring of a slice as one line."""
        # Samples are objects already encoded: joining them is cheaper than building them anew.
        return b'{"history":[' + b",".join(self._known(slice_id).ring) + b"]}\n"

    def reading(
        self, slice_id: SliceId, *, now_ms: int
    ) -> tuple[UsageSample | None, tuple[int, ...]]:
        """The newest sample, and the slice's live processes as of now."""
        held = self._known(slice_id)
        last_ms = self._looked_ms
        if last_ms is None or held.newest is None or not 0 <= now_ms - last_ms < _FRESH_MS:
            self.look(now_ms=now_ms)
        else:
            self._members = self._processes.refresh()
        return held.newest, self._pids(slice_id)

    def usage(self) -> tuple[UsageSample, ...]:
        """The newest sample of every slice that has one."""
        return tuple(held.newest for held in self._open.values() if held.newest is not None)

    def minutes(self, after_ms: int, *, now_ms: int) -> tuple[UsageMinute, ...]:
        """Finished minutes that start later than ``after_ms``."""
        return self._minutes.after(after_ms, now_ms=now_ms)

    def device_usage(self) -> Sequence[tuple[Device, DeviceReading]]:
        """The last look at every device, for the metrics of the admin."""
        return [
            (device, self._readings[device.device_id])
            for device in self._devices.values()
            if device.device_id in self._readings
        ]

    def _sample(self, held: _Open, look: Look) -> bytes:
        sample = sample_of(held.slice, self._pids(held.slice.slice_id), look)
        held.activity = idle_signals.observe(held.activity, sample)
        held.newest = replace(sample, active_ms=held.activity.active_ms)
        if self._guard is not None:
            held.newest = self._guard.told(held.newest)
        self._minutes.add(sample)
        encoded = wire.encode(wire.sample_json(held.newest)).rstrip()
        held.ring.append(encoded)
        return b'{"sample":' + encoded + b"}\n"

    def _pids(self, slice_id: SliceId) -> tuple[int, ...]:
        return tuple(sorted(stat.pid for stat in self._members.get(slice_id, ())))

    def _seen(self, readings: Mapping[DeviceId, DeviceReading]) -> Mapping[DeviceId, DeviceReading]:
        """Readings without lists that name processes which this agent cannot see.

        They may be anybody's, ours too: a sum over the others would read as idle.
        """
        return {
            device_id: self._unseen.checked(device_id, reading)
            for device_id, reading in readings.items()
        }

    def _note(self, readings: Mapping[DeviceId, DeviceReading]) -> None:
        """Take the readings, and log what changed for the worse or the better."""
        before = self.troubles
        self._readings = readings
        for device_id, trouble in self.troubles.items():
            if before.get(device_id) != trouble:
                logger.warning("Device %s: %s", device_id, trouble)
        for device_id in before.keys() - self.troubles.keys():
            logger.info("Device %s answers again.", device_id)

    def _known(self, slice_id: SliceId) -> _Open:
        try:
            return self._open[slice_id]
        except KeyError:
            message = f"The node agent knows no slice {slice_id}: open it first."
            raise UnknownSlice(message) from None

    def _save(self) -> None:
        self._state_file.save(
            [
                SavedSlice(slice=held.slice, roots=self._processes.roots(slice_id))
                for slice_id, held in self._open.items()
            ]
        )
