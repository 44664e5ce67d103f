"""How often the card's ranges hold, by grade: of ten measured times eight should lie inside.

A: each run of T9 after all others. B: after those of other models alone, and after one row of the
kind. C: the formula alone, on all tables of times. There tables differ more than rows of one table
do, and a new training is a new table: the width is that at which the mean of tables' shares is
right (conformal sets of two layers, Dunn, Wasserman and Ramdas 2022), and both are given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.advisor import foundry, llama_tables, megatron
from benchmarks.advisor.setting import TENTH, Case, Figure, Row, rows_of, seconds_of
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.history import SPREAD, Asked, Grade, Run, correction


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
        held = near <= TENTH * SPREAD[Grade.PROBE]
        found.append(Figure("coverage", "one_row_percent", 100 * float(np.mean(held)), len(rows)))
        found += _after_runs(rows, own)
    return found


def _after_runs(rows: Sequence[Row], cases: Sequence[Case]) -> list[Figure]:
    """The ranges that a card gives where a hub kept other runs of the table, by their grade."""
    said = seconds_of(cases, Constants())
    runs = [
        Run(
            job=str(index),
            project="",
            family=row["Model"],
            kind=row["GPU"],
            gpus=int(row["# GPUs"]),
            measured_s=case.seconds,
            formula_s=float(said[index]),
        )
        for index, (row, case) in enumerate(zip(rows, cases, strict=True))
    ]
    held: dict[Grade, list[bool]] = defaultdict(list)
    for one in runs:
        others = [run for run in runs if run is not one]
        for known in (others, [run for run in others if run.family != one.family]):
            asked = Asked(job="", project="", family=one.family, kind=one.kind, gpus=one.gpus)
            found = correction(asked, known)
            off = abs(np.log(one.measured_s / (one.formula_s * found.factor)))
            held[found.grade].append(bool(off <= TENTH * found.spread))
    names = {Grade.HISTORY: "p10_p90_percent", Grade.PROBE: "few_runs_percent"}
    return [
        Figure("coverage", name, 100 * float(np.mean(held[grade])), len(held[grade]))
        for grade, name in names.items()
        if held[grade]
    ]


def _inside(cases: Iterable[Case]) -> np.ndarray:
    each = list(cases)
    said = seconds_of(each, Constants())
    off = np.abs(np.log(np.array([one.seconds for one in each]) / said))
    return np.asarray(off <= TENTH * SPREAD[Grade.FORMULA])
