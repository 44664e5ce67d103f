"""T2, T3, T7 and T10: tensor and pipeline parallel, and memory, as Megatron's papers report them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.advisor.leaving_out import held_out
from benchmarks.advisor.setting import (
    Case,
    Figure,
    Row,
    errors,
    gpt,
    memory_of,
    pool_of,
    rows_of,
    seconds_of,
)
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.kinds import GIB
from gpucommons.scheduler.advisor.layout import ATTENTION, FULL, Layout, layouts_of
from gpucommons.scheduler.advisor.memory import kept_activations, states
from gpucommons.scheduler.advisor.network import Transformer
from gpucommons.scheduler.advisor.recipe import Recipe

_SEQUENCE = 2048


def figures(folder: Path) -> list[Figure]:
    """All four tables."""
    return [*_t2(folder), *_t3(folder), *_t7(folder), *_t10(folder)]


def measured(folder: Path) -> list[tuple[str, list[Case]]]:
    """Tables of times, each row with its seconds."""
    second = [(row, _case(row)) for row in rows_of(folder, "t2_megatron.csv")]
    timed = [(row["scheme"], replace(case, seconds=_measured_s(row, case))) for row, case in second]
    third = rows_of(folder, "t3_mtnlg.csv")
    return [
        ("T2 pipelined", [case for scheme, case in timed if scheme == "ptd"]),
        ("T2 sharded", [case for scheme, case in timed if scheme == "zero3"]),
        ("T3", [replace(_case(row), seconds=float(row["seconds"])) for row in third]),
        ("T7", [_core_case(row) for row in rows_of(folder, "t7_megatron_core.csv")]),
    ]


def _case(row: Row) -> Case:
    tensor, pipeline, gpus = int(row["tensor"]), int(row["pipeline"]), int(row["gpus"])
    batch, micro = int(row["batch"]), int(row["micro"])
    data = gpus // (tensor * pipeline)
    sharded = row.get("scheme") == "zero3"
    layout = Layout(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        micro=micro,
        accumulation=batch // (data * micro),
        zero=3 if sharded else 0,
        recompute=FULL,
    )
    recipe = Recipe(
        batch=batch,
        sequence=_SEQUENCE,
        precision="fp16" if "scheme" in row else "megatron",
        flash=False,
        loss="fused",
    )
    network = gpt(int(row["layers"]), int(row["hidden"]), int(row["heads"]))
    return Case(network, recipe, layout, pool_of("A100-80", gpus, "infiniband-1600"))


def _flops(case: Case) -> float:
    """Narayanan et al. 2021, equation 3: with recomputation."""
    net, sequence = case.network, case.recipe.sequence
    inner = 1 + sequence / (6 * net.hidden) + net.vocabulary / (16 * net.layers * net.hidden)
    return 96 * case.recipe.batch * sequence * net.layers * net.hidden**2 * inner


def _measured_s(row: Row, case: Case) -> float:
    return _flops(case) / (float(row["tflops"]) * 1e12 * case.layout.gpus)


def _scaled(known: Constants, factor: float) -> Constants:
    """Compute efficiency as one measured row has it."""
    return replace(
        known,
        products=known.products * factor,
        attention=known.attention * factor,
        traffic=known.traffic * factor,
    )


def _calibrated(case: Case, seconds: float) -> Constants:
    """One row sets how fast GPUs compute; links stay as they are."""
    known = Constants()
    for _ in range(12):
        known = _scaled(known, float(seconds_of([case], known)[0]) / seconds)
    return known


def _t2(folder: Path) -> list[Figure]:
    read = [(row, _case(row)) for row in rows_of(folder, "t2_megatron.csv")]
    cases = [(row["scheme"], case, _measured_s(row, case)) for row, case in read]
    plain = [(case, seconds) for scheme, case, seconds in cases if scheme == "ptd"]
    found, guessed = [], []
    for network in dict.fromkeys(case.network for case, _ in plain):
        first, *others = [one for one in plain if one[0].network == network]
        known = _calibrated(*first)
        for case, seconds in others:
            found.append(float(errors(seconds_of([case], known), np.array([seconds]))[0]))
            perfect = first[1] * first[0].layout.gpus / case.layout.gpus
            perfect *= case.recipe.batch / first[0].recipe.batch
            guessed.append(abs(perfect / seconds - 1) * 100)
    return [
        _worst("T2", "ptd_percent", found, guessed, "perfect scaling"),
        *_zero([(case, seconds) for scheme, case, seconds in cases if scheme == "zero3"], plain),
    ]


def _zero(sharded: list[tuple[Case, float]], plain: list[tuple[Case, float]]) -> list[Figure]:
    """Compute efficiency from the first pipelined row, the network's from one sharded row."""
    if not sharded or not plain:
        return []
    known = _calibrated(*plain[0])
    # Communication is hidden but for its peak: full prefetch of the next layer's weights.
    known = replace(known, overlap=3.0)
    slowest = max(sharded[:3], key=lambda one: one[0].layout.gpus)
    for _ in range(30):
        found = float(seconds_of([slowest[0]], known)[0])
        known = replace(known, between=known.between * (found / slowest[1]))
    others = [one for one in sharded if one is not slowest]
    predicted = seconds_of([case for case, _ in others], known)
    wrong = errors(predicted, np.array([seconds for _, seconds in others]))
    perfect = [
        sharded[0][1]
        * sharded[0][0].layout.gpus
        / case.layout.gpus
        * _flops(case)
        / _flops(sharded[0][0])
        for case, _ in others
    ]
    guess = errors(np.array(perfect), np.array([seconds for _, seconds in others]))
    return [_worst("T2", "zero_percent", list(wrong), list(guess), "constant efficiency")]


