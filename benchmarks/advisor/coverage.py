"""How often the card's ranges hold, by grade: of ten measured times eight should lie inside.

A: each run of T9 after four fifths of all, and after those of other models alone. B: after one to four
runs of other models, and after one row of the kind. C: the formula alone, on all tables of times. There tables differ more than rows of one table
do, and a new training is a new table: the width is that at which the mean of tables' shares is
right (conformal sets of two layers, Dunn, Wasserman and Ramdas 2022), and both are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.advisor import foundry, llama_tables, megatron
from benchmarks.advisor.leaving_out import after, card, held_out, kept_of
from benchmarks.advisor.setting import TENTH, Case, Figure, Row, rows_of, seconds_of
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.history import SPREAD, Grade
from gpucommons.scheduler.advisor.learning.learned import Kept, Learned


def figures(folder: Path) -> list[Figure]:
    """Shares of rows, and the mean of tables' shares."""
    return [*by_formula(folder), *after_few(folder), *_after_many(folder)]


def by_formula(folder: Path) -> list[Figure]:
    """Grade C, and B after one row of the kind."""
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
    return found


#: Rows are left out in so many parts; so many runs make a grade B, each drawn so often.
_PARTS, _FEW, _DRAWS = 5, (1, 3, 4), 3


def _after_many(folder: Path) -> list[Figure]:
    """Grade A: where a hub kept other rows of the same models, and none of them."""
    cases = [foundry.case_of(row) for row in rows_of(folder, "t9_llm_foundry.csv")]
    if not cases:
        return []
    measured = np.array([one.seconds for one in cases])
    order = np.random.default_rng(0).permutation(len(cases))
    parts = [[int(index) for index in order[part::_PARTS]] for part in range(_PARTS)]
    known = held_out(cases, parts).holds(measured)
    new = foundry.without_model(folder).holds(measured)
    return [
        _share("p10_p90_percent", np.concatenate([known, new])),
        _share("known_model_percent", known),
        _share("new_model_percent", new),
    ]


def _share(metric: str, held: np.ndarray) -> Figure:
    return Figure("coverage", metric, 100 * float(np.mean(held)), len(held))


def after_few(folder: Path) -> list[Figure]:
    """Grade B: each model after one to four runs of others on its kind of GPU, drawn at random."""
    rows = rows_of(folder, "t9_llm_foundry.csv")
    held = _held_after_few(rows, [foundry.case_of(row) for row in rows])
    return [_share("few_runs_percent", np.array(held))] if held else []


def _held_after_few(rows: Sequence[Row], cases: Sequence[Case]) -> list[bool]:
    random = np.random.default_rng(0)
    kept = [kept_of(case) for case in cases]
    held: list[bool] = []
    for group in foundry.by_model(rows):
        for kind in dict.fromkeys(kept[index].pool.kind.name for index in group):
            like = {index: one for index, one in enumerate(kept) if one.pool.kind.name == kind}
            here = [one for index, one in like.items() if index in set(group)]
            others = [one for index, one in like.items() if index not in set(group)]
            for count in [few for few in _FEW for _ in range(_DRAWS) if few <= len(others)]:
                drawn = [others[index] for index in random.permutation(len(others))[:count]]
                learned = after(drawn, here[0])
                held += [_holds(one, learned) for one in here]
    return held


def _holds(one: Kept, learned: Learned) -> bool:
    seconds, spread, _ = card(one, learned)
    return bool(abs(np.log(one.measured_s / seconds)) <= TENTH * spread)


def _inside(cases: Iterable[Case]) -> np.ndarray:
    each = list(cases)
    said = seconds_of(each, Constants())
    off = np.abs(np.log(np.array([one.seconds for one in each]) / said))
    return np.asarray(off <= TENTH * SPREAD[Grade.FORMULA])
