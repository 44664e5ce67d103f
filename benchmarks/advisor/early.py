"""T1 and T13: a ConvNet on a star of links (2013), and DeepSpeed's autotuner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.advisor.setting import Case, Figure, gpt, memory_of, pool_of, rows_of, seconds_of
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.kinds import GpuKind, Link, Pool
from gpucommons.scheduler.advisor.layout import Layout, layouts_of
from gpucommons.scheduler.advisor.network import Traced
from gpucommons.scheduler.advisor.recipe import Recipe
from gpucommons.scheduler.advisor.step import step


def figures(folder: Path) -> list[Figure]:
    """Both tables."""
    return [*_t1(folder), *_t13(folder)]


def _t1(folder: Path) -> list[Figure]:
    """Calibrated on one and two GPUs; four are predicted. Every GPU sends through one root."""
    rows = rows_of(folder, "t1_convnet.csv")
    days = {(int(row["data"]), int(row["model"])): float(row["days"]) for row in rows}
    if not {(1, 1), (1, 2), (2, 1)} <= set(days):
        return []
    wire = days[2, 1] - days[1, 1] / 2
    halves = days[1, 2] - days[1, 1] / 2
    found, guessed, said = [], [], {}
    for (data, model), measured in days.items():
        if data * model > 2:
            # A pair that shares a model exchanges activations of its part of the batch alone.
            said[data, model] = (
                _star_days(data, model, days[1, 1], wire) + (model > 1) * halves / data
            )
            found.append(abs(said[data, model] / measured - 1) * 100)
            guessed.append(abs(days[1, 1] / (data * model) / measured - 1) * 100)
    order = sorted(said, key=lambda one: said[one]) == sorted(said, key=lambda one: days[one])
    slower = said.get((4, 1), 0.0) > days[2, 1]  # more GPUs do not help where all data is parallel
    return [
        Figure("T1", "order", 100.0 * (order and slower), len(said)),
        Figure("T1", "error_percent", max(found), len(found), max(guessed), "perfect scaling"),
    ]


def _star_days(data: int, model: int, one_gpu: float, wire: float) -> float:
    """Days by the step model: one FLOP a day, a root that a pair's gradients cross in `wire`."""
    network = Traced(parameters=1_000_000, forward_flops=1.0, activation_bytes=0.0)
    recipe = Recipe(batch=data, precision="fp32", optimizer="sgd", loss="plain")
    root = Link(bytes_per_s=1_000_000 * 4 / wire, latency_s=0.0, shared=True)
    kind = GpuKind(
        name="GPU of 2012",
        memory_bytes=6e9,
        memory_bytes_per_s=1e30,
        peak={"fp32": 3.0 * model * data / one_gpu / data},
        link=root,
    )
    pool = Pool(kind=kind, gpus_per_node=data, nodes=1, inside=root, between=root)
    known = Constants(products=1.0, overlap=1.0, overlap_at_end=1.0, inside=1.0, launch_s=1e-12)
    # The work of the whole batch is shared out: a rank does one part of it.
    shared = replace(network, forward_flops=1.0 / data)
    return float(step(shared, recipe, layouts_of(Layout(data=data)), pool, known).total[0])


def _t13(folder: Path) -> list[Figure]:
    """Of the plans that the autotuner tried, the one that the model takes, at 0 experiments."""
    rows = rows_of(folder, "t13_autotuner.csv")
    if not rows:
        return []
    speeds = []
    for row in rows:
        micro = int(row["micro"])
        network = gpt(36, 1280, 20, 50257)
        recipe = Recipe(
            batch=16 * micro, sequence=1024, precision="fp16", flash=False, loss="plain"
        )
        layout = Layout(data=16, micro=micro, zero=int(row["zero"]))
        case = Case(network, recipe, layout, pool_of("V100-32", 16, "infiniband-800", per_node=16))
        fits = float(memory_of(case).total[0]) <= case.pool.memory_bytes
        speeds.append(recipe.batch / float(seconds_of([case], Constants())[0]) if fits else 0.0)
    measured = [float(row["samples_per_s"]) for row in rows]
    chosen = measured[int(np.argmax(speeds))]
    gap = (max(measured) / chosen - 1) * 100
    return [
        Figure(
            "T13", "gap_percent", gap, len(rows), (max(measured) / measured[0] - 1) * 100, "default"
        )
    ]
