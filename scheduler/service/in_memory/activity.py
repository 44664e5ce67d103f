"""What notebooks do: reports of their servers and readings of the node agent, in memory only.

After a restart nothing is known, and nothing known is not idle: the culler treats it as
unverified until the next report, seconds later.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.gpu.slices.usage import UsageSample
from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.models import KernelActivity

#: The span of the compute percentile on screens.
WINDOW_MS = 60 * 60_000
#: Readings kept within the window: more say no more.
_MAX_READINGS = 720
#: A report or reading older than this says nothing about now.
STALE_MS = 3 * 60_000
#: Of a kernel's name, and of one report: the culler and admins read those of all notebooks at once.
_NAME_CHARACTERS = 80
_MOST_OCCUPANTS = 64
#: A slice that computed so recently counts as busy for a reclaim.
_RECENT_MS = 2 * 60_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The newest report of a notebook's server."""

    at_ms: Millis
    kernels: tuple[KernelActivity, ...]
    #: What the server says that it keeps when it stops; empty = it did not say.
    keeps: str = ""
    #: It can move its GPU memory to the host.
    parks: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuActivity:
    """What the agent said of a slice."""

    active_ms: int | None = None
    usage_ms: int | None = None
    compute_percent_p95: int | None = None


class ActivityBoard:
    """Newest report per lease and newest readings per slice. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reports: dict[WorkloadId, Report] = {}
        self._newest: dict[SliceId, UsageSample] = {}
        self._compute: dict[SliceId, deque[tuple[int, int]]] = {}

    def report(
        self,
        lease_id: WorkloadId,
        kernels: Iterable[KernelActivity],
        now_ms: Millis,
        *,
        keeps: str = "",
        parks: bool = False,
    ) -> None:
        """A notebook's server tells what runs; nothing has happened later than it is told."""
        happened = _those_that_count([_until(kernel, now_ms) for kernel in kernels])
        with self._lock:
            self._reports[lease_id] = Report(
                at_ms=now_ms, kernels=happened, keeps=keeps, parks=parks
            )

    def read(self, samples: Iterable[UsageSample]) -> None:
        """The agent's newest samples."""
        with self._lock:
            for sample in samples:
                known = self._newest.get(sample.slice_id)
                if known is not None and sample.at_ms <= known.at_ms:
                    continue
                self._newest[sample.slice_id] = sample
                if sample.compute_percent is not None:
                    self._remember(sample.slice_id, sample.at_ms, sample.compute_percent)

    def _remember(self, slice_id: SliceId, at_ms: int, percent: int) -> None:
        readings = self._compute.setdefault(slice_id, deque(maxlen=_MAX_READINGS))
        readings.append((at_ms, percent))
        while readings and readings[0][0] <= at_ms - WINDOW_MS:
            readings.popleft()

    def forget_all_but(self, leases: frozenset[WorkloadId], slices: frozenset[SliceId]) -> None:
        """Drop what belongs to leases and slices that are gone."""
        with self._lock:
            for lease_id in self._reports.keys() - leases:
                del self._reports[lease_id]
            for slice_id in self._newest.keys() - slices:
                del self._newest[slice_id]
                self._compute.pop(slice_id, None)

    def report_of(self, lease_id: WorkloadId) -> Report | None:
        """The newest report; None = never one."""
        with self._lock:
            return self._reports.get(lease_id)

    def keeps_of(self, lease_id: WorkloadId) -> str:
        """What its server says that it keeps when it stops; empty = it has not said anything."""
        report = self.report_of(lease_id)
        return "" if report is None else report.keeps

    def parks(self, lease_id: WorkloadId) -> bool:
        """Whether its server says that it can move its GPU memory to the host."""
        report = self.report_of(lease_id)
        return report is not None and report.parks

    def gpu_of(self, slice_id: SliceId | None) -> GpuActivity:
        """What is known of a slice."""
        with self._lock:
            sample = self._newest.get(slice_id) if slice_id is not None else None
            if sample is None:
                return GpuActivity()
            percents = [percent for _, percent in self._compute.get(sample.slice_id, ())]
        return GpuActivity(
            active_ms=sample.active_ms,
            usage_ms=sample.at_ms,
            compute_percent_p95=percentile_95(percents),
        )


def percentile_95(values: Iterable[int]) -> int | None:
    """The value that 95 of 100 readings do not pass (nearest rank)."""
    ordered = sorted(values)
    return ordered[-(-95 * len(ordered) // 100) - 1] if ordered else None


def why_busy(report: Report | None, gpu: GpuActivity, now_ms: int) -> str | None:
    """Why a notebook may not be taken back without force; None when it is seen to be idle."""
    if report is None or now_ms - report.at_ms > STALE_MS:
        return "its server has not reported lately, so nobody can say that it is idle"
    for entry in report.kernels:
        if entry.busy:
            return f"{entry.kind} {entry.name} is busy".replace("  ", " ")
    if gpu.usage_ms is None or now_ms - gpu.usage_ms > STALE_MS:
        return "its GPU cannot be read, so nobody can say that it is idle"
    if gpu.active_ms is not None and now_ms - gpu.active_ms < _RECENT_MS:
        return "its GPU computed in the last two minutes"
    return None


def _those_that_count(kernels: list[KernelActivity]) -> tuple[KernelActivity, ...]:
    """The busy ones, then those that were last active: nothing is decided on the others."""
    kernels.sort(key=lambda one: (not one.busy, -(one.last_active_ms or 0)))
    return tuple(
        one.model_copy(update={"name": one.name[:_NAME_CHARACTERS]})
        for one in kernels[:_MOST_OCCUPANTS]
    )


def _until(kernel: KernelActivity, now_ms: Millis) -> KernelActivity:
    """Without a time to come, which a wrong clock or a sly user may tell: it would never be idle."""
    told_ms = kernel.last_active_ms
    if told_ms is None or told_ms <= now_ms:
        return kernel
    return kernel.model_copy(update={"last_active_ms": now_ms})
