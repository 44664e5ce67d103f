"""Drawings of numbers over time, in words too: cards of lines, bars of weeks and days."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.languages.texts import gettext, gettext_noop
from gpucommons.scheduler.models.reports import FinishedWeek, ReportDay, UsePoint
from gpucommons.scheduler.models.text.number_words import decimal
from gpucommons.scheduler.pages.present import words

_HOUR_MS, _DAY_MS = 3_600_000, 24 * 3_600_000
_WEEKDAYS = (
    gettext_noop("Mon"),
    gettext_noop("Tue"),
    gettext_noop("Wed"),
    gettext_noop("Thu"),
    gettext_noop("Fri"),
    gettext_noop("Sat"),
    gettext_noop("Sun"),
)
_MONTHS = (
    gettext_noop("January"),
    gettext_noop("February"),
    gettext_noop("March"),
    gettext_noop("April"),
    gettext_noop("May"),
    gettext_noop("June"),
    gettext_noop("July"),
    gettext_noop("August"),
    gettext_noop("September"),
    gettext_noop("October"),
    gettext_noop("November"),
    gettext_noop("December"),
)
#: Letters of a month's name where there is little room, in both languages.
_SHORT = 3
#: Of a card's drawing and of bars; the page scales them.
CARD_WIDTH, CARD_HEIGHT = 220, 60
BARS_WIDTH, BARS_HEIGHT = 480, 150
DAYS_WIDTH, DAYS_HEIGHT = 960, 150
_WIDEST_BAR = 34
_MOST_STEPS = 4
#: What was lost is seen, however little it is.
_THINNEST = 2.0
_PER_GPU_HOURS = 100
_EIGHTH, _AS_GOOD_AS = WHOLE_MILLI_GPU // 8, 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One line beside others, with its means."""

    name: str
    #: SVG paths; "" where nothing is known.
    allocated: str
    used: str
    there: str
    top: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One week."""

    x: float
    y: float
    width: float
    height: float
    count: int
    label: str
    below: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A piece of a day's bar."""

    key: str
    y: float
    height: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Day:
    """One day."""

    x: float
    label: str
    parts: tuple[Part, ...]
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A line across."""

    y: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Days:
    """A month's bars, on one scale."""

    width: int
    height: int
    bar_width: float
    bars: tuple[Day, ...]
    ticks: tuple[Tick, ...]


def gpus(milli_gpu: int | None) -> str:
    """``2½`` as everywhere, a mean ``31.4``; an en dash where it is not known."""
    if milli_gpu is None:
        return "–"
    share = round(milli_gpu / _EIGHTH) * _EIGHTH
    # A mean over minutes that begin and end within a step is off by some thousandths.
    if abs(milli_gpu - share) <= _AS_GOOD_AS:
        return format_milli_gpu(share)
    return decimal(f"{milli_gpu / WHOLE_MILLI_GPU:.1f}")


def moment(at_ms: int, step_ms: int) -> str:
    """When a step begins, UTC: its day, and its time where a step is less."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    day = gettext(
        "%(weekday)s %(day)s %(month)s %(year)s",
        weekday=gettext(_WEEKDAYS[at.weekday()]),
        day=at.day,
        month=gettext(_MONTHS[at.month - 1])[:_SHORT],
        year=at.year,
    )
    return day if step_ms >= _DAY_MS else f"{day}, {at:%H:%M}"


def mean(points: Sequence[UsePoint], of: Callable[[UsePoint], int | None]) -> int | None:
    """Of what is known, each point for as long as it is: so it is the ledger's, as in the report."""
    known = [(amount, one.known_ms) for one in points if (amount := of(one)) is not None]
    long_ms = sum(known_ms for _, known_ms in known)
    return round(sum(amount * known_ms for amount, known_ms in known) / long_ms) if known else None


def allocated(point: UsePoint) -> int | None:
    """Reserved, used or not."""
    return point.allocated_milli_gpu


def used(point: UsePoint) -> int | None:
    """What computed of it."""
    return point.used_milli_gpu


