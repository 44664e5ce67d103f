"""From futures to a window that people can plan with, and how right such windows have been.

A window is what the futures say, stretched by what they got wrong before: each past wait of the same
class that was longer than its stretched window moves the end out, each that was not moves it in, a
little, in such a proportion that nine of ten come to lie before it; the start likewise. This online
way of conformal prediction (quantile tracking) needs no waits that are alike: whatever comes, the
share of late starts goes to one of ten, also where a busy week follows a quiet one. Waits that cover
the same hours wait for the same thing and are late together: they move a bound as one. Only waits
whose window is over are compared, started or not: those that ended early would flatter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.types import Millis, Workload
from gpucommons.scheduler.forecast import words
from gpucommons.scheduler.forecast.futures import quantile
from gpucommons.scheduler.store.estimates import Estimate, Window

#: Eight of ten starts lie in the window, nine of ten before its end.
START, END = 0.1, 0.9
#: Compared waits, newest first: more would answer too late when something changes.
REMEMBERED = 200
#: So many decide whether a wide range is shown instead of a window: windows come back as soon as they
#: would be right.
RECENT = 40
#: Below so many none is replaced: one miss would decide.
MIN_COMPARED = 20
MIN_SHOWN = 10
#: Starts before the end of their windows below this share, and wide ranges are shown instead: the aim
#: is nine of ten, and of 20 such waits fewer than 14 would be so by chance once in four hundred times.
TOO_SELDOM = 0.7
#: Waits count as at least so long where it is asked which of them cover the same time.
TOGETHER_MS = 600_000
#: A window off by half a minute is right: starting alone takes that long.
SLACK_MS = 30_000
#: A late start moves the next windows' end out by about one of the times that people say, which is
#: the least that they would see; nine in time take that back.
_STEP = 1.5
#: Nobody plans with a window that has to be stretched more than this, and what one bad week did is
#: forgotten after some thirty starts in time.
MOST_STRETCH = 4.0


class Unknown(StrEnum):
    """Why there is no window."""

    #: Something in the way has no known end.
    HISTORY = "history"
    #: It does not start within the horizon.
    NOT_IN_SIGHT = "not-in-sight"
    #: Nothing that ends lets it start, as it was submitted.
    NEVER = "never"
    #: It waits for nodes that take nothing new.
    NODES = "nodes"
    #: A rule of its team keeps it waiting, or a budget that is used up.
    POLICY = "policy"


class Basis(StrEnum):
    """What a window rests on; for all but the first, its words say how little that is."""

    #: Runs like those in the way, limits and progress; its record is counted.
    KNOWN = "known"
    #: Typical run times, where too few like runs have ended; its record is counted apart.
    THIN = "thin"
    #: Windows were wrong too often lately: as wide as they may be stretched.
    WRONG = "wrong"


#: Beyond two weeks nobody plans by a forecast: a range that ends here says "or more".
HORIZON_MS = 14 * 86_400_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What past waits of a class say about the next window."""

    compared: int = 0
    #: Of the windows that people saw: how many, and in how many the start lay.
    shown: int = 0
    right: int = 0
    #: Share of the most recent starts before the end of their window, withheld or not; one before
    #: that can be said.
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
        return self.in_time < TOO_SELDOM


def wait_class(workload: Workload, *, thin: bool = False) -> str:
    """Waits that are alike: in the same line, of notebooks or of jobs; for a device that is being
    cleared, or for one that nobody gives up yet; forecast from like runs, or from typical ones.
    """
    kind = "notebook" if is_lease(workload) else "job"
    promised = " promised" if workload.nomination is not None else ""
    return f"{kind} {workload.spec.pools[0]}{promised}{' thin' if thin else ''}"


def raw_window(lengths: Sequence[int | None]) -> Window | None:
    """The window that the futures give; None where its end is not in sight."""
    first, median, last = (quantile(lengths, part) for part in (START, 0.5, END))
    if first is None or median is None or last is None:
        return None
    return Window(from_ms=first, median_ms=median, to_ms=last)


def open_window(lengths: Sequence[int | None]) -> Window | None:
    """A window that may end beyond the horizon; None where most futures show no start at all."""
    if not lengths:
        return None
    first, median, last = (quantile(lengths, part) for part in (START, 0.5, END))
    if first is None or median is None:
        return None
    return Window(from_ms=first, median_ms=median, to_ms=HORIZON_MS if last is None else last)


