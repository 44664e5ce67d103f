"""The agent's knowledge: open slices, their processes, their samples. No sockets, no clock.

``now_ms`` is always an argument, so ten minutes of a slice pass in a test in no time.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpucommons.gpu.agent.limits.grants import Granted
from gpucommons.gpu.agent.limits.guard import Guard
from gpucommons.gpu.agent.state.chosen_later import is_chosen_later, with_devices, without_devices
from gpucommons.gpu.agent.state.open_slices import OpenSlice, OpenSlices
from gpucommons.gpu.agent.state.state_file import StateFile
from gpucommons.gpu.agent.unseen import Unseen
from gpucommons.gpu.client import wire
from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device, DeviceId
from gpucommons.gpu.errors import (
    BadAgentRequest,
    CannotShrink,
    GpuError,
    LimitNotInForce,
    SliceInUse,
    UnknownDevice,
)
from gpucommons.gpu.linux.processes import ProcessStat
from gpucommons.gpu.node.slice_usage import Look, sample_of
from gpucommons.gpu.node.telemetry import DeviceReading, Holding, Telemetry
from gpucommons.gpu.slices import memory_of_share
from gpucommons.gpu.slices.slice_processes import SliceProcesses
from gpucommons.gpu.slices.slices import GpuSlice, SliceId
from gpucommons.gpu.slices.usage import UsageMinute, UsageSample
from gpucommons.gpu.slices.usage_minutes import UsageMinutes

logger = logging.getLogger(__name__)

#: A reading asked for so soon after the last look repeats its numbers: rates need an interval.
_FRESH_MS = 500


class Watch:
    """Everything that the agent knows about its node."""

    def __init__(
        self,
        telemetry: Telemetry,
        processes: SliceProcesses,
        state_file: StateFile,
        guard: Guard | None = None,
        *,
        shown: Callable[[SliceId], frozenset[str]] | None = None,
    ) -> None:
        """``shown`` are the pods that are shown a slice; None where slices are not in pods."""
        self._guard = guard
        self._telemetry = telemetry
        self._processes = processes
        self._devices = {device.device_id: device for device in telemetry.devices()}
        self._simulated = frozenset(d.device_id for d in telemetry.devices() if d.simulated)
        self._open = OpenSlices(processes, state_file, self._devices, shown)
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
        return {one: seen.trouble for one, seen in self._readings.items() if seen.trouble}

    @property
    def unhealthy(self) -> Mapping[DeviceId, str]:
        """Of these, devices that compute for nobody: lost, or in need of a reset."""
        ill = ((one, seen.trouble) for one, seen in self._readings.items() if seen.is_unhealthy)
        return {one: text for one, text in ill if text}

    @property
    def slices(self) -> tuple[GpuSlice, ...]:
        """The open slices."""
        return tuple(held.slice for held in self._open)

    @property
    def in_use(self) -> tuple[GpuSlice, ...]:
        """The same with what each may use now."""
        return tuple(held.in_use for held in self._open)

    @property
    def memory(self) -> str:
        """Another one means that everything known before was lost."""
        return self._open.memory

    def restore(self, *, now_ms: int) -> None:
        """Know again what was open before a restart."""
        grants = None if self._guard is None else self._guard.grants
        self._open.restore(tuple if grants is None else grants.remembered, now_ms=now_ms)
        if grants is not None:
            grants.restore(self._open.ids)

    def open(self, gpu_slice: GpuSlice, *, used: bool = False) -> None:
        """Begin to watch a slice; the same one again changes nothing.

        ``used`` says that processes may run in it already, of which this agent may know nothing.
        """
        self._open.open(gpu_slice, used=used)

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
            shares = self._open.known(gpu_slice.slice_id).slice.shares
            return self._guard.grants.grant(replace(gpu_slice, shares=shares), uid)
        except (GpuError, OSError):
            if not was_open:
                self.close(gpu_slice.slice_id)
            raise

    def admit(self, slice_id: SliceId, pod: str, given: Sequence[DeviceId] = ()) -> GpuSlice:
        """Put the limits of an open slice in force, and make a pod its only user.

        ``given`` are the devices that the kubelet gave to the pod.

        Raises
        ------
        UnknownSlice
            When it is not open: the scheduler did not grant it, or not yet.
        LimitNotInForce
            When its limit is not in force: the pod must not start.
        SliceInUse
            When it is another pod's, or the pod has another.
        UnknownDevice
            When its devices are chosen by the kubelet, and ``given`` are none.
        """
        held = self._open.known(slice_id)
        if self._processes.roots(slice_id).pods - {pod}:
            message = f"Slice {slice_id} is another pod's: wait until that one is gone."
            raise SliceInUse(message)
        if any(pod in pods for one, pods in self._open.tenants().items() if one != slice_id):
            raise SliceInUse("A pod has one slice, and this one has another already.")
        if self._guard is None:
            raise LimitNotInForce("This agent only watches; it makes no slices.")
        if held.slice.mps is not None:
            message = (
                "This pool shares its cards through MPS, whose daemon pods are not given: take `mps` "
                "out of the pool's settings."
            )
            raise LimitNotInForce(message)
        if any(map(is_chosen_later, held.slice.shares)):
            if not given:
                raise UnknownDevice("The kubelet chose the devices of this slice: name them.")
            held.slice = with_devices(held.slice, given, self._devices)
        self._guard.grants.grant(held.slice, None, pod)
        self._processes.bind_pod(slice_id, pod)
        self._open.save()
        return held.slice

    def dismiss(self, pod: str) -> bool:
        """A pod does not have its slice any more; False when it had none."""
        had = [one for one, pods in self._open.tenants().items() if pod in pods]
        self._processes.unbind_pod(pod)
        for slice_id in had:
            if self._guard is not None:
                # The next pod finds it as if nobody had ever used it.
                self._guard.grants.release(slice_id)
            held = self._open.known(slice_id)
            if held.later:
                held.slice = without_devices(held.slice)
        if had:
            self._open.save()
        return bool(had)

    def tenants(self) -> Mapping[SliceId, frozenset[str]]:
        """The pods that have a slice."""
        return self._open.tenants()

    def resize(self, slice_id: SliceId, memory_mib: int) -> None:
        """Change the memory of a slice that is one fraction of one device.

        Raises
        ------
        CannotShrink
            When more is in use.
        """
        held = self._open.known(slice_id)
        share, *others = held.slice.shares
        if others or share.milli_gpu >= WHOLE_MILLI_GPU:
            raise BadAgentRequest("Only a fraction of one device can be resized.")
        least_mib, room_mib = memory_of_share.bounds_mib(self._devices[share.device_id])
        if not least_mib <= memory_mib <= room_mib:
            raise BadAgentRequest(f"memory_mib must be from {least_mib} to {room_mib}.")
        used_mib = 0 if held.newest is None else held.newest.memory_used_mib or 0
        if memory_mib < used_mib:
            # Some limits bind only what comes later: what is in use would be over at once.
            raise CannotShrink(used_mib=used_mib, wanted_mib=memory_mib)
        if self._guard is not None:
            self._guard.grants.resize(slice_id, memory_mib)
        held.slice = replace(held.slice, memory_mib=memory_mib)
        self._open.save()

    def park(self, slice_id: SliceId, *, now_ms: int) -> tuple[int, ...]:
        """Let nothing of a slice use its devices until it is opened again; answers who does all the same.

        Raises
        ------
        GpuError
            When it cannot be seen who is on one of them.
        """
        held = self._open.known(slice_id)
        if not held.parked:
            held.parked = True
            self._open.save()
        self.look(now_ms=now_ms)
        found: set[int] = set()
        own = set(self._pids(slice_id))
        for share in held.slice.shares:
            reading = self._readings.get(share.device_id)
            if reading is None or reading.processes is None:
                raise GpuError(f"It cannot be seen who is on {share.device_id}.")
            there = {one.pid for one in reading.processes}
            found |= there & own
            found |= {pid for pid in there if held.unsure and self._processes.is_stray(pid)}
        return tuple(sorted(found))

    def bind(self, slice_id: SliceId, pid: int) -> bool:
        """Make a process a root of the slice; False when it has ended already."""
        self._open.known(slice_id)
        if self._guard is not None:
            wanted = self._guard.grants.uid(slice_id)
            if wanted is not None and not self._processes.is_of(pid, wanted):
                # The process that was meant is gone, and its pid is somebody else's by now.
                return False
            self._guard.grants.attach(slice_id, pid)
        bound = self._processes.bind(slice_id, pid)
        if bound:
            self._open.save()
        return bound

    def close(self, slice_id: SliceId) -> None:
        """Stop watching; an unknown slice is closed already."""
        if not self._open.drop(slice_id):
            return
        if self._guard is not None:
            self._guard.grants.release(slice_id)
        # Last: on a full disk the limits are undone all the same.
        self._open.save()

    def uids(self, slice_id: SliceId) -> frozenset[int]:
        """The users of the slice: for whom it was prepared, whose processes were bound to it."""
        self._open.known(slice_id)
        uid = None if self._guard is None else self._guard.grants.uid(slice_id)
        prepared_for = frozenset() if uid is None else frozenset({uid})
        return prepared_for | self._processes.roots(slice_id).uids

    def slice_of(self, pid: int) -> SliceId | None:
        """The slice that a process belongs to, as of now."""
        return self._processes.owner(pid)

    def is_in_a_pod(self, pid: int) -> bool:
        """Whether a process is in a pod other than the agent's own."""
        return self._processes.is_in_a_pod(pid)

    def look(self, *, now_ms: int) -> Mapping[SliceId, bytes]:
        """Take one sample of every open slice; returns them encoded, one line each."""
        self._members = self._processes.refresh()
        holdings = [
            Holding(shares=held.in_use.shares, processes=self._members.get(held.slice.slice_id, ()))
            for held in self._open
        ]
        self._note(self._seen(self._telemetry.read(holdings, now_ms=now_ms)))
        # From the next look on they are counted, and stopped, with their slice.
        for reading in self._readings.values():
            self._processes.adopt(process.pid for process in reading.processes or ())
        if self._guard is not None:
            self._guard.look(self.in_use, self._members, self._readings, now_ms=now_ms)
        self._looked_ms = now_ms
        tenants = Counter(share.device_id for held in self._open for share in held.in_use.shares)
        look = Look(
            at_ms=now_ms,
            readings=self._readings,
            shared=frozenset(device_id for device_id, count in tenants.items() if count > 1),
            simulated=self._simulated,
        )
        samples = {held.slice.slice_id: self._sample(held, look) for held in self._open}
        self._open.save_activity()
        return samples

    def history(self, slice_id: SliceId) -> bytes:
        """The ring of a slice as one line."""
        # Samples are objects already encoded: joining them is cheaper than building them anew.
        return b'{"history":[' + b",".join(self._open.known(slice_id).ring) + b"]}\n"

    def reading(
        self, slice_id: SliceId, *, now_ms: int
    ) -> tuple[UsageSample | None, tuple[int, ...]]:
        """The newest sample, and the slice's live processes as of now.

        In pods an unknown slice is answered too: whoever could be in it is in a pod that is shown it.

        Raises
        ------
        UnknownSlice
            When it is not open, and nothing else tells who is in it.
        GpuError
            When it was used before this agent knew of it, and its devices do not say by whom.
        """
        pods = None if slice_id in self._open else self._open.shown_to(slice_id)
        if pods is not None:
            self._processes.refresh()
            return None, self._processes.in_pods(pods)
        held = self._open.known(slice_id)
        last_ms = self._looked_ms
        if last_ms is None or held.newest is None or not 0 <= now_ms - last_ms < _FRESH_MS:
            self.look(now_ms=now_ms)
        else:
            self._members = self._processes.refresh()
        pids = self._pids(slice_id)
        return held.newest, self._perhaps_in(held) if held.unsure and not pids else pids

    def usage(self) -> tuple[UsageSample, ...]:
        """The newest sample of every slice that has one."""
        return tuple(held.newest for held in self._open if held.newest is not None)

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

    def _perhaps_in(self, held: OpenSlice) -> tuple[int, ...]:
        """Processes that nobody else owns and that name the slice or hold its devices."""
        found = set(self._processes.naming(held.slice.slice_id))
        for share in held.slice.shares:
            reading = self._readings.get(share.device_id)
            if reading is None or reading.processes is None:
                message = f"Slice {held.slice.slice_id} was used before this agent knew of it, and "
                raise GpuError(f"{message}it cannot be seen who is on {share.device_id}.")
            found.update(one.pid for one in reading.processes if self._processes.is_stray(one.pid))
        return tuple(sorted(found))

    def _sample(self, held: OpenSlice, look: Look) -> bytes:
        pids = self._pids(held.slice.slice_id)
        sample = sample_of(held.slice, pids, look)
        if held.parked:
            sample = replace(sample, compute_percent=0, memory_used_mib=0, processes=0)
        if held.unsure and not pids:
            # Whoever runs there is not known: that is not nobody.
            sample = replace(sample, compute_percent=None, memory_used_mib=None, processes=None)
        active_ms = held.observe(sample)
        held.newest = replace(sample, active_ms=active_ms)
        if self._guard is not None:
            held.newest = self._guard.told(sample, active_ms)
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