def there(point: UsePoint) -> int | None:
    """What it is measured against."""
    return point.there_milli_gpu


def card(name: str, points: Sequence[UsePoint], measure: str, now: int | None) -> Card:
    """A team's or a pool's line; ``measure``: what `there` counts, and ``now``: as much as is in force."""
    lines = {of: [of(one) for one in points] for of in (allocated, used, there)}
    tops = (one for of in (allocated, there) for one in lines[of] if one is not None)
    top = max(tops, default=0) or 1
    is_drawn = any(one is not None for one in lines[there])
    means = gettext(
        "allocated %(allocated)s, used %(used)s",
        allocated=gpus(mean(points, allocated)),
        used=gpus(mean(points, used)),
    )
    return Card(
        name=name,
        allocated=_steps(lines[allocated], top, closed=False),
        used=_steps(lines[used], top, closed=True),
        there=_steps(lines[there], top, closed=False),
        top=gpus(top),
        text="; ".join(filter(None, (means, _there_words(measure, now, is_drawn=is_drawn)))),
    )


def _there_words(measure: str, now: int | None, *, is_drawn: bool) -> str:
    """Which line is the quota's or the pool's, and how much that is now; empty where neither is known."""
    if now is None:
        return gettext("%(measure)s: dashed", measure=measure) if is_drawn else ""
    if is_drawn:
        return gettext("%(measure)s, dashed: %(gpus)s now", measure=measure, gpus=gpus(now))
    return gettext("%(measure)s: %(gpus)s now", measure=measure, gpus=gpus(now))


def _steps(amounts: Sequence[int | None], top: int, *, closed: bool) -> str:
    """A stepped line, or the area below it; it has a gap where nothing is known."""
    width = CARD_WIDTH / max(1, len(amounts))
    parts: list[str] = []
    for number, amount in enumerate(amounts):
        if amount is None:
            continue
        left, right = round(number * width, 1), round((number + 1) * width, 1)
        y = round(CARD_HEIGHT - (CARD_HEIGHT - 2) * amount / top, 1)
        if closed:
            parts.append(f"M{left} {CARD_HEIGHT}V{y}H{right}V{CARD_HEIGHT}Z")
        else:
            goes_on = number > 0 and amounts[number - 1] is not None
            parts.append(f"V{y}H{right}" if goes_on else f"M{left} {y}H{right}")
    return "".join(parts)


def weeks(found: Sequence[FinishedWeek]) -> tuple[Bar, ...]:
    """Experiments by week; () where none was finished."""
    most = max((one.finished for one in found), default=0)
    if not most:
        return ()
    room = BARS_WIDTH / len(found)
    width = min(_WIDEST_BAR, room * 0.7)
    return tuple(_week(one, number, (room, width), most) for number, one in enumerate(found))


def _week(one: FinishedWeek, number: int, size: tuple[float, float], most: int) -> Bar:
    room, width = size
    height = round((BARS_HEIGHT - 20) * one.finished / most, 1)
    at = datetime.fromtimestamp(one.from_ms / 1000, UTC)
    rate = per_gpu_hours(one)
    return Bar(
        x=round(number * room + (room - width) / 2, 1),
        y=round(BARS_HEIGHT - height, 1),
        width=round(width, 1),
        height=height,
        count=one.finished,
        label=f"{at:%V}",
        below=rate,
        text=_week_in_words(one, at, rate),
    )


def _week_in_words(one: FinishedWeek, at: datetime, rate: str) -> str:
    said = {"week": f"{at:%V}", "from": _day_of_month(at), "count": one.finished}
    text = (
        gettext("Week %(week)s, from %(from)s: %(count)s finished", **said)
        if one.to_ms - one.from_ms >= 7 * _DAY_MS
        else gettext("Week %(week)s, from %(from)s: %(count)s finished so far", **said)
    )
    if not rate:
        return text
    per = gettext("%(rate)s per %(hours)s GPU hours", rate=rate, hours=_PER_GPU_HOURS)
    return f"{text}, {per}"


