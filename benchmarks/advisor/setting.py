"""What all tables share: rows, models by name, one layout's prediction, and figures."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.kinds import Pool, shipped
from gpucommons.scheduler.advisor.layout import (
    ATTENTION,
    FULL,
    NO_RECOMPUTE,
    OPERATORS,
    Layout,
    layouts_of,
)
from gpucommons.scheduler.advisor.memory import Memory, memory
from gpucommons.scheduler.advisor.network import Transformer
from gpucommons.scheduler.advisor.recipe import Recipe
from gpucommons.scheduler.advisor.step import step

TABLES = Path(__file__).parent / "tables"
RECOMPUTE = {"none": NO_RECOMPUTE, "attention": ATTENTION, "operators": OPERATORS, "full": FULL}
Row = Mapping[str, str]
#: Standard deviations between the middle and the 10th or 90th of a hundred.
TENTH = 1.2816


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result."""

    table: str
    metric: str
    value: float | None
    n: int
    #: The same figure of a trivial guess, and which guess that is.
    trivial: float | None = None
    guess: str = ""
    #: Of which trace, where a figure has a row for each.
    of: str = ""

    def line(self) -> dict[str, object]:
        """As it is written."""
        found: dict[str, object] = {
            "table": self.table,
            "metric": self.metric,
            "value": None if self.value is None else round(float(self.value), 3),
            "n": self.n,
        }
        if self.trivial is not None:
            found |= {"trivial": round(float(self.trivial), 3), "guess": self.guess}
        return found | ({"of": self.of} if self.of else {})


@dataclass(frozen=True, slots=True)
class Case:
    """One measured run: everything that the model may know, and its seconds per step."""

    network: Transformer
    recipe: Recipe
    layout: Layout
    pool: Pool
    seconds: float = 0.0


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    """Rows of a table; none if the folder lacks it."""
    path = folder / name
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


#: Layers, hidden, heads, heads of keys, feed-forward part, vocabulary, one matrix for both ends.
_LLAMAS = {
    "8b": (32, 4096, 32, 8, 14336, 128256, False),
    "70b": (80, 8192, 64, 8, 28672, 128256, False),
    "405b": (126, 16384, 128, 8, 53248, 128256, False),
    "llama2-7b": (32, 4096, 32, 32, 11008, 32000, False),
    "llama2-13b": (40, 5120, 40, 40, 13824, 32000, False),
    "llama2-70b": (80, 8192, 64, 8, 28672, 32000, False),
    "llama3.2-1b": (16, 2048, 32, 8, 8192, 128256, True),
    "llama3.2-3b": (28, 3072, 24, 8, 8192, 128256, True),
}


def llama(name: str) -> Transformer:
    """Llama, from its configuration; without a prefix, that of 3.1."""
    layers, hidden, heads, kv_heads, ffn, vocabulary, tied = _LLAMAS[name]
    return Transformer(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        ffn=ffn,
        vocabulary=vocabulary,
        gated=True,
        tied=tied,
    )


def gpt(layers: int, hidden: int, heads: int, vocabulary: int = 51200) -> Transformer:
    """GPT in Megatron's form."""
    return Transformer(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        ffn=4 * hidden,
        vocabulary=vocabulary,
        tied=True,
        dropout=True,
        positions=2048,
    )


def pool_of(kind: str, gpus: int, between: str, per_node: int = 8) -> Pool:
    """A pool of the shipped tables."""
    tables = shipped()
    found = tables.kinds[kind]
    return Pool(
        kind=found,
        gpus_per_node=min(per_node, gpus),
        nodes=max(1, gpus // per_node),
        inside=found.link,
        between=tables.links[between],
    )


def seconds_of(cases: Sequence[Case], known: Constants) -> np.ndarray:
    """Predicted seconds per step."""
    return np.array(
        [
            step(one.network, one.recipe, layouts_of(one.layout), one.pool, known).total[0]
            for one in cases
        ]
    )


def memory_of(case: Case) -> Memory:
    """Predicted memory."""
    return memory(case.network, case.recipe, layouts_of(case.layout))


def errors(predicted: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Errors in percent, without their sign."""
    return np.asarray(np.abs(predicted / measured - 1) * 100)
