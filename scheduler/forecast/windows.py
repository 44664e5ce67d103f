"""From futures to a window that people can plan with, and how right such windows have been.

A window is what the futures say, stretched by what they got wrong before: each past wait of the same
class that was longer than its stretched window moves the end out, each that was not moves it in, a
little, in such a proportion that nine of ten come to lie before it; the start likewise. This online
way of conformal prediction (quantile tracking) needs no waits that are alike: whatever comes, the
share of late starts goes to one of ten, also where a busy week follows a quiet one. Only waits whose
window is over are compared, started or not: those that ended early would flatter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from gpucommons.scheduler.core.lifecycle import is_lease
from gpucommons.scheduler.core.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.forecast import words
from gpucommons.scheduler.forecast.futures import quantile

#: Eight of ten starts lie in the window, nine of ten before its end.
START, END = 0.1, 0.9
#: Compared waits, newest first: more would answer too late when something changes.
REMEMBERED = 200
#: So many decide whether windows are withheld: they come back as soon as they would be right.
RECENT = 40
#: Below so many windows are not withheld: one miss would decide.
MIN_COMPARED = 20
MIN_SHOWN = 10
#: Starts before the end of their windows below this share, and windows are withheld: the aim is
#: nine of ten, and of 20 such waits fewer than 14 would be so by chance once in four hundred times.
TOO_SELDOM = 0.7
#: Waits that begin within so long of each other count as one.
TOGETHER_MS = 600_000
#: A window off by half a minute is right: starting alone takes that long.
SLACK_MS = 30_000
#: A late start makes the next windows' end so many times later; nine in time take that back.
_STEP = 2.0
#: Nobody plans with a window that has to be stretched more than this.
_MOST_STRETCH = 30.0


class Unknown(StrEnum):
    """Why there is no window."""

    #: Something in the way has no known end.
    HISTORY = "history"
    #: It does not start within the horizon.
    NOT_IN_SIGHT = "not-in-sight"
    #: Past windows were wrong too often.
    CALIBRATION = "calibration"


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Lengths from the time it was made."""

    from_ms: int
    median_ms: int
    to_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A window that was made, kept until the start is known, to learn from."""

    workload_id: WorkloadId
    made_ms: Millis
    #: Waits of one class are compared with each other.
    wait_class: str
    #: As the futures said.
    raw: Window
    #: As it was calibrated and rounded.
    window: Window
    #: People were told *unknown* instead.
    withheld: bool = False
    #: When it got its devices.
    started_ms: Millis | None = None
    #: It left the line without a start: nothing to compare.
    left: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What past waits of a class say about the next window."""

    compared: int = 0
    #: Of the windows that people saw: how many, and in how many the start lay.
    shown: int = 0
    right: int = 0
    #: Share of the most recent starts before the end of their window, withheld or not.
    in_time: float = 1.0
    stretch_start: float = 1.0
    stretch_end: float = 1.0

    @property
    def right_of_ten(self) -> int | None:
        """How many windows of ten were right; None before that can be said."""
        return round(10 * self.right / self.shown) if self.shown >= MIN_SHOWN else None

    @property
    def off(self) -> bool:
        """Past windows were wrong too often for another one."""
        too_wide = self.stretch_end > _MOST_STRETCH
        return self.compared >= MIN_COMPARED and (too_wide or self.in_time < TOO_SELDOM)


def wait_class(workload: Workload) -> str:
    """Waits that are alike: in the same line, of notebooks or of jobs; for a device that is being
    cleared, or for one that nobody gives up yet.
    """
    kind = "notebook" if is_lease(workload) else "job"
    promised = " promised" if workload.nomination is not None else ""
    return f"{kind} {workload.spec.pools[0]}{promised}"


def raw_window(lengths: Sequence[int | None]) -> Window | None:
    """The window that the futures give; None where its end is not in sight."""
    first, median, last = (quantile(lengths, part) for part in (START, 0.5, END))
    if first is None or median is None or last is None:
        return None
    return Window(from_ms=first, median_ms=median, to_ms=last)


