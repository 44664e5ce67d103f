"""Metrics printed as a table: a line of names, then a line of numbers per epoch or iteration.

fastai and scikit-learn print so. A table counts when its first column is a counter and another one is
a metric; it ends with the first line that does not fit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpucommons.scheduler.curves.lines import Line, number
from gpucommons.scheduler.curves.metric_names import is_metric, tidy
from gpucommons.scheduler.curves.points import Counter, Unit

_COUNTERS = {
    "epoch": Unit.EPOCH,
    "iter": Unit.STEP,
    "iteration": Unit.STEP,
    "step": Unit.STEP,
    "round": Unit.ROUND,
}
#: Columns stand apart by two spaces or a tab, so that names may have one.
_GAP = re.compile(r"\t+| {2,60}")
_NUMBER = re.compile(r"^[-+]?\d{1,18}(?:\.\d{0,18})?(?:[eE][-+]?\d{1,3})?$")
_MOST_COLUMNS = 16


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a table that has begun."""

    names: tuple[str, ...]
    unit: Unit


def table_of(text: str) -> Table | None:
    """The table that begins with this line."""
    cells = _cells(text)
    unit = _COUNTERS.get(cells[0].lower()) if cells else None
    if unit is None or not any(is_metric(cell) for cell in cells[1:]):
        return None
    return Table(names=cells, unit=unit)


def row_of(table: Table, text: str) -> Line | None:
    """What a line of the table says; None where it is none."""
    cells = _cells(text)
    if len(cells) < 2 or len(cells) > len(table.names) or not cells[0].isdecimal():  # noqa: PLR2004
        return None
    metrics = {
        tidy(name): value
        for name, cell in zip(table.names[1:], cells[1:], strict=False)
        if is_metric(name) and _NUMBER.match(cell) and (value := number(cell)) is not None
    }
    at = int(cells[0][:18])
    epoch = float(at) if table.unit is Unit.EPOCH else None
    return Line(metrics=metrics, counter=Counter(unit=table.unit, step=at, epoch=epoch))


def _cells(text: str) -> tuple[str, ...]:
    cells = tuple(cell for cell in _GAP.split(text.strip()) if cell)
    return cells if len(cells) <= _MOST_COLUMNS else ()
