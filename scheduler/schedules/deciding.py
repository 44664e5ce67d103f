"""What is due of a schedule, and what is recorded of its times.

The rules and their names are those of Kubernetes' CronJob, with two differences: a time that passed
without a start is recorded with its reason, whatever the reason; and of several that passed together
only the last one is started, never a hundred.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.schedules import times
from gpucommons.scheduler.schedules.schedule import (
    Concurrency,
    Outcome,
    Run,
    Scheduled,
    Standing,
)

#: Runs that are remembered.
RUNS_KEPT = 100
#: Times that are counted one by one: there may have been more.
COUNTED = 1000
_MINUTE_MS = 60_000
_NOT_RUNNING = "The scheduler did not run at that time"
_STILL_ON = "The run before still went on"


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """A run that is due now."""

    due_ms: Millis
    #: Runs to be cancelled for it.
    replaces: tuple[WorkloadId, ...] = ()


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


def decide(scheduled: Scheduled, live: Collection[WorkloadId], now_ms: Millis) -> Decision:
    """What is due now; ``live`` are those of ``standing.live`` that are not over."""
    schedule, standing = scheduled.schedule, scheduled.standing
    if (asked_ms := _asked(scheduled)) is not None:
        # Whoever asks knows what goes on: no rule for times holds for it.
        return Decision(
            standing=replace(standing, live=tuple(sorted(live))), start=Start(due_ms=asked_ms)
        )
    due = None if schedule.suspended else _due(scheduled, now_ms)
    if due is None:
        return Decision(standing=standing)
    standing = replace(standing, live=tuple(sorted(live)))
    if due.before_last_ms is not None:
        standing = _with(standing, _missed(due, standing, now_ms), seen_ms=due.before_last_ms)
    late = schedule.starting_deadline_s
    if late is not None and now_ms - due.last_ms > late * 1000:
        text = f"{standing.hindrance or _NOT_RUNNING}, and {late} s later it was too late"
        return Decision(standing=record(standing, Outcome.MISSED, due.last_ms, now_ms, text))
    if live and schedule.concurrency is Concurrency.FORBID:
        return Decision(standing=record(standing, Outcome.SKIPPED, due.last_ms, now_ms, _STILL_ON))
    replaced = tuple(sorted(live)) if schedule.concurrency is Concurrency.REPLACE else ()
    return Decision(standing=standing, start=Start(due_ms=due.last_ms, replaces=replaced))


def record(
    standing: Standing, outcome: Outcome, due_ms: Millis, now_ms: Millis, text: str = ""
) -> Standing:
    """What became of one time."""
    by_hand = is_by_hand(due_ms)
    run = Run(outcome=outcome, due_ms=due_ms, at_ms=now_ms, text=text, by_hand=by_hand)
    return _with(standing, run, seen_ms=due_ms)


def started(
    standing: Standing, due_ms: Millis, now_ms: Millis, *, job: WorkloadId, name: str
) -> Standing:
    """Its job is stored."""
    run = Run(
        outcome=Outcome.STARTED,
        due_ms=due_ms,
        at_ms=now_ms,
        job=job,
        job_name=name,
        by_hand=is_by_hand(due_ms),
    )
    live = tuple(sorted({*standing.live, job}))
    return _with(replace(standing, live=live), run, seen_ms=due_ms)


def next_look_ms(scheduled: Scheduled) -> Millis | None:
    """When something is due next, or since when it is; None while it is suspended, or never again."""
    schedule = scheduled.schedule
    if (asked_ms := _asked(scheduled)) is not None:
        return asked_ms
    if schedule.suspended:
        return None
    return next(times.after(schedule.cron, schedule.time_zone, _since(scheduled)), None)


def next_by_hand(now_ms: Millis) -> Millis:
    """The time of a run that is asked for now: the same within a second, in the past, none of cron's."""
    return Millis(now_ms // 1000 * 1000 - 1)


def is_by_hand(due_ms: Millis) -> bool:
    """Whether it is the time of a run that was asked for; those of cron are whole minutes."""
    return due_ms % _MINUTE_MS != 0


def tried_ms(scheduled: Scheduled, now_ms: Millis) -> Millis:
    """The time that is being acted on now: the one that was asked for, or the last that cron may have."""
    asked_ms = _asked(scheduled)
    return Millis(now_ms // _MINUTE_MS * _MINUTE_MS) if asked_ms is None else asked_ms


def _asked(scheduled: Scheduled) -> Millis | None:
    asked_ms = scheduled.schedule.asked_ms
    is_new = asked_ms > scheduled.standing.asked_ms and not scheduled.schedule.held
    return asked_ms if is_new else None


def _since(scheduled: Scheduled) -> Millis:
    return max(scheduled.schedule.since_ms, scheduled.standing.seen_ms)


def _due(scheduled: Scheduled, now_ms: Millis) -> _Due | None:
    schedule = scheduled.schedule
    found: list[Millis] = []
    for one in times.after(schedule.cron, schedule.time_zone, _since(scheduled)):
        if one > now_ms:
            break
        if len(found) == COUNTED:
            # After so long nobody wants each of them; the last one counts.
            last = times.last_until(schedule.cron, schedule.time_zone, now_ms)
            return _Due(
                first_ms=found[0],
                before_last_ms=Millis(last - 1),
                last_ms=last,
                count=COUNTED,
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
    )


def _missed(due: _Due, standing: Standing, now_ms: Millis) -> Run:
    return Run(
        outcome=Outcome.MISSED,
        due_ms=due.first_ms,
        at_ms=now_ms,
        text=standing.hindrance or _NOT_RUNNING,
        count=due.count,
        until_ms=due.before_last_ms if due.count > 1 else None,
    )


def _with(standing: Standing, run: Run, *, seen_ms: Millis) -> Standing:
    before, last = standing.runs, standing.runs[-1] if standing.runs else None
    if last is not None and run.job is None and _same(last, run):
        # A run that goes on for a day must not fill the record with those that it kept out.
        before = before[:-1]
        run = replace(
            last,
            count=last.count + run.count,
            until_ms=run.until_ms or run.due_ms,
            at_ms=run.at_ms,
        )
    runs = (*before, run)[-RUNS_KEPT:]
    standing = replace(standing, runs=runs, hindrance="", starting_ms=None)
    if run.by_hand:
        return replace(standing, asked_ms=seen_ms)
    return replace(standing, seen_ms=seen_ms)


def _same(one: Run, other: Run) -> bool:
    return (one.outcome, one.text, one.by_hand) == (other.outcome, other.text, other.by_hand)