def _day_of_month(at: datetime) -> str:
    return gettext("%(day)s %(month)s", day=at.day, month=gettext(_MONTHS[at.month - 1]))


def per_gpu_hours(one: FinishedWeek) -> str:
    """Finished for each hundred GPU hours that were held; "" where none was."""
    hours = one.held_milli_gpu_h / WHOLE_MILLI_GPU
    if not hours:
        return ""
    rate = _PER_GPU_HOURS * one.finished / hours
    return words.amount(rate, ",.0f" if rate >= _PER_GPU_HOURS else ".1f")


def days(found: Sequence[ReportDay]) -> Days | None:
    """GPU hours by day, what was lost drawn over what it is part of; None where nothing is known."""
    tops = [max(one.held_milli_gpu_h, one.there_milli_gpu_h or 0) for one in found]
    if not any(tops):
        return None
    top = max(tops)
    room = DAYS_WIDTH / len(found)
    width = round(min(_WIDEST_BAR, room * 0.8), 1)
    return Days(
        width=DAYS_WIDTH,
        height=DAYS_HEIGHT,
        bar_width=width,
        bars=tuple(
            _day(one, round(number * room + (room - width) / 2, 1), top)
            for number, one in enumerate(found)
        ),
        ticks=tuple(
            Tick(
                y=round(DAYS_HEIGHT * (1 - at / top), 1),
                text=words.amount(at / WHOLE_MILLI_GPU, ",.10g"),
            )
            for at in _round_numbers(top)
        ),
    )


def _round_numbers(top: int) -> range:
    """From 0 to at most the top, few steps of 1, 2 or 5 times a power of ten."""
    steps = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    return range(0, top + 1, next(step for step in steps if top // step <= _MOST_STEPS))


def _day(one: ReportDay, x: float, top: int) -> Day:
    at = datetime.fromtimestamp(one.from_ms / 1000, UTC)
    idle, borrowed = one.idle_milli_gpu_h, one.borrowed_milli_gpu_h
    stacked = {
        "own": max(0, one.held_milli_gpu_h - borrowed - idle),
        "borrowed": borrowed,
        "idle": idle,
        "free": max(0, (one.there_milli_gpu_h or 0) - one.held_milli_gpu_h),
    }
    parts: list[Part] = []
    below = 0.0
    for key, amount in stacked.items():
        height = DAYS_HEIGHT * amount / top
        below += height
        parts.append(Part(key=key, y=round(DAYS_HEIGHT - below, 1), height=round(height, 1)))
    lost = round(DAYS_HEIGHT * one.lost_milli_gpu_h / top, 1)
    if one.lost_milli_gpu_h:
        lost = max(_THINNEST, lost)
    parts.append(Part(key="lost", y=round(DAYS_HEIGHT - lost, 1), height=lost))
    return Day(
        x=x,
        label=str(at.day),
        parts=tuple(part for part in parts if part.height),
        text=f"{_day_of_month(at)}: {_day_in_words(one)}",
    )


def _day_in_words(one: ReportDay) -> str:
    used = (
        gettext("no data of use")
        if one.used_milli_gpu_h is None
        else gettext("used %(hours)s", hours=_hours(one.used_milli_gpu_h))
    )
    held = (
        gettext("held %(hours)s", hours=_hours(one.held_milli_gpu_h))
        if one.there_milli_gpu_h is None
        else gettext(
            "held %(hours)s of %(all)s",
            hours=_hours(one.held_milli_gpu_h),
            all=_hours(one.there_milli_gpu_h),
        )
    )
    parts = gettext(
        "borrowed %(borrowed)s, idle %(idle)s, lost at most %(lost)s",
        borrowed=_hours(one.borrowed_milli_gpu_h),
        idle=_hours(one.idle_milli_gpu_h),
        lost=_hours(one.lost_milli_gpu_h),
    )
    return f"{held}, {used}, {parts}"


def _hours(milli_gpu_h: int) -> str:
    return words.amount(milli_gpu_h / WHOLE_MILLI_GPU, ",.1f")
