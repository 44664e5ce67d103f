"""The score board: for each shape of work the score of every row, kept up to date.

A placement changes one row, so a shape's scores are computed anew only for rows written since the
shape was last asked for. The best row is the one with the highest score, then the first: the same
input always gives the same place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.rows import Ints, Rows

#: Score of a row that the ask does not fit.
NO_FIT = -1

#: Up to so many rows are scored one by one: arrays cost as much for one row as for dozens.
FEW = 8

#: Shapes kept at once; beyond it the board starts anew rather than grow without end.
MAX_SHAPES = 2048


class RowScorer(Protocol):
    """Scores one row for an ask."""

    def score(self, ask: Ask, rows: Rows, row: int) -> tuple[int, int]:
        """Return score and device of a row, as :class:`PackingPolicy` does for many."""


class PackingPolicy(Protocol):
    """Scores rows for an ask."""

    @property
    def one_by_one(self) -> RowScorer | None:
        """Quicker for a few rows; None where there is nothing quicker."""

    def scores(self, ask: Ask, rows: Rows, which: Ints) -> tuple[Ints, Ints]:
        """Return score (higher is better, NO_FIT where it does not fit) and device per row.

        The device is the position for a share; it means nothing for other work.
        """


@dataclass(slots=True)
class _Column:
    scores: Ints
    devices: NDArray[np.int8]
    seen_writes: int


class Board:
    """Scores of all rows for every shape asked for, under one policy."""

    def __init__(self, rows: Rows, policy: PackingPolicy) -> None:
        """Start with nothing scored."""
        self.rows = rows
        self._policy = policy
        self._columns: dict[Ask, _Column] = {}

    def set_policy(self, policy: PackingPolicy) -> None:
        """Score by another policy from now on."""
        if policy is not self._policy:
            self._policy = policy
            self._columns.clear()

    def scores(self, ask: Ask) -> Ints:
        """Score of every row; the caller must not change it."""
        return self._column(ask).scores

    def best(self, ask: Ask) -> int | None:
        """Return the best row, or None where the ask fits nowhere."""
        found = self.place(ask)
        return None if found is None else found[0]

    def place(self, ask: Ask) -> tuple[int, int] | None:
        """The best row with the device that a share should take there; None where nothing fits."""
        column = self._column(ask)
        if not len(column.scores):
            return None
        row = int(column.scores.argmax())
        return (row, int(column.devices[row])) if column.scores[row] > NO_FIT else None

    def device(self, ask: Ask, row: int) -> int:
        """Position of the device that a share should take in a row."""
        return int(self._column(ask).devices[row])

    def refuse(self, ask: Ask, row: int) -> None:
        """Leave a row out for this shape until it changes: a finer check found no place in it."""
        self._column(ask).scores[row] = NO_FIT

    def _column(self, ask: Ask) -> _Column:
        column = self._columns.get(ask)
        if column is None:
            column = self._first(ask)
        elif column.seen_writes != self.rows.writes:
            self._bring_up(ask, column)
        return column

    def _bring_up(self, ask: Ask, column: _Column) -> None:
        changed = self.rows.changed_since(column.seen_writes)
        scorer = self._policy.one_by_one
        if scorer is not None and len(changed) <= FEW:
            for row in changed:
                column.scores[row], column.devices[row] = scorer.score(ask, self.rows, row)
        else:
            which = np.array(changed, dtype=np.int64)
            column.scores[which], column.devices[which] = self._policy.scores(ask, self.rows, which)
        column.seen_writes = self.rows.writes

    def _first(self, ask: Ask) -> _Column:
        if len(self._columns) >= MAX_SHAPES:
            self._columns.clear()
        scores, devices = self._policy.scores(ask, self.rows, np.arange(len(self.rows)))
        column = _Column(scores, devices.astype(np.int8), self.rows.writes)
        self._columns[ask] = column
        return column
