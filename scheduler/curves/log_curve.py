"""Points of a curve from the lines of one attempt's log, in the order in which they were printed.

A metric needs a place on the axis. It stands in the same line, or in one shortly before ("Epoch 3/10",
a progress bar), or nowhere: then the lines themselves are counted. The weaker the evidence, the more of
it is waited for, so that a log which happens to contain such words shows no curve.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gpucommons.scheduler.curves.lines import NOTHING, Line, plain, read_line
from gpucommons.scheduler.curves.points import EPOCH_PARTS, MAX_NAMES, Counter, Point, Unit
from gpucommons.scheduler.curves.tables import Table, row_of, table_of

#: So many lines with a metric before one is believed that names no counter; as many that only count.
_ENOUGH = 3
#: A counter that was named so many lines ago says nothing about a metric any more.
_REACH_LINES = 200
#: Redrawn parts of one line that are looked at.
_MAX_PARTS = 400


@dataclass(kw_only=True)
class LogCurve:
    """What is known of one attempt's log so far."""

    #: Where counted lines go on, so that they follow those of an earlier attempt.
    first_line: int = 0
    _lines_seen: int = 0
    _counter: Counter | None = None
    _counter_line: int = -_REACH_LINES
    _bar: tuple[int, int] | None = None
    _bar_line: int = -_REACH_LINES
    #: The last bar with metrics, and how many like it were filled before.
    _bar_before: tuple[int, int] | None = None
    _bars_done: int = 0
    _table: Table | None = None
    #: Where the bar of the whole run ends.
    _run_total: int | None = None
    #: Epochs were told in parts.
    _has_parts: bool = False
    #: The unit that the curve has; a curve has one.
    _unit: Unit | None = None
    _names: set[str] = field(default_factory=set)
    #: Not shown yet: too little to believe in.
    _held: list[Point] = field(default_factory=list)
    _counted: int = 0
    _newest: Point | None = None

    @property
    def newest(self) -> Point | None:
        """How far the run is."""
        return self._newest

    def read(self, lines: Iterable[str]) -> tuple[Point, ...]:
        """Points of these lines, at most one per step; a step that was told before may come again."""
        found: dict[int, Point] = {}
        for line in lines:
            for part in line.rsplit("\r", _MAX_PARTS):
                for point in self._take(plain(part)):
                    known = found.get(point.counter.step) or self._same_step(point)
                    whole = point if known is None else _merged(known, point)
                    found[point.counter.step] = self._newest = whole
        return tuple(found.values())

    def _same_step(self, point: Point) -> Point | None:
        newest = self._newest
        return newest if newest is not None and newest.counter.step == point.counter.step else None

    def _take(self, text: str) -> tuple[Point, ...]:
        if not text:
            return ()
        self._lines_seen += 1
        line = self._in_table(text) or read_line(text)
        if line is NOTHING:
            return ()
        self._remember(line)
        if line.counts_only and line.counter is not None:
            return self._only_counted(line.counter)
        return self._measured(line) if line.metrics else ()

    def _in_table(self, text: str) -> Line | None:
        row = None if self._table is None else row_of(self._table, text)
        if row is None:
            self._table = table_of(text)
        return row

    def _remember(self, line: Line) -> None:
        if line.bar is not None:
            if line.metrics and self._bar_before is not None:
                (at, total), (before, whole) = line.bar, self._bar_before
                # A new bar of the same length: the next epoch.
                self._bars_done = self._bars_done + (at < before) if total == whole else 0
            self._bar_before = line.bar if line.metrics else self._bar_before
            self._bar, self._bar_line = line.bar, self._lines_seen
        if line.counter is not None and (line.metrics or line.counts_only):
            self._counter, self._counter_line = line.counter, self._lines_seen

    # --- where a metric stands -----------------------------------------------------------------

    def _measured(self, line: Line) -> tuple[Point, ...]:
        metrics = self._known_names(line)
        counter = self._place_of(line)
        strong = counter is not None
        if counter is None:
            self._counted += 1
            step = self.first_line + self._counted
            counter = Counter(unit=Unit.LINE, step=step)
        return self._believed(Point(counter=counter, metrics=metrics), strong=strong)

    def _known_names(self, line: Line) -> dict[str, float]:
        kept = {}
        for name, value in line.metrics.items():
            if name in self._names or len(self._names) < MAX_NAMES:
                self._names.add(name)
                if math.isfinite(value):
                    kept[name] = value
        return kept

    def _place_of(self, line: Line) -> Counter | None:
        counter = line.counter
        is_near = self._lines_seen - self._counter_line <= _REACH_LINES
        if counter is None:
            if is_near:
                return self._counter
            # A bar of its own counts; another one may be of a download.
            return None if line.bar is None else self._bar_place(None)
        if counter.unit is Unit.EPOCH and counter.epoch is not None and self._in_parts(counter):
            counter = replace(counter, step=round(counter.epoch * EPOCH_PARTS))
            # Fractions of an epoch, and a bar that counts the steps: these are the better axis.
            return self._run_place(counter.epoch) or counter
        return counter

    def _in_parts(self, counter: Counter) -> bool:
        """Once an epoch was told in part, whole ones stand on the same axis."""
        self._has_parts = self._has_parts or counter.step != counter.epoch
        return self._has_parts

    def _run_place(self, epoch: float | None) -> Counter | None:
        """By the bar of the whole run: not by one that is full before anything was measured, as those
        of downloads and saves are, and not by another one later.
        """
        if self._bar is None or self._unit is Unit.EPOCH:
            return None
        at, total = self._bar
        if self._run_total is None and at >= total:
            return None
        place = self._bar_place(epoch) if self._run_total in {None, total} else None
        if place is not None:
            self._run_total = total
        return place

    def _bar_place(self, epoch: float | None) -> Counter | None:
        if self._bar is None or self._lines_seen - self._bar_line > _REACH_LINES:
            return None
        at, total = self._bar
        if at > total:
            return None
        if not self._bars_done:
            # One that stands alone may be of one epoch, and the first of many.
            whole = None if epoch is None else total
            return Counter(unit=Unit.STEP, step=at, total=whole, epoch=epoch)
        return Counter(unit=Unit.STEP, step=self._bars_done * total + at, epoch=epoch)

    # --- whether it is believed ----------------------------------------------------------------

    def _only_counted(self, counter: Counter) -> tuple[Point, ...]:
        if self._unit is not None and any(self._names):
            # There are metrics: these say how far it is as well.
            return ()
        return self._believed(Point(counter=counter), strong=False)

    def _believed(self, point: Point, *, strong: bool) -> tuple[Point, ...]:
        unit = point.counter.unit
        if self._unit is not None:
            return (point,) if unit is self._unit or self._takes_over(point) else ()
        if strong:
            self._unit, held = unit, [one for one in self._held if one.metrics]
            self._held.clear()
            return (*(one for one in held if one.counter.unit is unit), point)
        self._held = [one for one in self._held if _goes_on(one, point)]
        self._held.append(point)
        if len(self._held) < _ENOUGH:
            return ()
        self._unit, held = unit, self._held
        self._held = []
        return tuple(held)

    def _takes_over(self, point: Point) -> bool:
        """A curve of lines or of bare counts gives way to one that names its steps."""
        weak = self._unit is Unit.LINE or (self._newest is not None and not self._newest.metrics)
        if not weak or point.counter.unit is Unit.LINE or not point.metrics:
            return False
        self._unit, self._newest = point.counter.unit, None
        return True


def _goes_on(before: Point, after: Point) -> bool:
    """They are of one run: the same kind, further on."""
    same = bool(before.metrics) == bool(after.metrics)
    one, other = before.counter, after.counter
    if one.unit is not other.unit or not same:
        return False
    if one.total != other.total or other.step <= one.step:
        return False
    return not before.metrics or bool(before.metrics.keys() & after.metrics.keys())


def _merged(known: Point, point: Point) -> Point:
    """Two lines about one step: what the later one says wins."""
    counter = point.counter if point.counter.total is not None else known.counter
    return Point(counter=counter, metrics={**known.metrics, **point.metrics})
