"""When a slice counts as computing: the rule the idle policy stands on.

A slice is active in a bucket of ten seconds in which it computed for at least 3 % of the time,
and whenever its memory grew by more than 64 MiB. What the driver cannot say counts as active:
missing telemetry is never idle, and neither is time in which nobody looked.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpucommons.gpu.slices.usage import UsageSample

#: Length of a bucket.
BUCKET_MS = 10_000
#: Counters of idle cards are not always zero.
NOISE_FLOOR_PERCENT = 3
#: Loading a model is work even before it computes.
MEMORY_GROWTH_MIB = 64

#: A longer gap between two samples is not credited: nobody looked.
_MAX_STEP_MS = 2_000
#: A longer one is no idle time either: twice the minute after which a restart's memory is written.
UNSEEN_AFTER_MS = 120_000
_FULL_PERCENT_MS = NOISE_FLOOR_PERCENT * BUCKET_MS


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """What must be remembered between two samples of one slice."""

    #: Last instant at which the slice was active or could not be seen to be idle; None = never.
    #: Moved on by each time in which nobody looked, so what has passed since was seen.
    active_ms: int | None = None
    #: Time of the sample before.
    seen_ms: int | None = None
    #: Start of the bucket that is filling.
    bucket_ms: int = 0
    #: Percent times milliseconds gathered in it.
    percent_ms: int = 0
    #: Lowest memory since the last growth; None before the first number.
    low_mib: int | None = None
    #: It was seen before a restart: its next sample may have no rate yet, and has no memory to be
    #: compared with.
    resumed: bool = False


def observe(before: Activity, sample: UsageSample) -> Activity:
    """Take one more sample into account."""
    bucket_ms = sample.at_ms - sample.at_ms % BUCKET_MS
    gathered = before.percent_ms if bucket_ms == before.bucket_ms else 0
    step_ms = 0
    if before.seen_ms is not None:
        step_ms = min(_MAX_STEP_MS, max(0, sample.at_ms - before.seen_ms))
    gathered += (sample.compute_percent or 0) * step_ms
    grew, low_mib = _memory(before.low_mib, sample.memory_used_mib)
    # Of a first look a rate may be missing alone: where the driver cannot say it, the next tells.
    unknown = sample.memory_used_mib is None or (
        sample.compute_percent is None and not before.resumed
    )
    active = unknown or (grew and not before.resumed) or gathered >= _FULL_PERCENT_MS
    since_ms = _without_unseen(before, sample.at_ms)
    return Activity(
        active_ms=max(since_ms or 0, sample.at_ms) if active else since_ms,
        seen_ms=sample.at_ms,
        bucket_ms=bucket_ms,
        percent_ms=gathered,
        low_mib=low_mib,
    )


def _without_unseen(before: Activity, at_ms: int) -> int | None:
    """The last activity, so late that no idle time is counted in which nobody looked."""
    if before.seen_ms is None:
        # Opened before a restart and not looked at, or written by a release that kept no look.
        return at_ms if before.resumed else before.active_ms
    away_ms = at_ms - before.seen_ms
    if away_ms <= UNSEEN_AFTER_MS:
        return before.active_ms
    if before.active_ms is None:
        return at_ms
    return max(before.active_ms, min(at_ms, before.active_ms + away_ms))


def _memory(low_mib: int | None, used_mib: int | None) -> tuple[bool, int | None]:
    """Whether memory grew, and the mark for the next sample."""
    if used_mib is None:
        return False, low_mib
    if low_mib is None:
        return used_mib > MEMORY_GROWTH_MIB, used_mib
    if used_mib - low_mib > MEMORY_GROWTH_MIB:
        return True, used_mib
    return False, min(low_mib, used_mib)
