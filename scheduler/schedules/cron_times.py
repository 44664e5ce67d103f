"""The times that a cron expression means in a time zone.

The arithmetic is `cronsim`'s, which follows Debian's cron where clocks are changed: a time that a day
does not have comes right after the gap, one that a day has twice comes once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import dropwhile, islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.errors import Misconfigured

#: As in crontab(5) and in Kubernetes.
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = 5


def after(cron: str, time_zone: str, start_ms: Millis) -> Iterator[Millis]:
    """All times after one, soonest first.

    Raises
    ------
    Misconfigured
        When the expression or the time zone is none.
    """
    found = _times(cron, time_zone, start_ms, backwards=False)
    # Where clocks go back an hour, it may begin with a time of the first pass through that hour.
    return dropwhile(lambda one: one <= start_ms, found)


def last_until(cron: str, time_zone: str, now_ms: Millis) -> Millis:
    """The last time up to now; there must be one.

    Raises
    ------
    Misconfigured
        When the expression or the time zone is none.
    """
    # From the next whole second, so that a time which is now counts.
    start_ms = Millis((now_ms // 1000 + 1) * 1000)
    return next(_times(cron, time_zone, start_ms, backwards=True))


def check(cron: str, time_zone: str, now_ms: Millis) -> tuple[Millis, ...]:
    """The next five times.

    Raises
    ------
    Misconfigured
        When it is no cron expression, no time zone, or there is no such time.
    """
    found = tuple(islice(after(cron, time_zone, now_ms), 5))
    if not found:
        raise Misconfigured(_never(cron))
    return found


def _times(cron: str, time_zone: str, start_ms: Millis, *, backwards: bool) -> Iterator[Millis]:
    zone = _zone(time_zone)
    expression = _NAMED.get(cron.strip().lower(), cron)
    if len(expression.split()) != _FIELDS:
        message = (
            f"cron: {cron!r} has not five fields. Write minute, hour, day of month, month and day of"
            ' week, as in "0 2 * * *" for every night at 02:00.'
        )
        raise Misconfigured(message)
    start = datetime.fromtimestamp(start_ms / 1000, UTC).astimezone(zone)
    try:
        found = CronSim(expression, start, reverse=backwards)
    except CronSimError as error:
        if _only_its_day_is_wrong(expression.split(), start):
            raise Misconfigured(_never(cron)) from None
        message = f'cron: {cron!r} is not understood ({error}). An example: "30 2 * * 1-5".'
        raise Misconfigured(message) from None
    return (Millis(int(one.timestamp() * 1000)) for one in found)


def _only_its_day_is_wrong(fields: Sequence[str], start: datetime) -> bool:
    """``30 2``: there is such a day and such a month, but none that has both."""
    minute, hour, day, month, weekday = fields
    try:
        CronSim(" ".join((minute, hour, day, "*", weekday)), start)
        CronSim(" ".join((minute, hour, "*", month, weekday)), start)
    except CronSimError:
        return False
    return True


def _never(cron: str) -> str:
    return f"cron: {cron!r} never comes: none of its months has that day. Write a time that the calendar has."


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"There is no time zone {name!r}. Write a name such as Europe/Berlin, or UTC."
        raise Misconfigured(message) from None
