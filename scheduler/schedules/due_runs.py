"""What is due of a schedule, and what is recorded of its times.

The rules and their names are those of Kubernetes' CronJob, with two differences: a time that passed
without a start is recorded with its reason, whatever the reason; and of several that passed together
only the last one is started, never a hundred. Triggers have the same rules, each for itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from gpucommons.scheduler.amount_words import duration
from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.schedules import cron_times, promoting, trigger_state
from gpucommons.scheduler.schedules.schedule import (
    Concurrency,
    Outcome,
    Run,
    Schedule,
    Scheduled,
    Standing,
)
from gpucommons.scheduler.schedules.triggers import Sensed

#: Runs that are remembered.
RUNS_KEPT = 100
#: Times that are counted one by one: there may have been more.
COUNTED = 1000
#: Runs of one schedule that triggers start within an hour: jobs that wait for each other go in circles.
MOST_AN_HOUR = 12
#: A scheduler that runs tries what is due within so long.
_PROMPT_MS = 15_000
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_NOT_RUNNING = "The scheduler did not run at that time"
_STILL_ON = "The run before still went on"
_SUSPENDED = "It was suspended before the run could start"
_TOGETHER = "Several came together, of which the last one counts"
_STORM = (
    f"Triggers had started {MOST_AN_HOUR} runs within an hour, as many as they may: look at what starts"
    " it so often"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """A run that is due now."""

    due_ms: Millis
    #: Runs to be cancelled for it.
    replaces: tuple[WorkloadId, ...] = ()
    #: The trigger whose time it is, by its key; "" = the calendar's, or by hand.
    of: str = ""
    #: Of the data, as it was looked at last.
    version: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What to record, and what to start."""

    standing: Standing
    start: Start | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Due:
    """Times that came since the last look: how many before the last one, and that."""

    first_ms: Millis
    before_last_ms: Millis | None
    last_ms: Millis
    count: int
    #: Of the calendar's, where there are two or more.
    second_ms: Millis | None = None
    #: The trigger whose times these are, by its key; "" = the calendar's.
    of: str = ""


def decide(scheduled: Scheduled, live: Collection[WorkloadId], now_ms: Millis) -> Decision:
    """What is due now; ``live`` are those of ``standing.live`` that are not over."""
    schedule, standing = scheduled.schedule, scheduled.standing
    if (asked_ms := _asked(scheduled)) is not None:
        # Whoever asks knows what goes on: no rule for times holds for it.
        asked = Start(due_ms=asked_ms, version=trigger_state.version_known(scheduled))
        return Decision(standing=replace(standing, live=tuple(sorted(live))), start=asked)
    due = None if schedule.suspended else _due(scheduled, now_ms)
    if due is None:
        # Nothing waits any more for what was in its way.
        return Decision(standing=replace(standing, hindrance="", hindered_ms=None))
    standing = replace(standing, live=tuple(sorted(live)))
    if due.before_last_ms is not None:
        for missed in _missed(due, standing, now_ms):
            standing = _with(standing, missed, seen_ms=due.before_last_ms, of=due.of)
    start = Start(due_ms=due.last_ms, of=due.of, version=trigger_state.version_known(scheduled))
    if kept_out := _kept_out(schedule, standing, due, now_ms):
        return Decision(standing=record(standing, kept_out[0], start, now_ms, kept_out[1]))
    replaced = tuple(sorted(live)) if schedule.concurrency is Concurrency.REPLACE else ()
    return Decision(standing=standing, start=replace(start, replaces=replaced))


def _kept_out(
    schedule: Schedule, standing: Standing, due: _Due, now_ms: Millis
) -> tuple[Outcome, str] | None:
    """Why what is due does not start; ``standing.live`` are those that are not over."""
    if due.of and due.last_ms <= schedule.resumed_ms:
        return Outcome.SKIPPED, _SUSPENDED
    late = schedule.starting_deadline_s
    if late is not None and now_ms - due.last_ms > late * 1000:
        return Outcome.MISSED, _too_late(standing, late, due.last_ms, now_ms)
    if standing.live and schedule.concurrency is Concurrency.FORBID:
        return Outcome.SKIPPED, _STILL_ON
    if due.of and _lately(standing, now_ms) >= MOST_AN_HOUR:
        return Outcome.SKIPPED, _STORM
    return None


def _too_late(standing: Standing, late_s: int, due_ms: Millis, now_ms: Millis) -> str:
    after_ms = now_ms - due_ms
    why = _hindered(standing, due_ms)
    if not why and after_ms <= _PROMPT_MS:
        # A busy machine, or a restart: that it did not run is not known.
        came = duration(math.ceil(after_ms / 1000))
        return f"The scheduler came to it only {came} later, and {duration(late_s)} were allowed"
    return f"{why or _NOT_RUNNING}, and {duration(late_s)} later it was too late"


