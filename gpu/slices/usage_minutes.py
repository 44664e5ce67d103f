"""Samples rolled up by the minute: what the scheduler's ledger pulls, once a minute is over."""

from __future__ import annotations

from dataclasses import dataclass

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.gpu.slices.usage import UsageMinute, UsageSample

MINUTE_MS = 60_000
#: A scheduler that was away longer than this has a gap in its ledger.
KEPT_MINUTES = 60


@dataclass(kw_only=True, slots=True)
class _Sums:
    samples: int = 0
    compute_sum: int = 0
    compute_samples: int = 0
    compute_max: int | None = None
    memory_max: int | None = None

    def add(self, sample: UsageSample) -> None:
        self.samples += 1
        if sample.compute_percent is not None:
            self.compute_sum += sample.compute_percent
            self.compute_samples += 1
            self.compute_max = max(self.compute_max or 0, sample.compute_percent)
        if sample.memory_used_mib is not None:
            self.memory_max = max(self.memory_max or 0, sample.memory_used_mib)


class UsageMinutes:
    """The last hour of every slice, closed ones included."""

    def __init__(self) -> None:
        self._sums: dict[int, dict[SliceId, _Sums]] = {}

    def add(self, sample: UsageSample) -> None:
        """Count one sample into its minute."""
        minute_ms = sample.at_ms - sample.at_ms % MINUTE_MS
        if minute_ms not in self._sums:
            self._sums[minute_ms] = {}
            oldest_ms = minute_ms - KEPT_MINUTES * MINUTE_MS
            for old_ms in [start for start in self._sums if start < oldest_ms]:
                del self._sums[old_ms]
        self._sums[minute_ms].setdefault(sample.slice_id, _Sums()).add(sample)

    def after(self, after_ms: int, *, now_ms: int) -> tuple[UsageMinute, ...]:
        """Finished minutes that start later than ``after_ms``, in order."""
        return tuple(
            UsageMinute(
                slice_id=slice_id,
                minute_ms=minute_ms,
                samples=sums.samples,
                compute_percent_mean=(
                    sums.compute_sum // sums.compute_samples if sums.compute_samples else None
                ),
                compute_percent_max=sums.compute_max,
                memory_used_mib_max=sums.memory_max,
            )
            for minute_ms in sorted(self._sums)
            if after_ms < minute_ms <= now_ms - MINUTE_MS
            for slice_id, sums in sorted(self._sums[minute_ms].items())
        )