def _worst(table: str, metric: str, found: list[float], trivial: list[float], guess: str) -> Figure:
    if not found:
        return Figure(table, metric, None, 0)
    return Figure(table, metric, max(found), len(found), max(trivial), guess)


def _t3(folder: Path) -> list[Figure]:
    read = [(row, _case(row)) for row in rows_of(folder, "t3_mtnlg.csv")]
    if not read:
        return []
    measured = np.array([float(row["seconds"]) for row, _ in read])
    cases = [case for _, case in read]
    known = _calibrated(cases[0], measured[0])
    wrong = errors(seconds_of(cases[1:], known), measured[1:])
    gpus = np.array([case.layout.gpus for case in cases])
    perfect = measured[0] * gpus[0] / gpus[1:]
    guess = errors(perfect, measured[1:])
    return [_worst("T3", "error_percent", list(wrong), list(guess), "perfect scaling")]


def _t7(folder: Path) -> list[Figure]:
    rows = rows_of(folder, "t7_megatron_core.csv")
    if not rows:
        return []
    cases = [_core_case(row) for row in rows]
    reached = np.array([float(row["tflops"]) for row in rows])
    measured = np.array([case.seconds for case in cases])
    found = errors(held_out(cases, [[index] for index in range(len(rows))]).seconds, measured)
    others = (np.sum(reached) - reached) / max(1, len(rows) - 1)
    guessed = np.abs(others / reached - 1) * 100
    mean, trivial = float(np.mean(found)), float(np.mean(guessed))
    return [Figure("T7", "error_percent", mean, len(rows), trivial, "constant MFU")]


def _core_case(row: Row) -> Case:
    """A row of the README's table of models; it names no micro-batch and no interleaving."""
    chosen = [case for case in _core_cases(row) if _fits(case)] or [next(_core_cases(row))]
    said = seconds_of(chosen, Constants())
    return chosen[int(np.argmin(said))]


def _fits(case: Case) -> bool:
    return float(memory_of(case).total[0]) <= case.pool.memory_bytes


