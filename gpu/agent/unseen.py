"""Processes on a device that this agent cannot see: those of another PID namespace.

The driver lists them, ``/proc`` does not know them. They may belong to a slice of ours, so as long
as they are there nothing can be said about who uses the device. One look is not enough: a process
that just ended is listed a moment longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.node.telemetry import DeviceReading

_PATIENCE_LOOKS = 3


class Unseen:
    """Counts the looks at which a device listed strangers."""

    def __init__(self, is_live: Callable[[int], bool]) -> None:
        self._is_live = is_live
        self._looks: dict[tuple[DeviceId, int], int] = {}

    def checked(self, device_id: DeviceId, reading: DeviceReading) -> DeviceReading:
        """The reading, without its list of processes where that cannot be trusted."""
        listed = {process.pid for process in reading.processes or ()}
        hidden = {pid for pid in listed if not self._is_live(pid)}
        before = {pid: n for (device, pid), n in self._looks.items() if device == device_id}
        for pid in before.keys() - hidden:
            del self._looks[device_id, pid]
        for pid in hidden:
            self._looks[device_id, pid] = before.get(pid, 0) + 1
        lasting = [pid for pid in hidden if self._looks[device_id, pid] >= _PATIENCE_LOOKS]
        if not lasting:
            return reading
        return replace(
            reading,
            processes=None,
            trouble=reading.trouble
            or (
                f"{len(lasting)} of its processes cannot be seen from here: run the agent in the "
                "PID namespace of the host"
            ),
        )