def calibrated(raw: Window, calibration: Calibration) -> Window:
    """The window to show."""
    from_ms = _stretched(raw.from_ms, calibration.stretch_start)
    to_ms = _stretched(raw.to_ms, calibration.stretch_end)
    median_ms = min(max(raw.median_ms, from_ms), to_ms)
    return Window(from_ms=min(from_ms, to_ms), median_ms=median_ms, to_ms=to_ms)


def _stretched(length_ms: int, factor: float) -> int:
    return max(0, round((length_ms + SLACK_MS) * factor) - SLACK_MS)


def said_from(length_ms: int) -> int:
    """The beginning as people read it. Half a minute is right anyway, so 9:59 is ten minutes."""
    return words.rounded_down(length_ms + SLACK_MS)


def said_to(length_ms: int) -> int:
    """The end as people read it."""
    return words.rounded_up(max(0, length_ms - SLACK_MS))


def calibrate(estimates: Iterable[Estimate], now_ms: Millis) -> Calibration:
    """Learn from estimates of one class, in any order."""
    over = [one for one in estimates if not one.left and _is_over(one, now_ms)]
    over = sorted(over, key=lambda one: (one.made_ms, one.workload_id))[-REMEMBERED:]
    shown = [one for one in over if not one.withheld]
    recent = over[-RECENT:]
    in_time = sum(_in_time(one, now_ms) for one in recent)
    stretch_start, stretch_end = _tracked(over, now_ms)
    return Calibration(
        compared=len(over),
        shown=len(shown),
        right=sum(_is_right(one, now_ms) for one in shown),
        in_time=in_time / len(recent) if len(recent) >= MIN_COMPARED else 1.0,
        stretch_start=stretch_start,
        stretch_end=stretch_end,
    )


def _tracked(over: Sequence[Estimate], now_ms: Millis) -> tuple[float, float]:
    """The stretch of start and end after these waits, in order of time.

    Compared is what people would have read: windows are rounded outwards, and that counts.
    """
    start = end = 1.0
    for burst in _bursts(over):
        lengths = [(_length(one, now_ms), one.raw) for one in burst]
        early = sum(n < said_from(_stretched(raw.from_ms, start)) - SLACK_MS for n, raw in lengths)
        late = sum(n > said_to(_stretched(raw.to_ms, end)) + SLACK_MS for n, raw in lengths)
        start /= _moved(early / len(burst), START)
        end *= _moved(late / len(burst), 1 - END)
    return start, end


def _moved(missed: float, allowed: float) -> float:
    """By how much a bound moves out: not at all on the whole where as many miss as may."""
    return math.pow(_STEP, (missed - allowed) / (1 - allowed))


def _bursts(over: Sequence[Estimate]) -> Iterator[list[Estimate]]:
    """Waits that began together are right or wrong together: a burst counts once."""
    for _, burst in groupby(over, key=lambda one: one.made_ms // TOGETHER_MS):
        yield list(burst)


def _is_right(estimate: Estimate, now_ms: Millis) -> bool:
    early = _length(estimate, now_ms) < estimate.window.from_ms - SLACK_MS
    return not early and _in_time(estimate, now_ms)


def _in_time(estimate: Estimate, now_ms: Millis) -> bool:
    return _length(estimate, now_ms) <= estimate.window.to_ms + SLACK_MS


def _is_over(estimate: Estimate, now_ms: Millis) -> bool:
    """Its window has passed, so that early and late starts are known alike."""
    until_ms = estimate.made_ms + max(estimate.raw.to_ms, estimate.window.to_ms)
    return until_ms + SLACK_MS < now_ms


def _length(estimate: Estimate, now_ms: Millis) -> int:
    """The true wait; of one that still goes on, at least so long."""
    return (now_ms if estimate.started_ms is None else estimate.started_ms) - estimate.made_ms
