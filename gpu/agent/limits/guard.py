"""All that keeps slices to their size: limits that are verified, and the watchdog behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpucommons.gpu.agent.limits.grants import Grants
from gpucommons.gpu.agent.limits.watchdog import Watchdog
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.linux.processes import ProcessStat
from gpucommons.gpu.node.telemetry import DeviceReading
from gpucommons.gpu.slices.slices import GpuSlice, SliceId
from gpucommons.gpu.slices.usage import UsageSample

#: Limits that could not be undone are tried again this often.
_RETRY_MS = 10_000


@dataclass(kw_only=True, slots=True)
class Guard:
    """What the agent does besides looking."""

    grants: Grants
    #: None where nothing is policed: simulated devices, or an admin said so.
    watchdog: Watchdog | None
    _retried_ms: int = 0

    def look(
        self,
        slices: Sequence[GpuSlice],
        members: Mapping[SliceId, Sequence[ProcessStat]],
        readings: Mapping[DeviceId, DeviceReading],
        *,
        now_ms: int,
    ) -> None:
        """Verify what is due, judge who is over, undo what is left."""
        self.grants.check(_holders(members, readings), now_ms=now_ms)
        if self.watchdog is not None:
            self.watchdog.look(slices, members, readings, now_ms=now_ms)
        if not 0 <= now_ms - self._retried_ms < _RETRY_MS:
            self._retried_ms = now_ms
            self.grants.retry()

    def told(self, sample: UsageSample, active_ms: int | None) -> UsageSample:
        """The sample with what its user should know."""
        self.grants.measured(sample.slice_id, sample.memory_used_mib)
        isolation, why = self.grants.isolation(sample.slice_id)
        notice = None if self.watchdog is None else self.watchdog.notice(sample.slice_id)
        return replace(
            sample,
            active_ms=active_ms,
            isolation=isolation,
            stops_ms=None if notice is None else notice.stops_ms,
            notice=why if notice is None else notice.text,
        )


def _holders(
    members: Mapping[SliceId, Sequence[ProcessStat]], readings: Mapping[DeviceId, DeviceReading]
) -> Mapping[SliceId, Sequence[tuple[int, int]]]:
    """Of each slice, the processes (pid, start) that hold a device."""
    holding = {process.pid for reading in readings.values() for process in reading.processes or ()}
    return {
        slice_id: [(stat.pid, stat.start) for stat in stats if stat.pid in holding]
        for slice_id, stats in members.items()
    }