def widest(raw: Window) -> Window:
    """As wide as a window may be stretched: for where past ones were wrong too often."""
    from_ms, to_ms = _stretched(raw.from_ms, 1 / MOST_STRETCH), _stretched(raw.to_ms, MOST_STRETCH)
    return Window(from_ms=from_ms, median_ms=raw.median_ms, to_ms=min(to_ms, HORIZON_MS))


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
    over = [
        one
        for one in estimates
        if one.foreseen and not one.left and is_over(one, now_ms) and not is_backwards(one)
    ]
    over = sorted(over, key=lambda one: (one.made_ms, one.workload_id))[-REMEMBERED:]
    counts = apart([(one.made_ms, one.made_ms + _length(one, now_ms)) for one in over])
    shown = [one for one in over if not one.withheld]
    stretch_start, stretch_end = _tracked(over, counts, now_ms)
    return Calibration(
        compared=len(over),
        shown=len(shown),
        right=sum(is_right(one, now_ms) for one in shown),
        in_time=_recently([in_time(one, now_ms) for one in over], counts),
        stretch_start=stretch_start,
        stretch_end=stretch_end,
    )


def apart(waits: Sequence[tuple[int, int]]) -> list[float]:
    """As how much of a wait each counts, given beginnings and ends in order: two are one as far as
    what both cover is a part of what either does. The same wait twice counts once; a minute within a
    week, and the week, count as one each.
    """
    spans = [(begin, max(end, begin + TOGETHER_MS)) for begin, end in waits]
    alike = [1.0] * len(spans)
    for i, (begin, end) in enumerate(spans):
        for j in range(i + 1, len(spans)):
            later, until = spans[j]
            if later >= end:
                break
            both = (min(until, end) - later) / (max(until, end) - begin)
            alike[i] += both
            alike[j] += both
    return [1 / one for one in alike]


def _tracked(
    over: Sequence[Estimate], counts: Sequence[float], now_ms: Millis
) -> tuple[float, float]:
    """The stretch of start and end after these waits, in order of time.

    Compared is what people would have read: windows are rounded outwards, and that counts.
    """
    start = end = 1.0
    for one, count in zip(over, counts, strict=True):
        length, raw = _length(one, now_ms), one.raw
        early = length < said_from(_stretched(raw.from_ms, start)) - SLACK_MS
        late = length > said_to(_stretched(raw.to_ms, end)) + SLACK_MS
        start = _bounded(start / _moved(early, START, count))
        end = _bounded(end * _moved(late, 1 - END, count))
    return start, end


def _moved(missed: bool, allowed: float, count: float) -> float:
    """By how much a bound moves out: not at all on the whole where as many miss as may."""
    return math.pow(_STEP, count * (missed - allowed) / (1 - allowed))


def _bounded(stretch: float) -> float:
    return min(max(stretch, 1 / MOST_STRETCH), MOST_STRETCH)


def _recently(right: Sequence[bool], counts: Sequence[float]) -> float:
    """The share of the newest that were right; one where they are too few."""
    seen = share = 0.0
    for one, count in zip(reversed(right), reversed(counts), strict=True):
        if seen >= RECENT:
            break
        seen, share = seen + count, share + count * one
    return share / seen if seen >= MIN_COMPARED else 1.0


def is_right(estimate: Estimate, now_ms: Millis) -> bool:
    """Whether the start lay in the window that was worked out, up to what starting takes."""
    early = _length(estimate, now_ms) < estimate.window.from_ms - SLACK_MS
    return not early and in_time(estimate, now_ms)


def in_time(estimate: Estimate, now_ms: Millis) -> bool:
    """Whether it came before the window's end."""
    return _length(estimate, now_ms) <= estimate.window.to_ms + SLACK_MS


def is_over(estimate: Estimate, now_ms: Millis) -> bool:
    """Its window has passed, so that early and late starts are known alike; without one, its wait has."""
    if not estimate.foreseen:
        return estimate.started_ms is not None
    until_ms = estimate.made_ms + max(estimate.raw.to_ms, estimate.window.to_ms)
    return until_ms + SLACK_MS < now_ms


def is_backwards(estimate: Estimate) -> bool:
    """It started before it was said when: a clock was set back between, and how long it waited nobody knows."""
    return estimate.started_ms is not None and estimate.started_ms < estimate.made_ms


def _length(estimate: Estimate, now_ms: Millis) -> int:
    """The true wait; of one that still goes on, at least so long."""
    return (now_ms if estimate.started_ms is None else estimate.started_ms) - estimate.made_ms
