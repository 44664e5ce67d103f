"""How fast a disk takes saved processes: what its trial found, and what saves have taught since.

The rule is TCP's for how long to wait for an answer (RFC 6298, after Jacobson 1988), of what one MiB
took: mean and mean deviation, weighted exponentially by an eighth and a quarter. The mean and twice the
deviation are reckoned with, which 19 of 20 values keep that scatter as a bell does. A save that was not
over in time counts as if it had taken twice as long as it was waited for (section 5.5 there), so the same
save is not promised again. The trial bounds it from below, as short saves end in the cache.

Who is predicted not to be saved is not saved, and can teach nothing better: what saves took beyond the
trial counts half after a while.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpucommons.scheduler.core.going_on import saving_time

#: What saves have taught counts half after so long.
HALF_LIFE_MS = 6 * 3_600_000
#: Of less memory, what is not a matter of memory takes most of the time.
LEAST_MIB = 64
#: No save teaches that the disk is slower than the trial by more than this.
SLOWEST = 16
_US_PER_S = 1_000_000
_MEAN, _DEVIATION, _DEVIATIONS = 8, 4, 2


@dataclass(frozen=True, kw_only=True, slots=True)
class SavingSpeed:
    """Of one disk; times are those of one MiB."""

    trial_mib_per_s: int
    mean_us: int
    deviation_us: int = 0
    #: When a save taught something last.
    at_ms: int = 0


def of_trial(mib_per_s: int) -> SavingSpeed:
    """Where no save has taught anything yet."""
    return SavingSpeed(trial_mib_per_s=mib_per_s, mean_us=_trial_us(mib_per_s))


def after_trial(speed: SavingSpeed, mib_per_s: int) -> SavingSpeed:
    """A new trial says how fast the disk is at best; what saves have taught stays."""
    mean_us = max(speed.mean_us, _trial_us(mib_per_s))
    return replace(speed, trial_mib_per_s=mib_per_s, mean_us=mean_us)


def after_save(
    speed: SavingSpeed, *, memory_mib: int, took_ms: int, in_time: bool, now_ms: int
) -> SavingSpeed:
    """What a save that began has taught; ``took_ms``: until it was over, or given up for its time."""
    if in_time and memory_mib < LEAST_MIB:
        return speed
    trial_us = _trial_us(speed.trial_mib_per_s)
    writing_us = 1000 * max(0, took_ms - saving_time.ALWAYS_MS)
    seen_us = writing_us // max(LEAST_MIB, memory_mib) * (1 if in_time else 2)
    seen_us = min(max(seen_us, trial_us), SLOWEST * trial_us)
    mean_us, deviation_us = _faded(speed, now_ms)
    return replace(
        speed,
        mean_us=mean_us + (seen_us - mean_us) // _MEAN,
        deviation_us=deviation_us + (abs(seen_us - mean_us) - deviation_us) // _DEVIATION,
        at_ms=now_ms,
    )


def predicted_mib_per_s(speed: SavingSpeed, now_ms: int) -> int:
    """What is reckoned with; 0 where the trial told no speed."""
    if speed.trial_mib_per_s <= 0:
        return 0
    mean_us, deviation_us = _faded(speed, now_ms)
    return max(1, min(speed.trial_mib_per_s, _US_PER_S // (mean_us + _DEVIATIONS * deviation_us)))


def _faded(speed: SavingSpeed, now_ms: int) -> tuple[int, int]:
    """Mean and deviation as they count now; in whole steps, so that a node seldom changes by it."""
    times = min(63, max(0, now_ms - speed.at_ms) // HALF_LIFE_MS)
    trial_us = _trial_us(speed.trial_mib_per_s)
    return trial_us + (max(0, speed.mean_us - trial_us) >> times), speed.deviation_us >> times


def _trial_us(mib_per_s: int) -> int:
    return _US_PER_S // max(1, mib_per_s)