def record(
    standing: Standing, outcome: Outcome, due: Start, now_ms: Millis, text: str = ""
) -> Standing:
    """What became of one time; the text is a clause, which pages end."""
    return _with(
        standing,
        replace(_run_of(standing, due, now_ms), outcome=outcome, text=text.rstrip(".")),
        seen_ms=due.due_ms,
        of=due.of,
    )


def hindered(standing: Standing, why: str, now_ms: Millis) -> Standing:
    """What is due could not be started: it is tried again."""
    since_ms = standing.hindered_ms if standing.hindrance else None
    return replace(standing, hindrance=why, hindered_ms=now_ms if since_ms is None else since_ms)


def started(
    standing: Standing, due: Start, now_ms: Millis, *, job: WorkloadId, name: str
) -> Standing:
    """Its job is stored."""
    run = replace(_run_of(standing, due, now_ms), job=job, job_name=name, version=due.version)
    live = tuple(sorted({*standing.live, job}))
    return _with(replace(standing, live=live), run, seen_ms=due.due_ms, of=due.of)


def _run_of(standing: Standing, due: Start, now_ms: Millis) -> Run:
    run = Run(outcome=Outcome.STARTED, due_ms=due.due_ms, at_ms=now_ms)
    if not due.of:
        return replace(run, by_hand=is_by_hand(due.due_ms))
    trigger = next((one for one in standing.sensed if one.key == due.of), None)
    fired = None if trigger is None else trigger.fired
    return run if fired is None else replace(run, trigger=fired.words, cause=fired.cause)


def next_look_ms(scheduled: Scheduled) -> Millis | None:
    """When there is something to do next, or since when there is; None = never again."""
    schedule = scheduled.schedule
    if (asked_ms := _asked(scheduled)) is not None:
        return asked_ms
    # What has started is compared also while nothing more starts.
    found = [promoting.next_judging_ms(scheduled)]
    if not schedule.suspended:
        found.append(next(_calendar(schedule, _since(scheduled)), None))
        found += [trigger_state.next_sense_ms(scheduled, one) for one in schedule.triggers]
    return min((one for one in found if one is not None), default=None)


def _calendar(schedule: Schedule, after_ms: Millis) -> Iterator[Millis]:
    return (
        cron_times.after(schedule.cron, schedule.time_zone, after_ms) if schedule.cron else iter(())
    )