def _core_cases(row: Row) -> Iterator[Case]:
    """What its authors may have run: of these that one is taken that the formula finds fastest.

    Tables of the first form name no batch; it is 192 sequences per pipeline stage in all rows.
    """
    pipeline, layers = int(row["pipeline"]), int(row["layers"])
    data = int(row.get("data") or 48)
    batch = int(row.get("batch") or 4 * data * pipeline)
    each = batch // data
    for micro in _divisors(each):
        accumulation = each // micro
        # Interleaved schedules need a multiple of the stages (Megatron's own check).
        can = pipeline > 1 and accumulation % pipeline == 0
        for virtual in _divisors(layers // pipeline) if can else [1]:
            yield _core_case_of(row, data, micro, accumulation, virtual)


def _divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


def _core_case_of(row: Row, data: int, micro: int, accumulation: int, virtual: int) -> Case:
    tensor, pipeline = int(row["tensor"]), int(row["pipeline"])
    layers, hidden = int(row["layers"]), int(row["hidden"])
    batch = data * micro * accumulation
    recipe = Recipe(batch=batch, sequence=4096, precision="megatron", loss="fused")
    layout = Layout(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        micro=micro,
        accumulation=accumulation,
        zero=1,
        virtual=virtual,
        sequence_parallel=1,
        async_tensor=1,
    )
    pool = pool_of("H100-80", data * tensor * pipeline, "infiniband-3200")
    heads = int(row.get("heads") or hidden // 128)
    network = replace(gpt(layers, hidden, heads, 131072), tied=False, dropout=False)
    # Work without the embedding, which multiplies nothing.
    token = 6 * (network.parameters - network.head_parameters) + 12 * layers * hidden * 4096
    seconds = token * batch * 4096 / (float(row["tflops"]) * 1e12 * layout.gpus)
    return Case(network, recipe, layout, pool, seconds)


def _t10(folder: Path) -> list[Figure]:
    wrong: list[float] = []
    ratios: list[float] = []
    for row in rows_of(folder, "t10_memory.csv"):
        network = gpt(int(row["layers"]), int(row["hidden"]), int(row["heads"]))
        wrong += [
            abs(found / float(row[name]) - 1) * 100 for name, found in _memory_of(row, network)
        ]
        again, both = (_ratio_case(row, network, way) for way in ("full", "both"))
        known = Constants(recompute=1.0)
        found = seconds_of([again], known)[0] / seconds_of([both], known)[0]
        ratios.append(abs(found / (float(row["full_s"]) / float(row["both_s"])) - 1) * 100)
    if not wrong:
        return []
    return [
        Figure("T10", "memory_percent", max(wrong), len(wrong)),
        Figure("T10", "ratio_percent", max(ratios), len(ratios)),
    ]


def _layout10(row: Row, *, sequence_parallel: bool, recompute: int) -> Layout:
    return Layout(
        tensor=int(row["tensor"]),
        pipeline=int(row["pipeline"]),
        virtual=int(row["virtual"]),
        micro=int(row["micro"]),
        accumulation=int(row["accumulation"]),
        recompute=recompute,
        sequence_parallel=int(sequence_parallel),
    )


def _recipe10(row: Row) -> Recipe:
    batch = int(row["micro"]) * int(row["accumulation"])
    return Recipe(batch=batch, sequence=_SEQUENCE, precision="megatron", flash=False, loss="fused")


def _memory_of(row: Row, network: Transformer) -> list[tuple[str, float]]:
    """The paper's figures count layers only: embeddings are left out here as well."""
    recipe = _recipe10(row)
    inner = replace(network, vocabulary=1, positions=0)
    ways = {
        "none_gib": (False, 0),
        "both_gib": (True, ATTENTION),
        "sp_percent": (True, 0),
        "selective_percent": (False, ATTENTION),
        "both_percent": (True, ATTENTION),
        "full_percent": (False, FULL),
    }
    kept = {
        name: float(
            kept_activations(
                network,
                recipe,
                layouts_of(_layout10(row, sequence_parallel=parallel, recompute=recompute)),
            )[0]
        )
        for name, (parallel, recompute) in ways.items()
    }
    plain = layouts_of(_layout10(row, sequence_parallel=False, recompute=0))
    held = sum(float(one[0]) for one in states(inner, recipe, plain).values())
    share = {name: 100 * value / kept["none_gib"] for name, value in kept.items()}
    return [
        ("states_gib", held / GIB),
        *((name, kept[name] / GIB) for name in ("none_gib", "both_gib")),
        *((name, share[name]) for name in ways if name.endswith("percent")),
    ]


def _ratio_case(row: Row, network: Transformer, way: str) -> Case:
    both = way == "both"
    layout = _layout10(row, sequence_parallel=both, recompute=ATTENTION if both else FULL)
    return Case(network, _recipe10(row), layout, pool_of("A100-80", layout.gpus, "infiniband-1600"))
