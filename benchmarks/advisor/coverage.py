"""How often the shipped ranges hold where nothing was learned: grade C, and B after one row.

Of ten measured times eight should lie inside. Tables differ from each other more than rows of one
table do, so the share is given both ways.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.advisor import foundry, llama_tables, megatron
from benchmarks.advisor.setting import Case, Figure, rows_of, seconds_of
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.history import SPREAD, Grade

_TENTH = 1.2816


def figures(folder: Path) -> list[Figure]:
    """Shares of rows, and the mean of tables' shares."""
    read = (*megatron.measured(folder), *llama_tables.measured(folder))
    tables = [(name, list(cases)) for name, cases in read]
    rows = rows_of(folder, "t9_llm_foundry.csv")
    own = [foundry.case_of(row) for row in rows]
    tables = [(name, cases) for name, cases in [*tables, ("T9", own)] if cases]
    inside = [_inside(cases) for _, cases in tables]
    found = []
    if inside:
        together = np.concatenate(inside)
        by_table = float(np.mean([np.mean(one) for one in inside]))
        found += [
            Figure(
                "coverage", "formula_rows_percent", 100 * float(np.mean(together)), len(together)
            ),
            Figure("coverage", "formula_tables_percent", 100 * by_table, len(inside)),
        ]
    if rows:
        seconds = np.array([one.seconds for one in own])
        near = np.abs(np.log(foundry.one_row(rows, own) / seconds))
        held = near <= _TENTH * SPREAD[Grade.PROBE]
        found.append(Figure("coverage", "one_row_percent", 100 * float(np.mean(held)), len(rows)))
    return found


def _inside(cases: Iterable[Case]) -> np.ndarray:
    each = list(cases)
    said = seconds_of(each, Constants())
    off = np.abs(np.log(np.array([one.seconds for one in each]) / said))
    return np.asarray(off <= _TENTH * SPREAD[Grade.FORMULA])
