"""T9: llm-foundry's 139 runs, each model's predicted from the others'."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.advisor.leaving_out import HeldOut, held_out
from benchmarks.advisor.setting import (
    Case,
    Figure,
    Row,
    errors,
    memory_of,
    pool_of,
    rows_of,
    seconds_of,
)
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.layout import FULL, NO_RECOMPUTE, Layout
from gpucommons.scheduler.advisor.network import Transformer
from gpucommons.scheduler.advisor.recipe import Recipe

#: MPT's sizes: layers, hidden, heads (llm-foundry's `scripts/train/yamls/pretrain`).
_SHAPES = {
    "125m": (12, 768, 12),
    "350m": (24, 1024, 16),
    "760m": (24, 1536, 12),
    "1b": (24, 2048, 16),
    "3b": (32, 2560, 20),
    "7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "30b": (48, 7168, 56),
    "70b": (80, 8192, 64),
}
_KINDS = {"a100_40gb": "A100-40", "a100_80gb": "A100-80", "h100_80gb": "H100-80"}


def figures(folder: Path) -> list[Figure]:
    """Errors leaving the row's model out, by one row per kind, and what is called to fit."""
    rows = rows_of(folder, "t9_llm_foundry.csv")
    if not rows:
        return []
    cases = [case_of(row) for row in rows]
    measured = np.array([one.seconds for one in cases])
    wrong = errors(without_model(folder).seconds, measured)
    trivial = errors(_constant_mfu(rows, cases), measured)
    by_one = errors(one_row(rows, cases), measured)
    fits = [float(memory_of(one).total[0]) <= one.pool.memory_bytes for one in cases]
    n = len(rows)
    return [
        Figure("T9", "median_percent", _at(wrong, 50), n, _at(trivial, 50), "constant MFU"),
        Figure("T9", "p90_percent", _at(wrong, 90), n, _at(trivial, 90), "constant MFU"),
        Figure("T9", "formula_median_percent", _at(by_one, 50), n),
        Figure("T9", "formula_p90_percent", _at(by_one, 90), n),
        Figure("T9", "fits_percent", 100 * float(np.mean(fits)), n),
    ]


def _at(values: np.ndarray, percent: int) -> float:
    return float(np.percentile(values, percent))


def case_of(row: Row) -> Case:
    """A row of the table."""
    layers, hidden, heads = _shape(row)
    sequence, gpus = int(row["SeqLen (T)"]), int(row["# GPUs"])
    micro, accumulation = int(row["MicroBatchSize"]), int(row["GradAccum"])
    network = Transformer(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        ffn=4 * hidden,
        vocabulary=50368,
        tied=True,
        positions=sequence,
    )
    batch = micro * accumulation * gpus
    precision = "bf16" if row["MP Mode"] == "PURE" else "amp"
    if row["Precision"].endswith("fp8"):
        precision = "fp8"
    layout = Layout(
        data=gpus,
        micro=micro,
        accumulation=accumulation,
        zero=3 if row["Sharding Strategy"] == "FULL_SHARD" else 2,
        recompute=FULL if row["Activation Checkpointing"] == "True" else NO_RECOMPUTE,
    )
    recipe = Recipe(batch=batch, sequence=sequence, precision=precision, loss="fused")
    seconds = batch * sequence / float(row["Throughput (T/s)"])
    kind = _KINDS.get(row["GPU"], row["GPU"])
    pool = pool_of(kind, gpus, "infiniband-1600" if kind.startswith("A100") else "infiniband-3200")
    return Case(network, recipe, layout, pool, seconds)


def _shape(row: Row) -> tuple[int, int, int]:
    """Layers, hidden size and heads; of a size that is not listed, by the proportions of those."""
    if row["Model"] in _SHAPES:
        return _SHAPES[row["Model"]]
    parameters = float(row["NumParams"])
    hidden = 128 * max(1, round((parameters / (12 * 0.008)) ** (1 / 3) / 128))
    return max(1, round(parameters / (12 * hidden**2))), hidden, max(1, hidden // 128)


@cache
def without_model(folder: Path) -> HeldOut:
    """Each row after those of the other models."""
    rows = rows_of(folder, "t9_llm_foundry.csv")
    return held_out([case_of(row) for row in rows], by_model(rows))


def by_model(rows: Sequence[Row]) -> list[list[int]]:
    """Rows of each model."""
    found: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        found[row["Model"]].append(index)
    return list(found.values())


def _constant_mfu(rows: Sequence[Row], cases: Sequence[Case]) -> np.ndarray:
    """The mean efficiency of other models on this kind, with the same recomputation."""
    found = []
    for row, case in zip(rows, cases, strict=True):
        same = [
            float(other["MFU"])
            for other in rows
            if other["Model"] != row["Model"]
            and other["GPU"] == row["GPU"]
            and other["Activation Checkpointing"] == row["Activation Checkpointing"]
        ]
        found.append(
            case.seconds * float(row["MFU"]) / float(np.mean(same)) if same else case.seconds * 2
        )
    return np.array(found)


def one_row(rows: Sequence[Row], cases: Sequence[Case]) -> np.ndarray:
    """By formula alone, with one row per GPU kind: the median row of another model."""
    found = []
    for row, case in zip(rows, cases, strict=True):
        others = [
            other
            for other_row, other in zip(rows, cases, strict=True)
            if other_row["GPU"] == row["GPU"] and other_row["Model"] != row["Model"]
        ]
        middle = others[len(others) // 2]
        factor = middle.seconds / float(seconds_of([middle], Constants())[0])
        found.append(factor * float(seconds_of([case], Constants())[0]))
    return np.array(found)
