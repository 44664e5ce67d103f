"""Times, sizes and lists of numbers as Slurm writes them (``man sbatch``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from gpucommons.scheduler.errors import BadRequest

#: So many jobs at most come of one array; more is mostly a slip of the keyboard.
MOST_TASKS = 1_000
_UNLIMITED = frozenset({"0", "infinite", "unlimited"})
_TIME = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?")
_MIB = {"": 1, "M": 1, "G": 1 << 10, "T": 1 << 20}
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")
_FROM_NOW = re.compile(r"now(?:\+(\d{1,6})(seconds?|minutes?|hours?|days?|weeks?)?)?")
_BEFORE_NOW = re.compile(r"now(?:-(\d{1,6})(seconds?|minutes?|hours?|days?|weeks?)?)?")
_DATES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")


def seconds(text: str) -> int | None:
    """``30`` (minutes), ``30:00``, ``12:00:00``, ``2-12``, ``2-12:00:00``; None = no limit."""
    if text.lower() in _UNLIMITED:
        return None
    found = _TIME.fullmatch(text)
    if found is None:
        message = f"{text} is no time: write minutes, or HH:MM:SS, or DAYS-HH:MM:SS."
        raise BadRequest(message)
    days, *rest = (int(part or 0) for part in found.groups())
    given = sum(part is not None for part in found.groups()[1:])
    if found[1] is not None or given == len(rest):
        hours, minutes, over = rest
        return ((days * 24 + hours) * 60 + minutes) * 60 + over
    return rest[0] * 60 + rest[1]


def mebibytes(text: str) -> int:
    """``4000`` (MiB), ``4G``; what is less than one MiB is one.

    Raises
    ------
    BadRequest
        Where it is no size, or 0, which means all of a node's memory there.
    """
    number, unit = text[:-1], text[-1:].upper()
    if unit.isdecimal():
        number, unit = text, ""
    if unit == "K" and number.isdecimal():
        return max(1, int(number) >> 10)
    if unit not in _MIB or not (number.isascii() and number.isdecimal()) or not int(number):
        message = f"{text} is no size of memory for a job here: write 4000M or 16G."
        raise BadRequest(message)
    return int(number) * _MIB[unit]


def indices(text: str) -> tuple[int, ...]:
    """``0-15``, ``1,3,5-9:2``; how many at once, :func:`at_once` reads.

    Raises
    ------
    BadRequest
        Where it is no such list, or one of more than :data:`MOST_TASKS`.
    """
    found: set[int] = set()
    for part in text.partition("%")[0].split(","):
        numbers = _RANGE.fullmatch(part)
        first, last, step = (int(one) if one else None for one in numbers.groups()) if numbers else (
            None, None, None
        )  # fmt: skip
        if first is None or (last is not None and last < first) or step == 0:
            message = f"--array={text} is no list of numbers: write 0-15, 1,3,7 or 0-100:10."
            raise BadRequest(message)
        several = range(first, (first if last is None else last) + 1, step or 1)
        if len(found) + len(several) > MOST_TASKS:
            message = f"--array={text} makes more than {MOST_TASKS:,} jobs: write fewer."
            raise BadRequest(message)
        found.update(several)
    return tuple(sorted(found))


def ranges(indices: Sequence[int]) -> str:
    """``0-2,5`` for 0, 1, 2 and 5: as Slurm writes the tasks of an array."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and runs[-1][1] == index - 1:
            runs[-1] = runs[-1][0], index
        else:
            runs.append((index, index))
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def at_once(text: str) -> int | None:
    """The limit behind ``%``; None where there is none.

    Raises
    ------
    BadRequest
        Where it is no number from 1 on.
    """
    _, percent, limit = text.partition("%")
    if not percent:
        return None
    if not (limit.isascii() and limit.isdecimal()) or not int(limit):
        message = f"--array={text}: behind % stands how many run at once, as in 0-15%4."
        raise BadRequest(message)
    return int(limit)


def moment_ms(text: str, now_ms: int) -> int:
    """``now+1hour``, ``16:00`` (the next one), ``2026-12-01T08:00:00``: local time."""
    now = datetime.fromtimestamp(now_ms / 1000)
    later = _FROM_NOW.fullmatch(text)
    if later is not None:
        unit = (later[2] or "seconds").rstrip("s") + "s"
        return now_ms + int(timedelta(**{unit: int(later[1] or 0)}).total_seconds() * 1000)
    for form in _DATES:
        try:
            return int(datetime.strptime(text, form).timestamp() * 1000)
        except (ValueError, OverflowError):
            continue
    for form in ("%H:%M", "%H:%M:%S"):
        try:
            at = datetime.combine(now.date(), datetime.strptime(text, form).time())
        except ValueError:
            continue
        return int((at if at > now else at + timedelta(days=1)).timestamp() * 1000)
    message = f"--begin={text} is no moment: write now+1hour, 16:00 or 2026-12-01T08:00."
    raise BadRequest(message)


def past_moment_ms(text: str, now_ms: int, *, option: str) -> int:
    """``now-2hours``, ``today``, ``16:00`` (today's), ``2026-12-01T08:00``, ``12-01``: local time.

    Raises
    ------
    BadRequest
        With the option's name, where it is none of these.
    """
    now = datetime.fromtimestamp(now_ms / 1000)
    before = _BEFORE_NOW.fullmatch(text)
    if before is not None:
        unit = (before[2] or "seconds").rstrip("s") + "s"
        return now_ms - int(timedelta(**{unit: int(before[1] or 0)}).total_seconds() * 1000)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "midnight"):
        return int(midnight.timestamp() * 1000)
    day, year = f"{now:%Y-%m-%d}", f"{now:%Y}"
    written = (
        text,
        f"{day}T{text}",
        f"{year}-{text[:2]}-{text[2:]}",
        f"{year}-{text.replace('/', '-')}",
    )
    for form in _DATES:
        for one in written:
            try:
                return int(datetime.strptime(one, form).timestamp() * 1000)
            except (ValueError, OverflowError):
                continue
    message = f"{option}={text} is no moment: write now-2hours, today, 16:00 or 2026-12-01T08:00."
    raise BadRequest(message)
