"""Drawings of what was said beside what came; the tables beside them say the same in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

from gpucommons.scheduler.languages.texts import gettext
from gpucommons.scheduler.models import SpeedDrawn, WaitDrawn
from gpucommons.scheduler.pages.present.words import amount, duration

WIDTH, ROW, SIDE = 480, 13, 280
_MINUTE = 60_000
#: Of the axis of waits.
_TICKS = (_MINUTE, 5 * _MINUTE, 15 * _MINUTE, 60 * _MINUTE, 4 * 60 * _MINUTE, 24 * 60 * _MINUTE)
_EDGE = 22


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A number beside an axis, and where."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitBar:
    """A window and what came, across the drawing."""

    y: int
    left: float
    width: float
    came: float
    right: bool
    #: The same in words.
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits:
    """Newest first."""

    height: int
    bars: tuple[WaitBar, ...]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A plan."""

    x: float
    y: float
    grade: str
    right: bool
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Speeds:
    """Said across, measured upwards, both by powers of ten."""

    points: tuple[Point, ...]
    ticks: tuple[Tick, ...]


def waits(drawn: Sequence[WaitDrawn]) -> Waits | None:
    """The newest windows; None where there are none."""
    if not drawn:
        return None
    longest = max(max(one.to_ms, one.took_ms) for one in drawn)
    last = max(longest, _TICKS[1])

    def across(span_ms: int) -> float:
        """By powers: minutes and hours are as wide."""
        share = log10(max(span_ms, _MINUTE) / _MINUTE) / max(log10(last / _MINUTE), 1e-9)
        return round(_EDGE + (WIDTH - 2 * _EDGE) * min(1.0, share), 1)

    bars = tuple(
        WaitBar(
            y=ROW * number,
            left=across(one.from_ms),
            width=max(2.0, round(across(one.to_ms) - across(one.from_ms), 1)),
            came=across(one.took_ms),
            right=one.right,
            text=_in_words(one),
        )
        for number, one in enumerate(reversed(drawn))
    )
    shown = [tick for tick in _TICKS if tick <= last]
    return Waits(
        height=ROW * len(bars),
        bars=bars,
        ticks=tuple(Tick(at=across(tick), text=_tick(tick)) for tick in shown),
    )


def _tick(span_ms: int) -> str:
    """The axis begins with a minute: whatever took less stands there, too."""
    return f"{'≤ ' if span_ms == _TICKS[0] else ''}{duration(span_ms)}"


def _in_words(one: WaitDrawn) -> str:
    said = gettext("said %(low)s to %(high)s", low=duration(one.from_ms), high=duration(one.to_ms))
    took = duration(one.took_ms)
    came = (
        gettext("was %(span)s", span=took)
        if one.started
        else gettext("more than %(span)s", span=took)
    )
    return f"{said}, {came}: {_judged(right=one.right)}"


def _judged(*, right: bool) -> str:
    return gettext("right") if right else gettext("wrong")


def _speed_in_words(one: SpeedDrawn) -> str:
    text = gettext(
        "grade %(grade)s: said %(low)s to %(high)s samples/s, measured %(measured)s",
        grade=one.grade,
        low=amount(one.low, ",.3g"),
        high=amount(one.high, ",.3g"),
        measured=amount(one.measured, ",.3g"),
    )
    return f"{text}: {_judged(right=one.right)}"


def speeds(drawn: Sequence[SpeedDrawn]) -> Speeds | None:
    """Plans that were run; None where there are none."""
    if not drawn:
        return None
    known = [number for one in drawn for number in (one.middle, one.measured)]
    low, high = floor(log10(min(known))), floor(log10(max(known))) + 1

    def along(amount: float) -> float:
        return round(SIDE * (log10(amount) - low) / (high - low), 1)

    return Speeds(
        points=tuple(
            Point(
                x=along(one.middle),
                y=round(SIDE - along(one.measured), 1),
                grade=one.grade,
                right=one.right,
                text=_speed_in_words(one),
            )
            for one in drawn
        ),
        ticks=tuple(
            Tick(at=along(10.0**power), text=amount(10.0**power, ",.6g"))
            for power in range(low, high + 1)
        ),
    )