def next_by_hand(now_ms: Millis) -> Millis:
    """The time of a run that is asked for now: the same within a second, in the past, none of cron's."""
    return Millis(now_ms // 1000 * 1000 - 1)


def is_by_hand(due_ms: Millis) -> bool:
    """Whether it is the time of a run that was asked for; those of cron are whole minutes."""
    return due_ms % _MINUTE_MS != 0


def tried(scheduled: Scheduled, now_ms: Millis) -> Start:
    """What is being acted on now: what was asked for, a trigger's time, or the last that cron may have."""
    asked_ms = _asked(scheduled)
    if asked_ms is not None:
        return Start(due_ms=asked_ms)
    fired = _first_fired(scheduled)
    if fired is not None:
        return Start(due_ms=fired.last_ms, of=fired.of)
    return Start(due_ms=Millis(now_ms // _MINUTE_MS * _MINUTE_MS))


def _asked(scheduled: Scheduled) -> Millis | None:
    asked_ms = scheduled.schedule.asked_ms
    is_new = asked_ms > scheduled.standing.asked_ms and not scheduled.schedule.held
    return asked_ms if is_new else None


def _since(scheduled: Scheduled) -> Millis:
    return max(scheduled.schedule.since_ms, scheduled.standing.seen_ms)


def _due(scheduled: Scheduled, now_ms: Millis) -> _Due | None:
    """The earliest of what is due, of the calendar and of triggers."""
    found = (_first_fired(scheduled), _due_by_calendar(scheduled, now_ms))
    return min((one for one in found if one is not None), key=lambda one: one.last_ms, default=None)


def _first_fired(scheduled: Scheduled) -> _Due | None:
    keys = {trigger.key for trigger in scheduled.schedule.triggers}
    found = [
        _Due(
            first_ms=one.fired.first_ms,
            before_last_ms=one.fired.before_last_ms,
            last_ms=one.fired.last_ms,
            count=one.fired.count - 1,
            of=one.key,
        )
        for one in scheduled.standing.sensed
        if one.fired is not None and one.key in keys
    ]
    return min(found, key=lambda one: one.last_ms, default=None)


def _due_by_calendar(scheduled: Scheduled, now_ms: Millis) -> _Due | None:
    schedule = scheduled.schedule
    found: list[Millis] = []
    for one in _calendar(schedule, _since(scheduled)):
        if one > now_ms:
            break
        if len(found) == COUNTED:
            # After so long the times between are not listed: how many they are stays open, and the end of
            # them is said as the moment before the last one.
            last = cron_times.last_until(schedule.cron, schedule.time_zone, now_ms)
            return _Due(
                first_ms=found[0],
                before_last_ms=Millis(last - 1),
                last_ms=last,
                count=COUNTED,
                second_ms=found[1],
            )
        found.append(one)
    if not found:
        return None
    *earlier, last = found
    return _Due(
        first_ms=found[0],
        before_last_ms=earlier[-1] if earlier else None,
        last_ms=last,
        count=len(earlier),
        second_ms=earlier[1] if len(earlier) > 1 else None,
    )


def _missed(due: _Due, standing: Standing, now_ms: Millis) -> list[Run]:
    """All before the last one of several."""
    run = replace(
        _run_of(standing, Start(due_ms=due.first_ms, of=due.of), now_ms),
        outcome=Outcome.SKIPPED if due.of else Outcome.MISSED,
        text=_hindered(standing, due.first_ms) or (_TOGETHER if due.of else _NOT_RUNNING),
    )
    if due.of or not standing.hindrance or due.second_ms is None or due.count == 1:
        return [_several(run, due, due.first_ms, due.count)]
    # Had anybody looked when the second one came, the first were on record: only that one was tried.
    later = replace(run, text=_NOT_RUNNING)
    return [run, _several(later, due, due.second_ms, due.count - 1)]


def _several(run: Run, due: _Due, first_ms: Millis, count: int) -> Run:
    until_ms = due.before_last_ms if count > 1 else None
    return replace(run, due_ms=first_ms, count=count, until_ms=until_ms)


def _hindered(standing: Standing, due_ms: Millis) -> str:
    """What was in the way of the time that was tried; "" = nothing that is known."""
    tried_ms = standing.hindered_ms
    if not standing.hindrance or tried_ms is None or tried_ms - due_ms <= _PROMPT_MS:
        return standing.hindrance.rstrip(".")
    return f"{_NOT_RUNNING}, and then: {standing.hindrance.rstrip('.')}"


def _lately(standing: Standing, now_ms: Millis) -> int:
    """Runs that triggers started within the last hour."""
    since_ms = now_ms - _HOUR_MS
    return sum(bool(one.trigger and one.job and one.at_ms > since_ms) for one in standing.runs)


def _with(standing: Standing, run: Run, *, seen_ms: Millis, of: str) -> Standing:
    standing = replace(
        standing,
        runs=_remembered(standing.runs, run),
        hindrance="",
        hindered_ms=None,
        starting_ms=None,
        starting_of="",
        sensed=tuple(_settled(one, run, seen_ms, of) for one in standing.sensed),
    )
    if of:
        return standing
    if run.by_hand:
        return replace(standing, asked_ms=seen_ms)
    return replace(standing, seen_ms=seen_ms)


def _settled(sensed: Sensed, run: Run, seen_ms: Millis, of: str) -> Sensed:
    """A trigger after a run, and after its own times up to one are on record."""
    is_own, fired = sensed.key == of, sensed.fired
    if run.outcome is Outcome.STARTED or (is_own and run.outcome is Outcome.REFUSED):
        # Whatever started it, the run has read the data as they were then.
        sensed = replace(sensed, used=sensed.version)
    if not is_own or fired is None or fired.first_ms > seen_ms:
        return sensed
    if fired.last_ms <= seen_ms:
        return replace(sensed, fired=None)
    left = replace(fired, first_ms=fired.last_ms, before_last_ms=None, count=1)
    return replace(sensed, fired=left)


def _remembered(runs: tuple[Run, ...], run: Run) -> tuple[Run, ...]:
    # A run that goes on for a day must not fill the record with those that it kept out.
    for at in reversed(range(len(runs))):
        one = runs[at]
        if run.job is not None or one.job is not None:
            break
        if one.trigger != run.trigger:
            continue
        if not _same(one, run):
            break
        until_ms = run.until_ms or run.due_ms
        more = replace(run, due_ms=one.due_ms, until_ms=until_ms, count=one.count + run.count)
        return (*runs[:at], more, *runs[at + 1 :])
    return (*runs, run)[-RUNS_KEPT:]


def _same(one: Run, other: Run) -> bool:
    return (one.outcome, one.text, one.by_hand) == (other.outcome, other.text, other.by_hand)
