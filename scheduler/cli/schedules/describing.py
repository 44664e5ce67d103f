"""A schedule in lines, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.present import printable
from gpucommons.scheduler.models.jobs.schedules import FORGOTTEN
from gpucommons.scheduler.models.text.state_words import state_words

#: More in a row are not counted one by one.
_COUNTED = 1000


_VERDICTS = {
    "promoted": "promoted: ",
    "kept": "not promoted: ",
    "waits": "not promoted: ",
    "none": "not compared: ",
}


def describe(view: models.ScheduleView) -> str:
    """A schedule in lines."""
    who = [f"team {view.team}", f"by {view.owner}"]
    if "CPU only" not in view.what and view.kind in _CLASSES:
        who.append(_CLASSES[view.kind])
    who.append(f"while a run goes on: {_WHILE[view.concurrency_policy]}")
    lines = [
        f"{view.name}  {_calendar(view)}{_suspended(view)}",
        f"  {view.what}, from the files as they were when it was written",
        f"  {' · '.join(who)}",
    ]
    if view.next_ms:
        lines.append(f"  next: {', '.join(_at(one, view) for one in view.next_ms)}")
    lines += [f"  when {trigger(one, view)}" for one in view.triggers]
    if view.compared_by:
        lines.append(promoted(view))
    if view.asked:
        lines.append("  a run was asked for and starts as soon as the scheduler looks")
    if view.hindrance:
        lines.append(f"  a run is due and waits: {view.hindrance}")
    return printable("\n".join([*lines, *_runs(view)]))


def _suspended(view: models.ScheduleView) -> str:
    if not view.suspend:
        return ""
    return " · suspended by a lead or an admin" if view.held else " · suspended"


_CLASSES = {
    "retrain": "on borrowed GPUs, unless the team's policy says otherwise",
    "training": "on guaranteed and borrowed GPUs",
}
_WHILE = {
    "Allow": "another starts beside it",
    "Forbid": "the next is skipped",
    "Replace": "it is cancelled for the next",
}


def trigger(one: models.TriggerView, view: models.ScheduleView) -> str:
    """What starts a run, and what is known of it."""
    if one.every_s is None:
        if one.posted_ms is None:
            return one.words if one.kind == "after" else f"{one.words}; nothing was posted yet"
        return f"{one.words}; last posted {one.value:g}, {_at(one.posted_ms, view)}"
    known = f"version {one.version}" if one.version else "not looked at yet"
    if one.version and one.checked_ms is not None:
        known += f", looked at {_at(one.checked_ms, view)}"
    if one.problem:
        known += f"; the last look told nothing: {one.problem}"
    return f"{one.words}; looked at every {one.every_s / 60:g} min, {known}"


def promoted(view: models.ScheduleView) -> str:
    """Which model holds, and why."""
    found = view.promoted
    if found is None:
        best = "highest" if view.direction == "maximize" else "lowest"
        how = "is promoted" if view.rule == "better" else "is best, and promoted by hand"
        return f"  no model is promoted yet; compared by {view.compared_by}: the {best} {how}"
    return f"  promoted: {found.job_name} ({found.why}), since {_at(found.since_ms, view)}"


def row(view: models.ScheduleView) -> tuple[str, str, str, str]:
    """When it runs, as which clock has it, and its next and last time."""
    words = view.schedule or ", ".join(one.words for one in view.triggers)
    zone = view.time_zone if view.schedule else ""
    return words, zone, _next(view), _last(view)


def _calendar(view: models.ScheduleView) -> str:
    return f"{view.schedule} {view.time_zone}" if view.schedule else "on triggers"


def _runs(view: models.ScheduleView) -> Iterator[str]:
    for one in view.runs:
        span = _at(one.due_ms, view)
        if one.until_ms is not None:
            least = "at least " if one.count >= _COUNTED else ""
            span += f" to {_at(one.until_ms, view)}, {least}{one.count:,} times"
        if one.by_hand:
            span += " by hand"
        if one.cause:
            span += f" ({one.cause})"
        data = f" · data {one.version}" if one.version else ""
        verdict = f" · {_VERDICTS[one.verdict]}{one.why}" if one.verdict in _VERDICTS else ""
        state = f" · {_state(one.job_state)}" if one.job_state else ""
        yield f"  {span}  {one.job_name or f'{one.outcome}: {one.text}'}{state}{data}{verdict}"


def _state(state: str) -> str:
    return "its job is no longer kept" if state == FORGOTTEN else state_words(state)


def _next(view: models.ScheduleView) -> str:
    if view.suspend:
        return "suspended"
    return _at(view.next_ms[0], view) if view.next_ms else ""


def _last(view: models.ScheduleView) -> str:
    run = next(iter(view.runs), None)
    return "" if run is None else run.job_name or run.outcome


def _at(ms: int, view: models.ScheduleView) -> str:
    """A time as its schedule counts."""
    try:
        zone = ZoneInfo(view.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        # This machine has no such zone: the scheduler's has.
        return f"{datetime.fromtimestamp(ms / 1000, ZoneInfo('UTC')):%a %d %b %H:%M} UTC"
    return f"{datetime.fromtimestamp(ms / 1000, zone):%a %d %b %H:%M}"
