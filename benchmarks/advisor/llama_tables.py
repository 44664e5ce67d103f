"""T6, T11 and T12: torchtitan's and torchtune's tables of Llama 3.1."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from benchmarks.advisor.setting import (
    RECOMPUTE,
    Case,
    Figure,
    Row,
    llama,
    memory_of,
    pool_of,
    rows_of,
    seconds_of,
)
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.kinds import GIB
from gpucommons.scheduler.advisor.layout import Layout
from gpucommons.scheduler.advisor.recipe import Adapters, Recipe


def figures(folder: Path) -> list[Figure]:
    """All three tables."""
    return [*_t6(folder), *_t11(folder), *_t12(folder)]


def measured(folder: Path) -> list[tuple[str, list[Case]]]:
    """Tables of times, each row with its seconds."""
    found = []
    for table in ("t6_torchtitan.csv", "t11_torchtitan.csv", "t12_torchtune.csv"):
        tuned = table.startswith("t12")
        cases = []
        for row in rows_of(folder, table):
            case = _tune_case(row) if tuned else _case(row)
            # torchtune counts tokens of all GPUs, torchtitan of one.
            gpus = 1 if tuned else case.layout.gpus
            tokens = case.recipe.batch * case.recipe.sequence
            cases.append(replace(case, seconds=tokens / gpus / float(row["tokens_per_s"])))
        found.append((table[:3].rstrip("_").upper(), cases))
    return found


def _case(row: Row) -> Case:
    data, tensor, pipeline, context = (
        int(row[name]) for name in ("gpus_sharding", "tensor", "pipeline", "context")
    )
    micro, accumulation = int(row["micro"]), int(row["accumulation"])
    layout = Layout(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        micro=micro,
        accumulation=accumulation,
        virtual=int(row["virtual"]),
        zero=3,
        recompute=RECOMPUTE[row["recompute"]],
        sequence_parallel=int(tensor > 1),
        async_tensor=int(row["async"]),
        weighed=1,  # its stages at both ends hold a layer less
    )
    recipe = Recipe(
        batch=data * micro * accumulation,
        sequence=int(row["sequence"]),
        precision=row["precision"],
        loss=row["loss"],
    )
    pool = pool_of(row.get("kind") or "H100-96", layout.gpus, "infiniband-3200")
    return Case(llama(row["model"]), recipe, layout, pool)


def _speed(case: Case) -> float:
    """Tokens per second and GPU."""
    seconds = float(seconds_of([case], Constants())[0])
    return case.recipe.batch * case.recipe.sequence / seconds / case.layout.gpus


def _memory_errors(rows: list[dict[str, str]], make: object) -> list[float]:
    assert callable(make)
    wrong = []
    for row in rows:
        if row["memory_gib"]:
            found = memory_of(make(row))
            # Frameworks report what torch reserved: the context is outside of it.
            held = float(found.total[0] - found.terms["context"][0]) / GIB
            wrong.append(abs(held / float(row["memory_gib"]) - 1) * 100)
    return wrong


def _t6(folder: Path) -> list[Figure]:
    rows = rows_of(folder, "t6_torchtitan.csv")
    wrong = _memory_errors(rows, _case)
    if not wrong:
        return []
    drops = []
    by_way: dict[tuple[str, str, str], dict[int, Row]] = defaultdict(dict)
    for row in rows:
        by_way[row["model"], row["loss"], row["precision"]][int(row["gpus_sharding"])] = row
    for sizes in by_way.values():
        if len(sizes) > 1:
            few, many = sizes[min(sizes)], sizes[max(sizes)]
            said = _speed(_case(many)) / _speed(_case(few))
            measured = float(many["tokens_per_s"]) / float(few["tokens_per_s"])
            drops.append(abs(said - measured) * 100)
    return [
        Figure("T6", "memory_percent", max(wrong), len(wrong)),
        Figure("T6", "drop_points", max(drops, default=0.0), len(drops)),
    ]


def _t11(folder: Path) -> list[Figure]:
    rows = rows_of(folder, "t11_torchtitan.csv")
    wrong = _memory_errors(rows, _case)
    if not wrong:
        return []
    pairs: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        pairs[row["pair"]].append(row)
    found, guessed = [], []
    for first, *others in pairs.values():
        for other in others:
            said = _speed(_case(other)) / _speed(_case(first))
            measured = float(other["tokens_per_s"]) / float(first["tokens_per_s"])
            found.append(abs(said / measured - 1) * 100)
            guessed.append(abs(_work(first) / _work(other) / measured - 1) * 100)
    return [
        Figure("T11", "ratio_percent", max(found), len(found), max(guessed), "constant MFU"),
        Figure("T11", "memory_percent", max(wrong), len(wrong)),
    ]


def _work(row: Row) -> float:
    """FLOPs per token."""
    net = llama(row["model"])
    return 6 * net.parameters + 12 * net.layers * net.hidden * int(row["sequence"])


def _tune_case(row: Row) -> Case:
    gpus = int(row["gpus"])
    adapters = Adapters(row["method"]) if row["method"] != "full" else Adapters.NONE
    full = adapters is Adapters.NONE
    recipe = Recipe(
        batch=2 * gpus,
        sequence=2048,
        precision="bf16",
        optimizer="adamw-8bit" if full else "adamw",
        paged_optimizer=full,
        step_in_backward=full,
        adapters=adapters,
        rank=16,
        loss_pieces=8,
    )
    layout = Layout(
        data=gpus,
        micro=2,
        zero=3 if gpus > 1 else 0,
        recompute=RECOMPUTE[row["recompute"]],
        offload=int(row["offload"]),
    )
    return Case(llama(row["model"]), recipe, layout, pool_of(row["kind"], gpus, "ethernet-100"))


def _t12(folder: Path) -> list[Figure]:
    rows = rows_of(folder, "t12_torchtune.csv")
    wrong = _memory_errors(rows, _tune_case)
    if not wrong:
        return []
    # `accelerate estimate-memory` counts four times the weights for training with Adam.
    trivial = [
        abs(
            4
            * 2
            * llama(row["model"]).parameters
            / int(row["gpus"])
            / GIB
            / float(row["memory_gib"])
            - 1
        )
        * 100
        for row in rows
    ]
    return [Figure("T12", "memory_percent", max(wrong), len(wrong), max(trivial), "4 × weights")]
