"""What becomes of a trigger's standing when something was heard of it.

Pure. Whatever is heard twice counts once: ends of jobs by their ids, falls of a metric by their number,
data by its version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.schedules.schedule import Schedule, Scheduled, Standing
from gpucommons.scheduler.schedules.triggers import (
    LOOKED_AT,
    Fired,
    On,
    Posted,
    Sensed,
    Trigger,
    TriggerKind,
)

#: Ends are looked for so often.
ENDS_EVERY_MS = 10_000
#: A look that goes on is asked after so often.
LOOK_AGAIN_MS = 5_000
#: Ends are looked for so far back, for clocks may have been put back meanwhile.
BACK_MS = 120_000
#: Versions of several data are one text, which a label of a job must hold.
LONGEST = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A job that is over."""

    job: WorkloadId
    name: str
    ended_ms: Millis
    failed: bool
    cancelled: bool = False


def sensed_of(standing: Standing, trigger: Trigger) -> Sensed:
    """What is known of a trigger; of a new one, nothing."""
    known = (one for one in standing.sensed if one.key == trigger.key)
    return next(known, Sensed(key=trigger.key, cursor_ms=trigger.since_ms))


def with_sensed(scheduled: Scheduled, changed: Mapping[str, Sensed]) -> Standing:
    """The standing with these; what belongs to no trigger of today is forgotten."""
    standing = scheduled.standing
    found = (sensed_of(standing, trigger) for trigger in scheduled.schedule.triggers)
    return replace(standing, sensed=tuple(changed.get(one.key, one) for one in found))


def hear_ends(
    trigger: Trigger, sensed: Sensed, ends: Iterable[Ended], *, since_ms: Millis, now_ms: Millis
) -> Sensed:
    """After the ends since :data:`BACK_MS` before the last look."""
    since_ms = max(since_ms, trigger.since_ms)
    heard: list[WorkloadId] = []
    for end in sorted(ends, key=lambda one: one.ended_ms):
        heard.append(end.job)
        if end.job not in sensed.heard and end.ended_ms > since_ms and _counts(trigger.on, end):
            how = "was cancelled" if end.cancelled else "failed" if end.failed else "finished"
            sensed = _fired(trigger, sensed, at_ms=end.ended_ms, cause=f"{end.name} {how}")
    return replace(sensed, heard=tuple(heard), checked_ms=now_ms)


def hear_posted(trigger: Trigger, sensed: Sensed, posted: Posted | None) -> Sensed:
    """After what was posted so far."""
    new = 0 if posted is None else posted.falls - sensed.falls
    if posted is None or new <= 0:
        return sensed
    cause = f"{trigger.what} {posted.value:g} is below {trigger.below:g}"
    for _ in range(min(new, 2)):
        sensed = _fired(trigger, sensed, at_ms=posted.fell_ms, cause=cause)
    assert sensed.fired is not None  # noqa: S101 - it was set just now
    fired = replace(sensed.fired, count=sensed.fired.count + max(0, new - 2))
    return replace(sensed, falls=posted.falls, fired=fired)


def hear_version(trigger: Trigger, sensed: Sensed, version: str, *, now_ms: Millis) -> Sensed:
    """After a look: another version than the last run had is a time of the trigger.

    The first look starts nothing: it tells from what changes are counted. What kept a run out does not
    make the data old: the next look fires again.
    """
    changed_ms = sensed.changed_ms
    if sensed.version not in (None, version):
        changed_ms = now_ms
    used = version if sensed.used is None else sensed.used
    sensed = replace(
        sensed,
        version=version,
        used=used,
        changed_ms=changed_ms,
        checked_ms=now_ms,
        looking_ms=None,
        problem="",
    )
    waiting = sensed.fired.version if sensed.fired is not None else used
    if version in (used, waiting):
        return sensed
    return _fired(trigger, sensed, at_ms=now_ms, cause=trigger.words, version=version)


def not_seen(sensed: Sensed, problem: str, *, now_ms: Millis) -> Sensed:
    """After a look that told nothing."""
    return replace(sensed, checked_ms=now_ms, looking_ms=None, problem=problem)


def post(trigger: Trigger, before: Posted | None, value: float, *, now_ms: Millis) -> Posted:
    """After a post: it falls where it was not below before, also with its first value."""
    known = before or Posted(key=trigger.key, value=trigger.below, at_ms=now_ms)
    falls = value < trigger.below <= known.value
    return replace(
        known,
        value=value,
        at_ms=now_ms,
        falls=known.falls + falls,
        fell_ms=now_ms if falls else known.fell_ms,
    )


def posted_of(schedule: Schedule, trigger: Trigger) -> Posted | None:
    """What was posted of a trigger's metric."""
    return next((one for one in schedule.posted if one.key == trigger.key), None)


def next_sense_ms(scheduled: Scheduled, trigger: Trigger) -> Millis | None:
    """When there is something to do about a trigger next; None = not before somebody posts."""
    sensed = sensed_of(scheduled.standing, trigger)
    if sensed.fired is not None:
        return sensed.fired.last_ms
    if trigger.kind is TriggerKind.METRIC:
        posted = posted_of(scheduled.schedule, trigger)
        is_new = posted is not None and posted.falls > sensed.falls
        return posted.fell_ms if posted is not None and is_new else None
    if trigger.kind is TriggerKind.AFTER:
        return Millis(sensed.checked_ms + ENDS_EVERY_MS)
    if sensed.looking_ms is not None:
        # A look is begun on record first and submitted then.
        begun = sensed.asked_ms < sensed.looking_ms
        return sensed.looking_ms if begun else Millis(sensed.asked_ms + LOOK_AGAIN_MS)
    return Millis(sensed.checked_ms + trigger.every_s * 1000)


def is_looked_at(trigger: Trigger) -> bool:
    """Whether it is known by looking at data."""
    return trigger.kind in LOOKED_AT


def version_known(scheduled: Scheduled) -> str:
    """The version of the data as it was looked at last; "" where none is watched."""
    standing = scheduled.standing
    found = [sensed_of(standing, one) for one in scheduled.schedule.triggers if is_looked_at(one)]
    return " ".join(one.version for one in found if one.version)[:LONGEST]


def _counts(on: On, end: Ended) -> bool:
    is_ok = not end.failed and not end.cancelled
    return {On.ANY: True, On.OK: is_ok, On.FAILED: end.failed}[on]


def _fired(
    trigger: Trigger, sensed: Sensed, *, at_ms: Millis, cause: str, version: str = ""
) -> Sensed:
    at_ms = max(at_ms, Millis(sensed.cursor_ms + 1))
    before = sensed.fired
    fired = Fired(
        first_ms=at_ms if before is None else before.first_ms,
        before_last_ms=None if before is None else before.last_ms,
        last_ms=at_ms,
        count=1 if before is None else before.count + 1,
        words=trigger.words,
        cause=cause,
        version=version,
    )
    return replace(sensed, fired=fired, cursor_ms=at_ms)
